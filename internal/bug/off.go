//go:build !daybook_bugs

package bug

// Enabled says whether this binary has seeded bugs.
const Enabled = false

// On is false in this build, and so is compiled away.
func On(Bug) bool { return false }

//go:build daybook_faults && !race

package e2e

// raceFlags build the binaries under test as the test itself was built.
func raceFlags() []string { return []string{"-race=false"} }

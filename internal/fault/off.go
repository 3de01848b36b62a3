//go:build !daybook_faults

package fault

import (
	"errors"
	"os"
)

// Enabled says whether this binary has failpoints.
const Enabled = false

// Point does nothing in this build; see the package comment.
func Point(string) {}

// Err returns nil in this build; see the package comment.
func Err(string) error { return nil }

// Check returns an error if the environment asks for faults, which this binary
// cannot give: a test that went on would prove nothing.
func Check() error {
	if os.Getenv("DAYBOOK_FAULTS") == "" {
		return nil
	}
	return errors.New("DAYBOOK_FAULTS is set, but this binary has no failpoints: build it with -tags daybook_faults")
}

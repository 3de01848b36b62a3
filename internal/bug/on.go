//go:build daybook_bugs

package bug

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Enabled says whether this binary has seeded bugs.
const Enabled = true

// active reads the environment once. A name that does not exist would prove that
// every test finds nothing, so it ends the process.
var active = sync.OnceValue(func() Bug {
	b := Bug(os.Getenv("DAYBOOK_BUG"))
	if b != "" && !slices.Contains(All(), b) {
		var names []string
		for _, b := range All() {
			names = append(names, string(b))
		}
		panic(fmt.Sprintf("DAYBOOK_BUG: there is no bug %q; there are %s", b, strings.Join(names, ", ")))
	}
	return b
})

// On reports whether a bug is switched on.
func On(b Bug) bool { return b == active() }

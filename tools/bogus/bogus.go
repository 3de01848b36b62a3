// Package bogus is a set of invented tools for wiring and tests: no network,
// no bill, the same answer every time, and answers that nobody can know
// without calling. Every reply carries a receipt, so that searching a final
// answer for "bogus-" tells which tools really fed it.
package bogus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/daybookhq/daybook/tools"
)

// Tools returns all fixtures.
func Tools() []tools.Tool { return []tools.Tool{MyNotes(), FeedCat(), OrderPizza()} }

// Receipt returns bogus-<tool>-<6 hexadecimal digits>, always the same for the
// same tool and key.
func Receipt(tool, key string) string {
	sum := sha256.Sum256([]byte(tool + "\x00" + key))
	return fmt.Sprintf("bogus-%s-%s", tool, hex.EncodeToString(sum[:3]))
}

// must is for declarations that are constants of this package.
func must(t tools.Tool, err error) tools.Tool {
	if err != nil {
		panic(err)
	}
	return t
}

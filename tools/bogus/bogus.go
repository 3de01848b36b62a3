// Package bogus is a set of invented tools for wiring and tests: no network,
// no bill, the same answer every time, and answers that nobody can know
// without calling. Every reply carries a receipt, so that searching a final
// answer for "bogus-" tells which tools really fed it.
//
// They are no imitations of real services and no benchmark, and they are a
// package of their own so that nothing has them by accident: whoever ships one
// makes a model tell a customer a price that is not true.
package bogus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// Tools returns all twelve: eight readonly, one idempotent, three destructive.
func Tools() []tools.Tool {
	return []tools.Tool{
		MyNotes(), MyCalendar(), MyRecipes(), Dictionary(), FootballScore(), GoldPrice(), PrayerTimes(), Calculator(),
		FeedCat(), OrderPizza(), BookTaxi(), AskMum(),
	}
}

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

// folded is how fixtures look things up: lower case, single spaces.
func folded(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// clock is a time of day, from minutes after midnight.
func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60%24, minutes%60) }

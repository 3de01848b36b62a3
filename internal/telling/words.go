// Package telling says in plain words what the ledger holds: an event in a line, a
// run as a transcript. It reads records and writes sentences; commands and the page
// show the same ones. Texts of runs are in them as they were recorded: whoever shows
// them makes them harmless for the place.
package telling

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Stamp is a moment for people and scripts alike: UTC, RFC 3339, whole seconds.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Plural is "1 call" or "2 calls".
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Either joins what is not empty.
func Either(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

// Said is what a tool's result says, in one line.
func Said(r events.ToolResult) string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Output != "":
		return r.Output
	default:
		return r.Status
	}
}

// Amount is one price, or the word for none.
func Amount(p *events.PicoUSD, word string) string {
	if p == nil {
		return word
	}
	return p.String()
}

func RefName(r *events.CallRef) string {
	if r == nil {
		return ""
	}
	return r.Run.String() + "/" + r.Call.String()
}

// When is s if it is so.
func When(so bool, s string) string {
	if so {
		return s
	}
	return ""
}

func With(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// Dollars is a sum as decimal text.
type Dollars struct{ Pico *big.Int }

// MarshalText writes decimal Dollars.
func (d Dollars) MarshalText() ([]byte, error) { return []byte(events.FormatPico(d.OrZero())), nil }

// OrZero is the sum, 0 if there is none.
func (d Dollars) OrZero() *big.Int {
	if d.Pico == nil {
		return new(big.Int)
	}
	return d.Pico
}

// UnmarshalText reads decimal dollars.
func (d *Dollars) UnmarshalText(b []byte) (err error) {
	d.Pico, err = events.ParsePico(string(b))
	return err
}

// keyDigits is how much of an op key tables show; resolve takes as much.
const keyDigits = 16

// ShortKey is the beginning of an op key.
func ShortKey(h events.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()[:keyDigits]
}

package ui

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// ago is how long ago a moment was, in its largest unit.
func (c chrome) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := c.now.Sub(t)
	if d < 0 {
		return "in " + largest(-d)
	}
	return largest(d) + " ago"
}

func largest(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
}

// stamp is a moment, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// machine is a moment as the datetime of a time element.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// took is how long something took: exact while it is short.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// count is a number with its thousands apart.
func count[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	if neg {
		return "−" + s
	}
	return s
}

// plural is "1 call" or "2 calls".
func plural[N int | int64 | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// dollars is a sum, to the hundredth of a cent unless it is smaller than that;
// exact is what is stored.
func dollars(v *big.Int) string {
	if v == nil || v.Sign() == 0 {
		return "$0"
	}
	exact := events.FormatPico(v)
	whole, part, _ := strings.Cut(exact, ".")
	if whole != "0" && whole != "-0" && len(part) > 2 {
		return "$" + whole + "." + part[:2]
	}
	lead := len(part) - len(strings.TrimLeft(part, "0"))
	if keep := max(lead+2, 4); len(part) > keep {
		return "$" + whole + "." + part[:keep]
	}
	return "$" + exact
}

func exact(v *big.Int) string {
	if v == nil {
		return "0 USD"
	}
	return events.FormatPico(v) + " USD"
}

// unknowns says what is not in a sum: an unknown price is never shown as 0.
func unknowns(unpriced, unmeasured, unsettled int64) string {
	var parts []string
	for _, u := range []struct {
		n    int64
		word string
	}{{unpriced, "unpriced"}, {unmeasured, "unmeasured"}, {unsettled, "unsettled"}} {
		if u.n > 0 {
			parts = append(parts, count(u.n)+" "+u.word)
		}
	}
	return strings.Join(parts, ", ")
}

// tail is the end of a run's id, by which people tell runs apart.
func tail(id events.RunID) string {
	s := id.String()
	return s[len(s)-8:]
}

// standing says in a few words where a run stands.
func (c chrome) standing(r ledger.Run) string {
	switch {
	case r.State == ledger.Parked && r.ParkReason == events.ParkEffectBusy && !c.who.All():
		return words(string(r.ParkReason)) // the detail names a run
	case r.State == ledger.Parked:
		return joined(": ", words(string(r.ParkReason)), r.ParkDetail)
	case r.State == ledger.Cancelling:
		return joined(": ", "asked for by "+r.CancelBy, r.CancelReason)
	case r.State == ledger.Running && !r.LeaseUntil.IsZero() && !r.LeaseUntil.After(c.now):
		return "the lease of " + r.Worker + " ran out " + c.ago(r.LeaseUntil)
	case r.State == ledger.Running && r.Worker != "":
		return "by " + r.Worker
	case r.State == ledger.Queued && r.DueAt.After(c.now):
		return "due " + c.ago(r.DueAt)
	case !r.HeldAt.IsZero():
		return joined(": ", "paused by "+r.HeldBy, r.HeldReason)
	case r.Error != "":
		return joined(": ", words(string(r.StoppedBy)), r.Error)
	}
	return joined(": ", words(string(r.StoppedBy)), r.DeclinedBecause())
}

// words is a stored name as people write it.
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// joined joins what is not empty.
func joined(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

package builtin

import (
	"fmt"
	"strings"
	"time"
)

// unit is a whole unit of the calendar or the clock.
type unit string

// Units that date_math and dates know, the largest first.
const (
	year   unit = "year"
	month  unit = "month"
	week   unit = "week"
	day    unit = "day"
	hour   unit = "hour"
	minute unit = "minute"
	second unit = "second"
)

// maxAmount is beyond what any two moments of the years 1 to 9999 are apart, in
// seconds.
const maxAmount = 400_000_000_000

// when is a day, or a moment of one.
type when struct {
	t time.Time
	// clock is set if a time of day was given. A day alone is its midnight, UTC.
	clock bool
}

const wantWhen = "want a day as in 2026-03-01, or a moment with its zone as in 2026-03-01T09:30:00Z"

// parseWhen reads an ISO day or an RFC 3339 moment of the years 1 to 9999.
func parseWhen(s string) (when, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return when{t: t}.check()
	}
	// The standard library takes a comma before fractions, and days with hours of one digit; RFC 3339 does not.
	if len(s) <= 64 && !strings.Contains(s, ",") {
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return when{ownZone(t), true}.check()
		}
	}
	if len(s) > 64 {
		return when{}, fmt.Errorf("a text of %d bytes is no date; %s", len(s), wantWhen)
	}
	return when{}, fmt.Errorf("%q is no date; %s", s, wantWhen)
}

// ownZone takes t out of the zone of the process, into which time.Parse puts a
// moment that has its offset: the rules of that zone are not those of the model.
func ownZone(t time.Time) time.Time {
	if _, offset := t.Zone(); offset != 0 {
		return t.In(time.FixedZone("", offset))
	}
	return t.UTC()
}

func (w when) check() (when, error) {
	if y := w.t.Year(); y < 1 || y > 9999 {
		return when{}, fmt.Errorf("the year %d is outside of 1 to 9999", y)
	}
	return w, nil
}

// String is the day, or the moment in the zone it was given in.
func (w when) String() string {
	if w.clock {
		return w.t.Format(time.RFC3339Nano)
	}
	return w.t.Format(time.DateOnly)
}

// add moves w by n units. Months and years keep the day of the month, and take
// the last one where there is no such day.
func (w when) add(n int64, u unit) (when, error) {
	if n > maxAmount || n < -maxAmount {
		return when{}, fmt.Errorf("%d %ss are outside of the years 1 to 9999", n, u)
	}
	var moved time.Time
	switch u {
	case year, month:
		months := n
		if u == year {
			months *= 12
		}
		if months > 12*10_000 || months < -12*10_000 {
			return when{}, fmt.Errorf("%d %ss are outside of the years 1 to 9999", n, u)
		}
		moved = addMonths(w.t, int(months))
	case week, day:
		days := n
		if u == week {
			days *= 7
		}
		if days > 4_000_000 || days < -4_000_000 {
			return when{}, fmt.Errorf("%d %ss are outside of the years 1 to 9999", n, u)
		}
		moved = w.t.AddDate(0, 0, int(days))
	default:
		if !w.clock {
			return when{}, fmt.Errorf("a day has no %ss to count from: give a moment with its zone, as in %sT00:00:00Z", u, w)
		}
		// A Duration reaches 292 years only; seconds since 1970 reach all of them.
		sec := n * clockUnits[u]
		moved = time.Unix(w.t.Unix()+sec, int64(w.t.Nanosecond())).In(w.t.Location())
	}
	return when{moved, w.clock}.check()
}

// clockUnits are units of the clock, in seconds.
var clockUnits = map[unit]int64{hour: 3600, minute: 60, second: 1}

func addMonths(t time.Time, n int) time.Time {
	y, m, d := t.Date()
	first := time.Date(y, m+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	hh, mm, ss := t.Clock()
	return time.Date(first.Year(), first.Month(), min(d, last), hh, mm, ss, t.Nanosecond(), t.Location())
}

// difference counts the boundaries of u that are crossed on the way from a to
// b: midnights, Mondays, firsts of a month. It is negative if b is before a. Both
// are looked at in the zone of a.
func difference(a, b when, u unit) (int64, error) {
	if a.clock != b.clock {
		return 0, fmt.Errorf("%s is a day and %s is a moment: give two days or two moments", onlyDay(a, b), onlyMoment(a, b))
	}
	x, y := a.t, b.t.In(a.t.Location())
	switch u {
	case year:
		return int64(y.Year() - x.Year()), nil
	case month:
		return int64((y.Year()-x.Year())*12 + int(y.Month()) - int(x.Month())), nil
	case week:
		return floorDiv(dayNumber(y)+monday, 7) - floorDiv(dayNumber(x)+monday, 7), nil
	case day:
		return dayNumber(y) - dayNumber(x), nil
	}
	if !a.clock {
		return 0, fmt.Errorf("days have no %ss to count: give two moments with their zones, as in %sT00:00:00Z", u, a)
	}
	per := clockUnits[u]
	return floorDiv(wallSeconds(y), per) - floorDiv(wallSeconds(x), per), nil
}

func onlyDay(a, b when) when {
	if a.clock {
		return b
	}
	return a
}

func onlyMoment(a, b when) when {
	if a.clock {
		return a
	}
	return b
}

// monday makes weeks begin on Mondays, as in ISO 8601: day 0, 1970-01-01, was a Thursday.
const monday = 3

// dayNumber counts days of the calendar since 1970-01-01, in t's own zone.
func dayNumber(t time.Time) int64 { return floorDiv(wallSeconds(t), 86400) }

// wallSeconds are the seconds since 1970-01-01 that a clock on the wall of t's zone shows.
func wallSeconds(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// counted is "1 month", "192 days".
func counted(n int64, u unit) string {
	if n == 1 || n == -1 {
		return fmt.Sprintf("%d %s", n, u)
	}
	return fmt.Sprintf("%d %ss", n, u)
}

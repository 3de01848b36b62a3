package ledger

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a schedule fires at the same times on a machine without zoneinfo

	"github.com/robfig/cron/v3"
)

// Cron is a cron expression in a time zone: when a schedule fires. The zero
// value never fires. Safe for concurrent use.
//
// A fire is a moment whose time on the zone's clocks matches the expression.
// Where the clocks change:
//   - A local time that does not exist (02:30 where the clocks go from 02:00 to
//     03:00) fires at the first moment after the gap, once for all that fall into it.
//   - A local time that happens twice fires once, the first time.
//
// An expression whose hour is * is about intervals, not about times of the day:
// it fires at every moment whose minute matches, so both in the hour that
// happens twice and not for the one that does not exist.
type Cron struct {
	spec  *cron.SpecSchedule
	zone  *time.Location
	every bool // the hour is *
}

// starBit is how the library marks a field that is *; it keeps the name to itself.
const starBit = 1 << 63

// ParseCron reads five fields (minute, hour, day of month, month, day of week)
// or @yearly, @monthly, @weekly, @daily or @hourly, for the clocks of a zone of
// the IANA database; no zone is UTC. The error says what to write instead.
func ParseCron(expression, zone string) (Cron, error) {
	fail := func(format string, args ...any) (Cron, error) {
		return Cron{}, fmt.Errorf("cron expression %q: %w", expression, fmt.Errorf(format, args...))
	}
	expression = strings.TrimSpace(expression)
	fields := strings.Fields(expression)
	switch {
	case len(fields) == 0:
		return fail("empty: want five fields (minute hour day-of-month month day-of-week) such as %q, or @daily", "30 2 * * 1-5")
	case strings.Contains(fields[0], "TZ="):
		return fail("the time zone is not part of it: give it by itself, such as Europe/Berlin")
	case strings.HasPrefix(expression, "@every"):
		return fail("@every has no times that would be the same after a restart: write the minutes, such as %q or %q", "*/5 * * * *", "0 */2 * * *")
	case len(fields) == 6:
		return fail("six fields: seconds are not supported, want five (minute hour day-of-month month day-of-week) such as %q", "30 2 * * 1-5")
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(expression)
	if err != nil {
		return fail("%w: want five fields (minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-6 or sun-sat) such as %q, or @yearly, @monthly, @weekly, @daily, @hourly", err, "30 2 * * 1-5")
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return fail("not five fields: write them, such as %q", "30 2 * * 1-5")
	}
	spec.Location = time.UTC // it only ever sees local times written as UTC
	loc, err := loadZone(zone)
	if err != nil {
		return Cron{}, err
	}
	c := Cron{spec: spec, zone: loc, every: spec.Hour&starBit != 0}
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return fail("there is no such day: it would never fire")
	}
	return c, nil
}

func loadZone(name string) (*time.Location, error) {
	switch name {
	case "":
		return time.UTC, nil
	case "Local":
		return nil, fmt.Errorf("time zone %q: it is another one on every machine: name it, such as Europe/Berlin", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known: want a name of the IANA database such as Europe/Berlin, America/New_York or UTC", name)
	}
	return loc, nil
}

// Zone is where its times are local.
func (c Cron) Zone() *time.Location {
	if c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// Next is the first fire after t, in UTC; zero = none within five years.
func (c Cron) Next(t time.Time) time.Time {
	if c.spec == nil {
		return time.Time{}
	}
	local := c.local(t)
	if start, _ := t.In(c.zone).ZoneBounds(); !start.IsZero() {
		local = c.pastRepeated(local, start)
	}
	for {
		// Within one stretch of constant offset, local time is as good as UTC.
		if local = c.spec.Next(local); local.IsZero() {
			return time.Time{}
		}
		offset := c.offset(t)
		_, end := t.In(c.zone).ZoneBounds()
		if fire := local.Add(-offset); end.IsZero() || fire.Before(end) {
			return fire
		}
		before, after := end.UTC().Add(offset), c.local(end)
		if !c.every && !local.Before(before) && local.Before(after) {
			return end.UTC() // in the gap
		}
		t, local = end, c.pastRepeated(after.Add(-time.Second), end)
	}
}

// pastRepeated skips the local times that were there before the clocks were set
// back at start.
func (c Cron) pastRepeated(local, start time.Time) time.Time {
	if was := c.local(start.Add(-time.Second)); !c.every && was.After(local) {
		return was
	}
	return local
}

// local is what the zone's clocks show at t, written as UTC.
func (c Cron) local(t time.Time) time.Time { return t.UTC().Add(c.offset(t)) }

func (c Cron) offset(t time.Time) time.Duration {
	_, seconds := t.In(c.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// Due is how many fires there are from from to to, both included, and the last
// of them, at most keep, oldest first.
func (c Cron) Due(from, to time.Time, keep int) (fires []time.Time, n int) {
	for f := c.Next(from.Add(-time.Nanosecond)); !f.IsZero() && !f.After(to); f = c.Next(f) {
		if n++; len(fires) == keep {
			fires = append(fires[:0], fires[1:]...)
		}
		if len(fires) < keep {
			fires = append(fires, f)
		}
	}
	return fires, n
}

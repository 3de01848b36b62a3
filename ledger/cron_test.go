package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCronOverClockChanges is the stated rule, case by case. Times are UTC.
func TestCronOverClockChanges(t *testing.T) {
	tests := []struct {
		name, expression, zone, after string
		want                          []string
	}{
		{
			"New York, 02:30 does not exist: the first moment after the gap", "30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z",
			[]string{"2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
		},
		{
			"several that do not exist are one, also with one that does", "0,15,30 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z",
			[]string{"2026-03-08T07:00:00Z", "2026-03-08T07:15:00Z", "2026-03-08T07:30:00Z", "2026-03-09T06:00:00Z"},
		},
		{
			"New York, 01:30 happens twice: the first time", "30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z",
			[]string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		},
		{
			"asked in the hour that happens again", "30 1 * * *", "America/New_York", "2026-11-01T06:10:00Z",
			[]string{"2026-11-02T06:30:00Z"},
		},
		{
			"the first moment after the hour that happens twice", "0 2 * * *", "America/New_York", "2026-11-01T05:59:00Z",
			[]string{"2026-11-01T07:00:00Z"},
		},
		{
			"Berlin, 02:15 does not exist", "15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"},
		},
		{
			"Berlin, 02:15 happens twice", "15 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:15:00Z", "2026-10-26T01:15:00Z"},
		},
		{
			"only that day: the year's one fire is not lost", "30 2 29 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z"},
		},
		{
			"every half hour goes on through the hour that happens twice", "*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"},
		},
		{
			"every half hour has nothing to make up for a gap", "*/30 * * * *", "America/New_York", "2026-03-08T06:29:00Z",
			[]string{"2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"},
		},
		{
			"Lord Howe, half an hour does not exist", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"},
		},
		{
			"Lord Howe, half an hour happens twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z",
			[]string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		},
		{
			"Kolkata, half an hour off and no changes", "0 9 * * 1", "Asia/Kolkata", "2026-11-29T00:00:00Z",
			[]string{"2026-11-30T03:30:00Z", "2026-12-07T03:30:00Z"},
		},
		{
			"St John's, both", "0 0 * * *", "America/St_Johns", "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T03:30:00Z", "2026-03-09T02:30:00Z"},
		},
		{"Apia, a day that does not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"}},
		{"UTC is the default", "@daily", "", "2026-11-30T05:00:00Z", []string{"2026-12-01T00:00:00Z"}},
		{"leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"a fire is after, not at", "* * * * *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:01:00Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseCron(tt.expression, tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tt.want {
				at = c.Next(at)
				got = append(got, at.Format(time.RFC3339))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseCronSaysWhatToWrite(t *testing.T) {
	tests := []struct{ expression, zone, want string }{
		{"", "", "empty: want five fields"},
		{"* * * *", "", "expected exactly 5 fields"},
		{"0 0 12 * * *", "", "seconds are not supported"},
		{"61 * * * *", "", "minute 0-59"},
		{"0 0 * * 7", "", "day of week 0-6"},
		{"@every 5m", "", `"*/5 * * * *"`},
		{"@fortnightly", "", "@weekly"},
		{"TZ=", "", "time zone is not part of it"},
		{"CRON_TZ=Asia/Tokyo 0 0 * * *", "", "time zone is not part of it"},
		{"0 0 30 2 *", "", "never fire"},
		{", * * * *", "", "never fire"},
		{"@daily", "Berlin", "want a name of the IANA database"},
		{"@daily", "Local", "name it"},
		{"@daily", "../etc/passwd", "want a name of the IANA database"},
	}
	for _, tt := range tests {
		if _, err := ParseCron(tt.expression, tt.zone); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseCron(%q, %q): %v, want %q in it", tt.expression, tt.zone, err, tt.want)
		}
	}
	if !(Cron{}).Next(time.Now()).IsZero() || (Cron{}).Zone() != time.UTC {
		t.Error("the zero value fires")
	}
}

// TestCronAgainstEveryMinute compares Next with the rule in the plainest words:
// each minute is looked at, in order.
func TestCronAgainstEveryMinute(t *testing.T) {
	zones := []string{
		"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu",
		"Africa/Casablanca", "America/Sao_Paulo", "Pacific/Chatham", "Europe/Dublin", "Asia/Tehran", "UTC",
	}
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		expression := drawCron(rt)
		c, err := ParseCron(expression, zone)
		if err != nil {
			rt.Fatal(err)
		}
		loc := c.Zone()
		from := time.Date(rapid.IntRange(2005, 2030).Draw(rt, "year"), time.Month(rapid.IntRange(1, 12).Draw(rt, "month")),
			rapid.IntRange(1, 31).Draw(rt, "day"), rapid.IntRange(0, 23).Draw(rt, "hour"), rapid.IntRange(0, 59).Draw(rt, "minute"), 0, 0, time.UTC)
		if _, end := from.In(loc).ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(rt, "at a change") {
			from = end.UTC().Truncate(time.Minute).Add(-time.Duration(rapid.IntRange(0, 300).Draw(rt, "before")) * time.Minute)
		}
		to := from.Add(36 * time.Hour)
		var want, got []time.Time
		// Nothing an hour or two earlier than from counts, but it may be what comes again.
		seen := map[string]bool{}
		matches := func(local time.Time) bool { return c.spec.Next(local.Add(-time.Second)).Equal(local) }
		last := from.Add(-4 * time.Hour).In(loc)
		for m := last; !m.After(to); m = m.Add(time.Minute) {
			m = m.In(loc)
			fires := false
			// What the clocks skipped right before m.
			if _, a := last.Zone(); true {
				_, b := m.Zone()
				for skipped := m.Add(time.Duration(a-b) * time.Second); skipped.Before(m); skipped = skipped.Add(time.Minute) {
					fires = fires || !c.every && matches(wall(skipped, b))
				}
			}
			_, b := m.Zone()
			w := wall(m, b)
			if matches(w) && (c.every || !seen[w.String()]) {
				fires = true
			}
			seen[w.String()] = true
			if fires && m.After(from) {
				want = append(want, m.UTC())
			}
			last = m
		}
		for f := c.Next(from); !f.IsZero() && !f.After(to); f = c.Next(f) {
			got = append(got, f)
		}
		if !slices.EqualFunc(want, got, time.Time.Equal) {
			rt.Fatalf("%s in %s after %s:\nwant %v\n got %v", expression, zone, from, want, got)
		}
		keep := rapid.IntRange(1, 5).Draw(rt, "keep")
		due, n := c.Due(from.Add(time.Nanosecond), to, keep)
		if n != len(want) || !slices.EqualFunc(due, want[max(0, len(want)-keep):], time.Time.Equal) {
			rt.Fatalf("Due with %d: %d %v, want of %v", keep, n, due, want)
		}
	})
}

// wall is the local time at t where the zone is offset seconds from UTC.
func wall(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func drawCron(rt *rapid.T) string {
	field := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(rt, name) }
	return strings.Join([]string{
		field("minutes", "0", "30", "15,45", "*/20", "*", "59"),
		field("hours", "*", "*", "0", "1", "2", "3", "*/2", "1-3", "23"),
		field("days", "*", "*", "*/3", "1-7", "30"),
		field("months", "*", "*", "*", "3,4,9-11"),
		field("weekdays", "*", "*", "0", "1-5"),
	}, " ")
}

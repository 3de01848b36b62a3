package builtin_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones, on machines that have none

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/tools/builtin"
)

func TestDateMath(t *testing.T) {
	tool := builtin.DateMath()
	type args map[string]any
	move := func(op, date string, amount int, unit string) args {
		return args{"operation": op, "date": date, "amount": amount, "unit": unit}
	}
	between := func(date, to, unit string) args {
		return args{"operation": "difference", "date": date, "to": to, "unit": unit}
	}
	const never = "the error says: "
	tests := []struct {
		name string
		args args
		want string
	}{
		{"SG-67 add days", move("add", "2026-03-01", 30, "day"), "2026-03-31"},
		{"SG-67 subtract weeks", move("subtract", "2026-03-01", 2, "week"), "2026-02-15"},
		{"SG-67 add a negative amount", move("add", "2026-03-01", -1, "day"), "2026-02-28"},
		{"SG-67 subtract a year", move("subtract", "2026-03-01", 1, "year"), "2025-03-01"},
		{"SG-67 add hours", move("add", "2026-03-01T23:30:00+01:00", 1, "hour"), "2026-03-02T00:30:00+01:00"},
		{"SG-67 add seconds over centuries", move("add", "0001-01-01T00:00:00Z", 315537897599, "second"), "9999-12-31T23:59:59Z"},
		{"SG-67 a moment keeps its clock", move("add", "2026-01-31T10:15:00.5Z", 1, "month"), "2026-02-28T10:15:00.5Z"},
		{"SG-67 nothing at all", move("add", "2026-03-01", 0, "year"), "2026-03-01"},
		{"SG-67 whole units only", args{"operation": "add", "date": "2026-03-01", "unit": "day"}, never + "needs an amount"},
		{"SG-67 add takes no second date", args{"operation": "add", "date": "2026-03-01", "unit": "day", "amount": 1, "to": "2026-03-02"}, never + "takes no to"},
		{"SG-67 difference needs a second date", args{"operation": "difference", "date": "2026-03-01", "unit": "day"}, never + "needs to"},
		{"SG-67 hours of a day", move("add", "2026-03-01", 1, "hour"), never + "give a moment"},
		{"SG-67 no such day", move("add", "2026-02-30", 1, "day"), never + `"2026-02-30" is no date`},
		{"SG-67 another order", move("add", "01.02.2026", 1, "day"), never + "2026-03-01"},
		{"SG-67 a moment without a zone", move("add", "2026-03-01T10:00:00", 1, "day"), never + "with its zone"},
		{"SG-67 the year 0", move("add", "0000-01-01", 1, "day"), never + "outside of 1 to 9999"},
		{"SG-67 beyond the calendar", move("add", "9999-12-31", 1, "day"), never + "10000"},
		{"SG-67 before the calendar", move("subtract", "0001-01-01", 1, "month"), never + "outside"},
		{"SG-67 far beyond", move("add", "2026-01-01", 9223372036854775807, "year"), never + "outside"},
		{"SG-67 far before", move("subtract", "2026-01-01", -9223372036854775808, "week"), never + "outside"},

		{"SG-68 31 January and a month", move("add", "2026-01-31", 1, "month"), "2026-02-28"},
		{"SG-68 in a leap year", move("add", "2028-01-31", 1, "month"), "2028-02-29"},
		{"SG-68 and two months", move("add", "2026-01-31", 2, "month"), "2026-03-31"},
		{"SG-68 back to February", move("subtract", "2026-03-31", 1, "month"), "2026-02-28"},
		{"SG-68 over the end of a year", move("add", "2026-10-31", 4, "month"), "2027-02-28"},
		{"SG-68 a leap day and a year", move("add", "2028-02-29", 1, "year"), "2029-02-28"},
		{"SG-68 a leap day and four years", move("add", "2028-02-29", 4, "year"), "2032-02-29"},

		{"SG-69 days", between("2026-03-01", "2026-09-09", "day"), "192 days"},
		{"SG-69 a month boundary", between("2026-01-31", "2026-02-01", "month"), "1 month"},
		{"SG-69 no month boundary", between("2026-02-01", "2026-02-28", "month"), "0 months"},
		{"SG-69 a year boundary", between("2025-12-31", "2026-01-01", "year"), "1 year"},
		{"SG-69 no year boundary", between("2026-01-01", "2026-12-31", "year"), "0 years"},
		{"SG-69 Sunday to Monday", between("2026-03-01", "2026-03-02", "week"), "1 week"},
		{"SG-69 Monday to Sunday", between("2026-03-02", "2026-03-08", "week"), "0 weeks"},
		{"SG-69 weeks before 1970", between("1969-12-28", "1969-12-29", "week"), "1 week"},
		{"SG-69 the other way round", between("2026-09-09", "2026-03-01", "day"), "-192 days"},
		{"SG-69 a minute to midnight", between("2026-03-01T23:59:00Z", "2026-03-02T00:00:00Z", "day"), "1 day"},
		{"SG-69 an hour boundary", between("2026-03-01T09:59:59Z", "2026-03-01T10:00:00Z", "hour"), "1 hour"},
		{"SG-69 in the zone of the first", between("2026-03-01T23:30:00+02:00", "2026-03-01T22:30:00Z", "day"), "1 day"},
		{"SG-69 half an hour east", between("2026-03-01T10:15:00+05:30", "2026-03-01T05:00:00Z", "hour"), "0 hours"},
		{"SG-69 a day and a moment", between("2026-03-01", "2026-03-02T00:00:00Z", "day"), never + "two days or two moments"},
		{"SG-69 hours between days", between("2026-03-01", "2026-03-02", "hour"), never + "give two moments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := direct(t, tool, tt.args)
			if says, ok := strings.CutPrefix(tt.want, never); ok {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("= %v, %v, want an error that says %q", got, err, says)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("= %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// A moment is in the zone that was written, wherever the worker stands.
func TestDateMathIsTheSameInEveryZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	was := time.Local
	t.Cleanup(func() { time.Local = was })
	for _, zone := range []*time.Location{time.UTC, berlin, london} {
		time.Local = zone
		for _, tt := range []struct{ date, want string }{
			{"2026-03-28T12:00:00+01:00", "2026-03-29T12:00:00+01:00"}, // Berlin has +02:00 on that day
			{"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"},           // and London +01:00
			{"2026-03-28T12:00:00+00:00", "2026-03-29T12:00:00Z"},
			{"2026-03-28T12:00:00-05:30", "2026-03-29T12:00:00-05:30"},
		} {
			r := call(t, builtin.DateMath(), `{"operation":"add","date":"`+tt.date+`","amount":1,"unit":"day"}`)
			if !strings.Contains(r.Output, tt.want) {
				t.Errorf("in %v: a day after %s is %s, want %s", zone, tt.date, r.Output, tt.want)
			}
		}
	}
}

func TestDates(t *testing.T) {
	tool := builtin.Dates()
	tests := []struct{ name, question, want string }{
		{"SG-70 days from to", "days from 2026-03-01 to 2026-09-09", "192 days"},
		{"SG-70 days after", "30 days after 2026-03-01", "2026-03-31"},
		{"SG-70 months before", "2 months before 2026-03-01", "2026-01-01"},
		{"SG-70 months clamp", "1 month after 2026-01-31", "2026-02-28"},
		{"SG-70 other units", "years from 2020-05-05 to 2026-01-01", "6 years"},
		{"SG-70 weeks", "2 weeks before 2026-03-01", "2026-02-15"},
		{"SG-70 capitals and white space", "  Days  FROM 2026-03-01\tto 2026-03-02 ", "1 day"},
		{"SG-70 other words", "how many days from 2026-03-01 to 2026-09-09", ""},
		{"SG-70 a question mark", "days from 2026-03-01 to 2026-09-09?", ""},
		{"SG-70 another order", "days from 01.03.2026 to 09.09.2026", ""},
		{"SG-70 no number", "days after 2026-03-01", ""},
		{"SG-70 a fraction", "1.5 days after 2026-03-01", ""},
		{"SG-70 a negative number", "-1 days after 2026-03-01", ""},
		{"SG-70 hours", "3 hours after 2026-03-01", ""},
		{"SG-70 no such day", "1 day after 2026-02-30", ""},
		{"SG-70 beyond the calendar", "999999999 years after 2026-03-01", ""},
		{"SG-70 digits of another script", "٣ days after 2026-03-01", ""},
		{"SG-70 nothing", "", ""},
		{"SG-70 a book", strings.Repeat("days from ", 1000), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := direct(t, tool, map[string]string{"question": tt.question})
			if tt.want == "" {
				if err == nil || len(err.Error()) > 500 {
					t.Errorf("= %v, %v, want it refused", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("= %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// SG-67, SG-69: days moved are days counted, and a month later is one boundary.
func TestDateMathGoesThereAndBack(t *testing.T) {
	tool := builtin.DateMath()
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(1900+rapid.IntRange(0, 300).Draw(t, "year"), 1, 1+rapid.IntRange(0, 365).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
		n := rapid.IntRange(-100_000, 100_000).Draw(t, "n")
		for _, unit := range []string{"day", "week", "month", "year"} {
			if unit != "day" && (n > 5000 || n < -5000) {
				continue
			}
			start := from.Format(time.DateOnly)
			moved, err := direct(t, tool, map[string]any{"operation": "add", "date": start, "amount": n, "unit": unit})
			if err != nil {
				if unit == "year" {
					continue // beyond the calendar
				}
				t.Fatal(err)
			}
			if unit == "day" && moved != from.AddDate(0, 0, n).Format(time.DateOnly) {
				t.Fatalf("%s + %d days = %v", start, n, moved)
			}
			back, err := direct(t, tool, map[string]any{"operation": "difference", "date": start, "to": moved, "unit": unit})
			want := fmt.Sprintf("%d %s", n, unit)
			if n != 1 && n != -1 {
				want += "s"
			}
			if err != nil || back != want {
				t.Fatalf("%s + %d %s = %v, and the difference is %v, %v", start, n, unit, moved, back, err)
			}
		}
	})
}

func FuzzDates(f *testing.F) {
	for _, s := range []string{
		"days from 2026-03-01 to 2026-09-09", "30 days after 2026-03-01", "2 months before 2026-03-01", "1 year after 2028-02-29",
		"999999999 weeks before 0001-01-01", "years from 9999-12-31 to 0001-01-01", "1 day after 9999-12-31", "Weeks From 2026-1-1 to x", "",
	} {
		f.Add(s)
	}
	tool := builtin.Dates()
	answer := regexp.MustCompile(`^(\d{4}-\d\d-\d\d|-?\d+ (day|week|month|year)s?)$`)
	f.Fuzz(func(t *testing.T, question string) {
		got, err := direct(t, tool, map[string]string{"question": question})
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("%q: an error of %d bytes", question, len(err.Error()))
			}
			return
		}
		if !answer.MatchString(got.(string)) {
			t.Errorf("%q = %v", question, got)
		}
		if s := got.(string); len(s) == 10 && s[4] == '-' {
			if _, err := time.Parse(time.DateOnly, s); err != nil {
				t.Errorf("%q = %s, which is no day", question, s)
			}
		}
	})
}

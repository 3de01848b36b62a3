package main

import "time"

// How moments look in tables and records (--times).
const (
	timesAuto     = "auto" // ages in lists, moments elsewhere
	timesISO      = "iso"
	timesRelative = "relative"
)

// timed are the columns of a table with moments as --times says.
func timed[T any](a *app, cols []column[T]) []column[T] {
	var out []column[T]
	for i := 0; i < len(cols); i++ {
		c := cols[i]
		switch {
		case a.times == timesISO && c.at != nil:
			at := c.at
			c.text = func(v T) string {
				if at(v).IsZero() {
					return "-"
				}
				return stamp(at(v))
			}
			if i+1 < len(cols) && cols[i+1].raw != nil && cols[i+1].mixed {
				c.name = cols[i+1].name
				i++
			}
		case a.times == timesRelative && c.at == nil:
			text := c.text
			c.text = func(v T) string { return a.agoText(text(v)) }
		}
		out = append(out, c)
	}
	return out
}

// agoText is a text that is a moment as how long ago that is, any other as it is.
func (a *app) agoText(s string) string {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' {
		return s
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return a.ago(t)
}

// ago is how far away a moment is.
func (a *app) ago(t time.Time) string {
	if d := a.now().Sub(t); d < 0 {
		return "in " + span(-d)
	} else {
		return span(d) + " ago"
	}
}

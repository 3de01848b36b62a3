package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookhq/daybook/internal/telling"
)

// visible breaks text from a run into lines that can be printed: nothing in it
// moves the cursor, paints, hides or turns the direction of what follows.
func visible(s string, width int) []string {
	s = strings.ReplaceAll(strings.TrimRight(s, " \t\r\n"), "\r\n", "\n")
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		line = clean(strings.ReplaceAll(line, "\t", "    "))
		out = append(out, wrapHard(line, width)...)
	}
	return out
}

// wrapHard is wrap that keeps the blanks a line begins with and breaks words
// that are longer than a line.
func wrapHard(s string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return []string{s}
	}
	lead := s[:len(s)-len(strings.TrimLeft(s, " "))]
	if len(lead) > width/2 {
		lead = ""
	}
	var out []string
	for _, l := range wrap(strings.TrimLeft(s, " "), width-len(lead)) {
		for utf8.RuneCountInString(l) > width-len(lead) {
			rs := []rune(l)
			out = append(out, lead+string(rs[:width-len(lead)]))
			l = string(rs[width-len(lead):])
		}
		out = append(out, lead+l)
	}
	return out
}

// shortLines is as much of a result as is shown, with how much is not.
func (o *transcriptText) shortLines(s string, width int) []string {
	return o.cutLines(s, width, shortLines)
}

func (o *transcriptText) cutLines(s string, width, most int) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	if o.full {
		return visible(s, width)
	}
	kept := s
	if utf8.RuneCountInString(kept) > shortRunes {
		kept = string([]rune(kept)[:shortRunes])
	}
	lines := visible(kept, width)
	if len(lines) > most {
		lines = lines[:most]
	} else if len(kept) == len(s) {
		return lines
	}
	last := lines[len(lines)-1]
	if width > 0 && utf8.RuneCountInString(last) >= width {
		last = string([]rune(last)[:width-1])
	}
	lines[len(lines)-1] = last + ellipsis
	return append(lines, fmt.Sprintf("(%d characters in all, --full shows them)", utf8.RuneCountInString(s)))
}

// readable is a JSON value as a person reads it: a string is its text.
func readable(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return spaced(string(raw))
}

// spaced puts a blank behind the commas and colons of a JSON object or array, so
// that its lines break where a person would break them. Any other text stays.
func spaced(s string) string {
	if !strings.HasPrefix(s, "{") && !strings.HasPrefix(s, "[") || !json.Valid([]byte(s)) {
		return s
	}
	var c bytes.Buffer
	_ = json.Compact(&c, []byte(s)) // it is valid
	var b strings.Builder
	quoted, escaped := false, false
	for _, r := range c.String() {
		b.WriteRune(r)
		switch {
		case escaped:
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ',' || r == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// lasting is how long something took: exact while it is short.
func lasting(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// waitWords says for what and how long a run waited.
func waitWords(v *telling.ToldView) string {
	what := strings.ReplaceAll(v.Status, "_", " ")
	if v.WaitedMS != nil {
		return either(": ", fmt.Sprintf("waited %s, %s", lasting(time.Duration(*v.WaitedMS)*time.Millisecond), what), v.Text)
	}
	s := either(": ", "waits, "+what, v.Text) + ", since " + stamp(v.Time)
	if !v.Until.IsZero() {
		s += ", until " + stamp(v.Until)
	}
	return s
}

// costOf is what a model call cost, in words.
func costOf(v *telling.ToldView) string {
	switch {
	case v.Cost != nil:
		return v.Cost.String() + " USD"
	case v.Unpriced:
		return "unpriced"
	}
	return "not billed"
}

package events

import "unicode/utf8"

// What an event holds of a result, as it stands in JSON, where a text that is full
// of control characters is six times as long as in memory. Together with the rest of
// an event it is below [MaxDataBytes].
const (
	// MaxOutput is for output and error of a result together.
	MaxOutput  = 208 << 10
	maxError   = 24 << 10 // of it
	maxSources = 32 << 10
	maxMessage = 12 << 10
)

// Fit returns r cut to what an event holds of it, so that no outcome is lost for its
// size. What is cut off is said in Truncated; sources that have no room are left
// out, the first ones are kept. A result that fits is returned as it is, byte for byte.
func (r ToolResult) Fit() ToolResult {
	r.Error = r.Error[:within(r.Error, len(r.Error), maxError)]
	if kept := within(r.Output, len(r.Output), MaxOutput-encoded(r.Error)); kept < len(r.Output) {
		of := len(r.Output)
		if r.Truncated != nil {
			of = max(of, r.Truncated.Of)
		}
		r.Output, r.Truncated = r.Output[:kept], &Truncated{Kept: kept, Of: of}
	}
	r.Sources = fitSources(r.Sources)
	return r
}

func fitSources(all []Source) []Source {
	left := maxSources
	for i, s := range all {
		left -= len(`{"title":"","url":""},`) + encoded(s.Title) + encoded(s.URL)
		if left < 0 {
			if i == 0 {
				return nil
			}
			return all[:i:i]
		}
	}
	return all
}

// Fit returns e cut to what an event holds of it beside a result.
func (e ErrorInfo) Fit() ErrorInfo {
	e.Message = e.Message[:within(e.Message, len(e.Message), maxMessage)]
	return e
}

// OutputWithin returns how much of the first limit bytes of output an event holds,
// up to the end of a character.
func OutputWithin(output string, limit int) int {
	return within(output, min(limit, len(output)), MaxOutput)
}

// within returns how much of the first n bytes of s is at most most bytes long in
// JSON, up to the end of a character.
func within(s string, n, most int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	if 6*n <= most || encodedAtMost(s[:n]) <= most {
		return n
	}
	size := 0
	for i, c := range s[:n] {
		size += encodedRune(c)
		if size > most {
			return i
		}
	}
	return n
}

// encodedAtMost bounds what [encoded] would say, at a fraction of the time: most
// texts need no closer look.
func encodedAtMost(s string) int {
	if !utf8.ValidString(s) {
		return 6 * len(s)
	}
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c == '<', c == '>', c == '&', c == 0x7f:
			n += 5
		case c == '"', c == '\\':
			n++
		case c == 0xe2, c == 0xef: // U+2028, U+2029 and U+FFFD begin so
			n += 3
		}
	}
	return n
}

func encoded(s string) (n int) {
	for _, c := range s {
		n += encodedRune(c)
	}
	return n
}

// encodedRune is for the encoder that escapes most: encoding/json's.
func encodedRune(c rune) int {
	switch {
	case c < ' ', c == '<', c == '>', c == '&', c == 0x7f, c == 0x2028, c == 0x2029, c == utf8.RuneError:
		return 6
	case c == '"', c == '\\':
		return 2
	}
	return utf8.RuneLen(c)
}

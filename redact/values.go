package redact

import (
	"fmt"
	"io"
	"strings"
)

// MinValue is the least number of bytes, white space not counted, that [Values]
// look for.
const MinValue = prefixLen

// Values are texts that must not be handed on, such as the credentials of one
// client. They are found in every encoding in which a [Redactor] finds what was
// registered, and also in lower and in upper case; nothing else is. Safe for
// concurrent use. The zero value knows none.
type Values struct {
	// A function, because fmt follows even an unexported pointer.
	state func() (m *matcher, overlap int)
}

// NewValues returns the values that have [MinValue] bytes at least.
func NewValues(values ...string) Values {
	m := &matcher{}
	var fs []form
	var secrets []secret
	known := map[string]bool{}
	for _, v := range values {
		if len(squeeze(v)) < MinValue {
			continue
		}
		for _, v := range []string{v, strings.ToLower(v), strings.ToUpper(v)} { // a host name has no capitals
			if !known[v] {
				known[v] = true
				fs = append(fs, forms(len(secrets), v, MinValue)...)
				secrets = append(secrets, secret{value: v})
			}
		}
	}
	if len(secrets) == 0 {
		return Values{}
	}
	longest := 0
	for _, f := range fs {
		longest = max(longest, len(f.text))
	}
	m.build(fs, secrets)
	return Values{func() (*matcher, int) { return m, max(12*longest, window/16) }}
}

// window is how much of a text is looked at in one go: a look through escapes
// takes many times the memory of the text.
const window = 256 << 10

// Replace returns text with mark in place of each value. mark has no value in it.
func (v Values) Replace(text, mark string) string {
	if v.state == nil {
		return text
	}
	m, overlap := v.state()
	for range maxPasses { // what was on both sides of one may be another
		var spans []span
		for at := 0; at < len(text); at += window {
			part := text[at:min(len(text), at+window+overlap)]
			if m.clean(part) {
				continue
			}
			for _, s := range m.find(part).spans {
				spans = append(spans, span{start: at + s.start, end: at + s.end})
			}
		}
		if spans == nil {
			break
		}
		var b strings.Builder
		last := 0
		for _, s := range join(spans) {
			b.WriteString(text[last:s.start])
			b.WriteString(mark)
			last = s.end
		}
		text = b.String() + text[last:]
	}
	return text
}

// Format writes the name of the type, whatever the verb.
func (v Values) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redact.Values") }

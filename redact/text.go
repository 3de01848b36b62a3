package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/daybookhq/daybook/internal/canonical"
)

// textOptions says where a text was found.
type textOptions struct {
	depth  int // documents around it
	hint   keyHint
	exempt bool // from patterns and entropy
}

// maxPasses bounds the repetitions that make redaction idempotent: a marker
// can bring what stands before and after it into a new context.
const maxPasses = 4

// text redacts a string by all tiers.
func (m *matcher) text(s string, o textOptions) string {
	if o.depth < maxNested && looksLikeJSON(s) {
		s = m.nested(s, o)
	}
	if (o.exempt || o.hint == noHint) && m.clean(s) {
		return s
	}
	f := m.find(s)
	s = m.secretsFrom(s, f)
	if f.encoded && o.depth < maxNested {
		s = m.encodedJSON(s, o)
	}
	if !o.exempt && (f.detectors != 0 || o.hint != noHint) {
		s = m.detect(s, o.hint)
	}
	return s
}

// secretsIn replaces registered secrets only.
func (m *matcher) secretsIn(s string) string {
	if m.clean(s) {
		return s
	}
	return m.secretsFrom(s, m.find(s))
}

func (m *matcher) secretsFrom(s string, f finding) string {
	for range maxPasses {
		spans := m.visible(s, f.spans)
		if len(spans) == 0 {
			break
		}
		s = m.replace(s, spans)
		f = m.find(s)
	}
	return s
}

// looksLikeJSON reports whether s may be an object or array that is not empty.
func looksLikeJSON(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 4 && (s[0] == '{' && s[len(s)-1] == '}' || s[0] == '[' && s[len(s)-1] == ']')
}

// nested redacts a string that is a JSON document. It is written anew, in
// canonical form, only if something in it was replaced.
func (m *matcher) nested(s string, o textOptions) string {
	if !json.Valid([]byte(s)) {
		return s
	}
	doc, err := canonical.JSON([]byte(s))
	if err != nil {
		return s
	}
	out, err := m.document(string(doc), doc, nil, textOptions{depth: o.depth + 1, exempt: o.exempt})
	if err != nil || string(out) == string(doc) {
		return s
	}
	return string(out)
}

// base64Heads are what JSON objects and arrays begin with in base64.
func base64Heads() []string { return []string{"eyJ", "ewo", "ewog", "W3s", "WyJ", "Wwo", "W1s"} }

// encodedJSON replaces base64 that holds a JSON document with a secret in it.
func (m *matcher) encodedJSON(s string, o textOptions) string {
	var spans []span
	for i := 0; i < len(s); {
		if !isBase64(s[i]) {
			i++
			continue
		}
		end := i
		for end < len(s) && isBase64(s[end]) {
			end++
		}
		if end-i >= 16 {
			if name, fp, ok := m.inBase64(s[i:end], o); ok {
				for end < len(s) && s[end] == '=' {
					end++
				}
				spans = append(spans, span{i, end, name, fp})
			}
		}
		i = end
	}
	return m.replace(s, spans)
}

// inBase64 returns name and fingerprint of the first secret in digits.
func (m *matcher) inBase64(digits string, o textOptions) (name, fp string, ok bool) {
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(digits)
	data, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil || !looksLikeJSON(string(data)) {
		return "", "", false
	}
	before := string(data)
	o.depth++
	o.hint = noHint
	after := m.text(before, o)
	if after == before {
		return "", "", false
	}
	start, end := nextMarker(after, 0)
	if start < 0 {
		return "", "", false
	}
	body := after[start+len(markerOpen) : end-1]
	name, fp, ok = strings.Cut(body, ":")
	return name, fp, ok
}

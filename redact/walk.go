package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/canonical"
)

// maxNested is how many JSON documents inside strings are looked into.
const maxNested = 4

// JSON encodes v with encoding/json, redacts it and returns canonical bytes. A
// reference back to something that contains it becomes "[Circular]". Redacting
// the result again changes nothing.
//
// exempt lists JSON pointers to values that a tool declares as identity fields
// or enums, such as "/arguments/order_id"; a "*" stands for any index or key.
// Patterns and entropy are not looked for in those values and what is inside
// them; registered secrets and key names always are.
//
// An error means that v has no canonical form, and its text is redacted. JSON
// never panics, but a MarshalJSON method that calls itself without end ends
// the process, as it does with encoding/json.
func (r *Redactor) JSON(v any, exempt ...string) (JSON, error) {
	doc, err := encode(v)
	if err != nil {
		return JSON{}, r.Error(fmt.Errorf("redact json: %w", err))
	}
	out, err := r.state().matcher().document(string(doc), doc, pointers(exempt), textOptions{})
	if err != nil {
		return JSON{}, r.Error(fmt.Errorf("redact json: %w", err))
	}
	return JSON{out}, nil
}

func encode(v any) (_ []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encode %T: panic: %v", v, p)
		}
	}()
	switch v := v.(type) {
	case JSON:
		return canonical.JSON(v.b)
	case json.RawMessage:
		return canonical.JSON(v)
	}
	raw, err := json.Marshal(v)
	var unsupported *json.UnsupportedValueError
	if errors.As(err, &unsupported) && strings.Contains(unsupported.Str, "cycle") {
		raw, err = json.Marshal(acyclic(v))
	}
	if err != nil {
		return nil, err
	}
	return canonical.JSON(raw)
}

// pointers splits JSON pointers into their unescaped parts.
func pointers(exempt []string) [][]string {
	var all [][]string
	for _, p := range exempt {
		parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
		for i, s := range parts {
			parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		}
		all = append(all, parts)
	}
	return all
}

// document redacts doc, which is canonical JSON; raw is the same bytes, and
// returned if nothing changed.
func (m *matcher) document(doc string, raw []byte, exempt [][]string, o textOptions) ([]byte, error) {
	w := walker{m: m, doc: doc, exempt: exempt, options: o}
	w.value(place{})
	if len(w.edits) == 0 {
		return raw, nil
	}
	out := make([]byte, 0, len(doc)+64*len(w.edits))
	last := 0
	for _, e := range w.edits {
		out = append(out, doc[last:e.start]...)
		var err error
		if out, err = jsontext.AppendQuote(out, strings.ToValidUTF8(e.text, "\ufffd")); err != nil {
			return nil, err
		}
		last = e.end
	}
	// A redacted key may sort elsewhere.
	return canonical.JSON(append(out, doc[last:]...))
}

// walker goes through canonical JSON, which is valid and without white space,
// and notes which tokens must be replaced.
type walker struct {
	m       *matcher
	doc     string
	i       int
	edits   []edit
	exempt  [][]string
	path    []string // kept only if exempt is not empty
	options textOptions
}

// edit replaces a token by a string.
type edit struct {
	start, end int
	text       string
}

// place says what the keys around a value say about it.
type place struct {
	denied string // marker name, if a key makes the value secret
	hint   keyHint
	exempt bool
}

func (w *walker) value(p place) {
	if len(w.exempt) > 0 && !p.exempt {
		p.exempt = w.isExempt()
	}
	switch w.doc[w.i] {
	case '{':
		w.object(p)
	case '[':
		w.array(p)
	case '"':
		start := w.i
		s := w.stringToken()
		if t := w.text(s, p); t != s {
			w.edits = append(w.edits, edit{start, w.i, t})
		}
	default:
		w.literal(p)
	}
}

func (w *walker) array(p place) {
	w.i++
	for n := 0; w.doc[w.i] != ']'; n++ {
		if w.doc[w.i] == ',' {
			w.i++
		}
		if len(w.exempt) > 0 {
			w.path = append(w.path, strconv.Itoa(n))
		}
		w.value(p)
		if len(w.exempt) > 0 {
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.i++
}

func (w *walker) object(p place) {
	open, renamed := w.i, []string(nil)
	pair := "" // denied name found as the value of a "name" or "key" member
	w.i++
	for w.doc[w.i] != '}' {
		if w.doc[w.i] == ',' {
			w.i++
		}
		start := w.i
		key := w.stringToken()
		safe := w.m.secretsIn(key)
		if bug.On(bug.RedactorSkipsKeys) {
			safe = key
		}
		if t := safe; t != key {
			t = w.unused(open, renamed, t)
			renamed = append(renamed, t)
			w.edits = append(w.edits, edit{start, w.i, t})
		}
		w.i++ // colon
		verdict := w.m.keys.judge(safe, safe == key)
		inner := place{denied: p.denied, hint: verdict.hint, exempt: p.exempt}
		switch {
		case inner.denied != "":
		case verdict.denied:
			inner.denied = markerName(strings.ToLower(safe))
		case key == "value" || key == "values" || key == "Value":
			inner.denied = pair
		case key == "name" || key == "key" || key == "header" || key == "Name" || key == "Key":
			if at := w.i; w.doc[at] == '"' {
				if name := w.m.secretsIn(w.stringToken()); w.m.keys.names.denied(name) {
					pair = markerName(strings.ToLower(name))
				}
				w.i = at
			}
		}
		if len(w.exempt) > 0 {
			w.path = append(w.path, key)
		}
		w.value(inner)
		if len(w.exempt) > 0 {
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.i++
}

// unused returns a key like t that the object at open doesn't have: two keys
// may be forms of one secret, and both members are kept.
func (w *walker) unused(open int, renamed []string, t string) string {
	taken := map[string]bool{}
	for _, r := range renamed {
		taken[r] = true
	}
	probe := walker{doc: w.doc, i: open + 1}
	for probe.doc[probe.i] != '}' {
		if probe.doc[probe.i] == ',' {
			probe.i++
		}
		taken[probe.stringToken()] = true
		probe.i++
		probe.skip()
	}
	name := t
	for n := 2; taken[name]; n++ {
		name = t + "#" + strconv.Itoa(n)
	}
	return name
}

func (w *walker) skip() {
	depth := 0
	for {
		switch w.doc[w.i] {
		case '"':
			w.stringToken()
		case '{', '[':
			depth++
			w.i++
		case '}', ']':
			depth--
			w.i++
		case ',', ':':
			w.i++
		default:
			w.scalar()
		}
		if depth == 0 {
			return
		}
	}
}

// stringToken reads the string at i and returns what it stands for.
func (w *walker) stringToken() string {
	start := w.i + 1
	k := strings.IndexByte(w.doc[start:], '"')
	if body := w.doc[start : start+k]; strings.IndexByte(body, '\\') < 0 {
		w.i = start + k + 1
		return body
	}
	i := start
	for w.doc[i] != '"' {
		if w.doc[i] == '\\' {
			i++
		}
		i++
	}
	token := w.doc[w.i : i+1]
	w.i = i + 1
	s, _ := jsontext.AppendUnquote(nil, token) // valid: the document is
	return string(s)
}

// scalar reads a number, true, false or null.
func (w *walker) scalar() string {
	start := w.i
	for w.i < len(w.doc) && w.doc[w.i] != ',' && w.doc[w.i] != '}' && w.doc[w.i] != ']' {
		w.i++
	}
	return w.doc[start:w.i]
}

// literal redacts a number that is secret. What is not a number says nothing.
func (w *walker) literal(p place) {
	start := w.i
	s := w.scalar()
	if s[0] != '-' && !isDigit(s[0]) {
		return
	}
	t := s
	switch {
	case p.denied != "":
		t = w.m.marker(p.denied, "", s)
	case len(s) >= minSecret:
		if t = w.m.secretsIn(s); t == s && p.hint == cardHint && !p.exempt && !w.options.exempt && isCard(s) {
			t = w.m.marker(cardName, "", s)
		}
	}
	if t != s {
		w.edits = append(w.edits, edit{start, w.i, t})
	}
}

// text returns what a string value becomes.
func (w *walker) text(s string, p place) string {
	denied := p.denied
	if p.hint == tokenHint && denied == "" && !isULID(s) {
		denied = "token"
	}
	if denied == "" {
		o := w.options
		o.hint, o.exempt = p.hint, o.exempt || p.exempt
		return w.m.text(s, o)
	}
	if isSettled(s) {
		return w.m.secretsIn(s)
	}
	if t := w.m.secretsIn(s); isSettled(t) {
		return t
	}
	return w.m.marker(denied, "", s)
}

// isExempt reports whether the path is one of the exempt pointers.
func (w *walker) isExempt() bool {
next:
	for _, p := range w.exempt {
		if len(p) != len(w.path) {
			continue
		}
		for i, part := range p {
			if part != "*" && part != w.path[i] {
				continue next
			}
		}
		return true
	}
	return false
}

package redact

import (
	"slices"
	"strings"
)

// span is a part of a text that must not be shown.
type span struct {
	start, end  int
	name        string
	fingerprint string // empty: made from the text of the span
}

// matcher finds registered secrets and the keywords of the detectors in one
// pass. It is immutable.
type matcher struct {
	auto     *automaton
	patterns []pattern
	forms    []form
	secrets  []secret
	names    map[string]bool // of secrets: their handles stay whole

	of        *matcher // of a view: the one it was made from
	tenantKey []byte
	keys      *keyRules
	detectors []detector
}

// pattern is what one pattern of the automaton stands for: the beginning of
// some forms, the keyword of some detectors, or the beginning of an escape.
type pattern struct {
	length    int // unskipped bytes
	forms     []int32
	detectors uint64
	exact     []exactKeyword
	escape    bool
}

// exactKeyword is a keyword whose case counts.
type exactKeyword struct {
	text      string
	detectors uint64
	encoded   bool // perhaps base64 of JSON
}

// finding is what one pass over a text saw.
type finding struct {
	spans     []span
	detectors uint64
	escape    bool
	encoded   bool
	pending   int // everything from here on may be the beginning of a secret
	open      int // as pending, for the least beginning too
}

func (m *matcher) build(fs []form, secrets []secret) {
	m.forms, m.secrets = fs, secrets
	index := map[string]int{}
	var texts []string
	at := func(text string) *pattern {
		folded := []byte(squeeze(text))
		for i := range folded {
			folded[i] = fold(folded[i])
		}
		id, ok := index[string(folded)]
		if !ok {
			id = len(texts)
			index[string(folded)] = id
			texts = append(texts, string(folded))
			m.patterns = append(m.patterns, pattern{length: len(folded)})
		}
		return &m.patterns[id]
	}
	for i, f := range fs {
		p := at(f.text[:prefixLen])
		p.forms = append(p.forms, int32(i))
	}
	marked := len(texts)
	for i, d := range m.detectors {
		for _, k := range d.keywords {
			if p := at(k); strings.ToLower(k) == k {
				p.detectors |= 1 << i
			} else {
				p.exact = append(p.exact, exactKeyword{text: k, detectors: 1 << i})
			}
		}
	}
	for _, start := range escapeStarts() {
		at(start).escape = true
	}
	for _, head := range base64Heads() {
		p := at(head)
		p.exact = append(p.exact, exactKeyword{text: head, encoded: true})
	}
	m.auto = newAutomaton(texts, marked)
	for i := range m.secrets {
		// A name may be, or contain, the value of another secret.
		if s := &m.secrets[i]; len(m.find(s.name).spans) > 0 {
			s.name = "secret"
		}
	}
}

// clean reports whether one pass over text met nothing worth a closer look.
func (m *matcher) clean(text string) bool {
	_, s := m.auto.step(text, 0, 0)
	return s&hitFlag == 0
}

// scan makes one pass over text as it stands.
func (m *matcher) scan(text string) finding {
	f := finding{pending: len(text), open: len(text)}
	i, s := 0, uint32(0)
	for i < len(text) {
		i, s = m.auto.step(text, i, s)
		if s&hitFlag == 0 {
			break
		}
		m.auto.matches(s, func(id int32) {
			p := &m.patterns[id]
			f.detectors |= p.detectors
			f.escape = f.escape || p.escape
			for _, k := range p.exact {
				if strings.HasSuffix(text[:i], k.text) {
					f.detectors |= k.detectors
					f.encoded = f.encoded || k.encoded
				}
			}
			if len(p.forms) == 0 {
				return
			}
			start := back(text, i, p.length)
			for _, k := range p.forms {
				m.verify(text, start, &m.forms[k], &f)
			}
		})
	}
	if n := m.auto.partial(s); n > 0 {
		f.open = min(f.open, back(text, len(text), n))
		if n >= minPartial {
			f.pending = min(f.pending, f.open)
		}
	}
	f.open = min(f.open, f.pending)
	return f
}

func (m *matcher) verify(text string, start int, fm *form, f *finding) {
	end, ok, cut := fm.matchAt(text, start)
	if cut {
		f.pending = min(f.pending, start)
	}
	if !ok {
		return
	}
	if fm.left && start > 0 && isBase64(text[start-1]) {
		start--
	}
	if fm.right && end < len(text) && isBase64(text[end]) {
		end++
	}
	if fm.compare == base64Any {
		for end < len(text) && text[end] == '=' {
			end++
		}
	}
	s := m.secrets[fm.of]
	f.spans = append(f.spans, span{start: start, end: end, name: s.name, fingerprint: s.fingerprint})
}

// minPartial is how much of a secret must stand at the end of a line for the
// line to be held back. With less, nearly every line would be.
const minPartial = 3

// back returns the index of the byte that is n unskipped bytes before i.
func back(text string, i, n int) int {
	for n > 0 && i > 0 {
		i--
		if !isSkipped(text[i]) {
			n--
		}
	}
	return i
}

func isBase64(b byte) bool { return isAlnum(b) || b == '+' || b == '/' || b == '-' || b == '_' }

// find makes a pass over text and, as long as there are escapes in it, over
// text with one more layer of them taken off.
func (m *matcher) find(text string) finding {
	f := m.scan(text)
	if !f.escape {
		return f
	}
	bare := decoded{text: text}
	if d, ok := unescape(text, invisible); ok {
		bare = d
		m.through(d, &f)
	}
	for _, spelling := range chains() {
		for w, round := bare, 0; round < maxUnescape; round++ {
			changed := false
			for _, kind := range [...]escapeKind{spelling, invisible} {
				if d, ok := unescape(w.text, kind); ok {
					changed = true
					w = d.over(w)
					m.through(w, &f)
				}
			}
			if !changed {
				break
			}
		}
	}
	return f
}

// through makes a pass over d and adds what it sees to f, in terms of the
// source.
func (m *matcher) through(d decoded, f *finding) {
	g := m.scan(d.text)
	for _, s := range g.spans {
		s.start, s.end = int(d.from[s.start]), int(d.to[s.end-1])
		f.spans = append(f.spans, s)
	}
	if g.pending < len(d.text) {
		f.pending = min(f.pending, int(d.from[g.pending]))
	}
	if g.open < len(d.text) {
		f.open = min(f.open, int(d.from[g.open]))
	}
}

// visible drops the spans that lie in what must stay: the fixed parts of a
// marker, and the handle of a registered secret.
func (m *matcher) visible(text string, spans []span) []span {
	if len(spans) == 0 {
		return spans
	}
	all := islands(text)
	return slices.DeleteFunc(spans, func(s span) bool {
		i, ok := overlapping(all, s)
		if !ok || s.start < i.start || s.end > i.end {
			return false
		}
		if name, ok := strings.CutPrefix(text[i.start:i.end], handleScheme); ok {
			return m.names[name]
		}
		return s.end <= i.start+len(markerOpen) || s.start >= i.end-fingerprintLen-2
	})
}

// join sorts spans and makes one of those that overlap; the longest of them
// gives its name.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	out, longest := spans[:0], 0
	for _, s := range spans {
		if n := len(out); n > 0 && s.start < out[n-1].end {
			last := &out[n-1]
			last.end = max(last.end, s.end)
			if s.end-s.start > longest {
				longest = s.end - s.start
				last.name, last.fingerprint = s.name, s.fingerprint
			}
			continue
		}
		out = append(out, s)
		longest = s.end - s.start
	}
	return out
}

// replace puts markers where spans are.
func (m *matcher) replace(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	last := 0
	for _, s := range join(spans) {
		b.WriteString(text[last:s.start])
		b.WriteString(m.marker(s.name, s.fingerprint, text[s.start:s.end]))
		last = s.end
	}
	b.WriteString(text[last:])
	return b.String()
}

// marker returns the marker for value; fp may be empty.
func (m *matcher) marker(name, fp, value string) string {
	if fp == "" {
		fp = fingerprint(m.tenantKey, value)
	}
	return marker(name, fp)
}

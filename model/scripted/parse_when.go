package scripted

import (
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
)

func (p *parser) when(m *strictyaml.Map) condition {
	if m == nil {
		return nil
	}
	var w condition
	if role := model.Role(m.Text("last")); role != "" {
		if role != model.User && role != model.Tool {
			m.Fault("last", "want user or tool, got %q", role)
		}
		w = append(w, func(c *conversation) bool { return c.last.Role == role })
	}
	for _, k := range []string{"text", "not_text"} {
		if re := p.regexp(m, k); re != nil {
			w = append(w, func(c *conversation) bool { return c.matches(re, c.lastText()) == (k == "text") })
		}
	}
	if n := m.Int("turn", 1); n > 0 {
		w = append(w, func(c *conversation) bool { return int64(c.turn) == n })
	}
	if im := m.Map("input"); im != nil {
		w = append(w, p.fields(im, "input")...)
	}
	for _, rm := range append(m.Maps("results"), m.Map("result")) {
		if rm != nil {
			w = append(w, p.result(rm)...)
		}
	}
	for _, k := range []string{"called", "not_called"} {
		for _, tool := range m.Texts(k) {
			w = append(w, func(c *conversation) bool { return (c.called[tool] > 0) == (k == "called") })
		}
	}
	m.Done("a condition")
	return w
}

// result reads a condition on the last result of a tool. It does not hold
// while there is none.
func (p *parser) result(m *strictyaml.Map) condition {
	tool := m.Need("tool", "the name of the tool whose last result is meant")
	on := func(ok func(c *conversation, r *model.Result) bool) func(c *conversation) bool {
		return func(c *conversation) bool {
			r := c.result(tool)
			return r != nil && ok(c, r)
		}
	}
	w := condition{on(func(*conversation, *model.Result) bool { return true })}
	if m.Has("failed") {
		want := m.Bool("failed")
		w = append(w, on(func(_ *conversation, r *model.Result) bool { return r.Failed == want }))
	}
	if m.Has("repeated") {
		want := m.Bool("repeated")
		w = append(w, on(func(_ *conversation, r *model.Result) bool { return r.Repeated == want }))
	}
	if s := m.Text("contains"); s != "" {
		w = append(w, on(func(_ *conversation, r *model.Result) bool { return strings.Contains(r.Text, s) }))
	}
	if re := p.regexp(m, "matches"); re != nil {
		w = append(w, on(func(c *conversation, r *model.Result) bool { return c.matches(re, r.Text) }))
	}
	if fm := m.Map("fields"); fm != nil {
		w = append(w, p.fields(fm, "result."+tool)...)
	}
	m.Done("a condition on a result")
	return w
}

// fields reads tests of the fields below a reference.
func (p *parser) fields(m *strictyaml.Map, below string) condition {
	var w condition
	for _, key := range m.Keys() {
		var t test
		if m.IsMap(key) {
			t = p.tests(m.Map(key))
		} else {
			t = equals(p.operand(m, key), true)
		}
		ref := below + "." + key
		w = append(w, func(c *conversation) bool {
			v, found := c.lookup(ref)
			return t(c, v, found)
		})
	}
	return w
}

var comparisons = map[string]func(cmp int) bool{
	"above":    func(c int) bool { return c > 0 },
	"at_least": func(c int) bool { return c >= 0 },
	"below":    func(c int) bool { return c < 0 },
	"at_most":  func(c int) bool { return c <= 0 },
}

func (p *parser) tests(m *strictyaml.Map) test {
	var ts []test
	for _, k := range []string{"equals", "not"} {
		if m.Has(k) {
			ts = append(ts, equals(p.operand(m, k), k == "equals"))
		}
	}
	for _, k := range []string{"matches", "not_matches"} {
		if re := p.regexp(m, k); re != nil {
			ts = append(ts, matches(re, k == "matches"))
		}
	}
	if m.Has("missing") {
		ts = append(ts, missing(m.Bool("missing")))
	}
	for _, k := range []string{"above", "at_least", "below", "at_most"} {
		if !m.Has(k) {
			continue
		}
		o := p.operand(m, k)
		if !strings.Contains(o.text, "{{") && number(o.text) == nil {
			m.Fault(k, "want a decimal number or a reference to one, got %q", o.text)
		}
		ts = append(ts, compare(o, comparisons[k]))
	}
	if len(ts) == 0 && len(m.Keys()) == 0 {
		m.Fault("equals", "missing; write at least one test, such as { missing: true }")
	}
	m.Done("a test")
	return allOf(ts)
}

// operand reads a text, number or boolean to hold a value against.
func (p *parser) operand(m *strictyaml.Map, key string) template {
	s, ok := m.Scalar(key)
	if !ok {
		m.Fault(key, "want a text, a number or a reference; a field that is not there is { missing: true }")
		return template{}
	}
	p.check(m.LineOf(key), m.Path(key), s)
	return template{text: s}
}

func (p *parser) regexp(m *strictyaml.Map, key string) *regexp.Regexp {
	if !m.Has(key) {
		return nil
	}
	re, err := regexp.Compile(m.Text(key))
	if err != nil {
		m.Fault(key, "want a regular expression of Go (RE2): %v", err)
		return nil
	}
	p.groups = append(p.groups, re.SubexpNames()...)
	return re
}

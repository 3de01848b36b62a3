package scripted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
)

// Parse reads a policy: YAML with rules, of which the first that fits answers,
// or with a script, whose answers are given in order.
//
//	model: scripted/refunds          # that serves; default: the one asked for
//	rules:
//	  - name: refund what was paid
//	    when:                        # everything must hold; nothing = always
//	      last: tool                 # role of the last message: user, tool
//	      text: "(?i)open"           # regular expression over its text; not_text: the opposite
//	      turn: 2                    # of the answer, from 1
//	      input:                     # fields of the input, if it is a JSON object
//	        order_id: { matches: "^[0-9]+$" }
//	        amount: { above: 0, at_most: "{{result.lookup_order.paid}}" }
//	        currency: EUR            # short for { equals: EUR }
//	      result:                    # the last result of a tool; results: a list of these
//	        tool: lookup_order
//	        failed: false            # also: repeated, contains, matches
//	        fields: { status: paid }
//	      called: [lookup_order]     # tools the model has asked for
//	      not_called: [refund]
//	    answer:
//	      text: "refunding {{input.order_id}}"
//	      calls:
//	        - name: refund
//	          arguments: { order_id: "{{input.order_id}}", amount: "{{result.lookup_order.paid}}" }
//	          # or arguments_text: '{"order_id":' for malformed ones; provider_id: call_1
//	      stop_reason: tool_use      # default: by calls
//	      usage: { input: 900, output: 40, cache_read: 0, cache_write: 0, reasoning: 0 }   # or { missing: true }
//	      model: scripted/other      # that serves
//	      delay: 50ms
//	      error: { kind: rate_limited, retryable: true, retry_after: 2s, message: slow down }   # instead of all above but usage
//
// Tests of a field: equals, not, matches, not_matches, missing, above,
// at_least, below, at_most; numbers are compared exactly, as decimals, whether
// quoted or not. References: {{input}}, {{input.<field>}}, {{result.<tool>}},
// {{result.<tool>.<field>}}, {{match.<group>}}, {{last}}, {{turn}}. A match is what
// a named group, (?P<group>…), of the rule's own regular expressions has matched.
// What a reference brings in is data and is never read as a rule or a reference.
//
// The error holds all faults, each with file, line, field and what to write
// instead.
func Parse(file string, data []byte) (*Model, error) {
	f, m := strictyaml.Parse(file, data, 0)
	p := &parser{file: f}
	out := &Model{name: m.Text("model")}
	out.script = m.Has("script")
	for i, rm := range m.Maps("rules") {
		p.groups = nil
		r := rule{name: rm.Text("name"), when: p.when(rm.Map("when")), answer: p.answer(rm.Map("answer"))}
		if r.name == "" {
			r.name = fmt.Sprintf("rule %d", i+1)
		}
		if !rm.Has("answer") {
			rm.Fault("answer", "missing; write what the model says, such as \"answer: { text: done }\"")
		}
		rm.Done("a rule")
		out.rules = append(out.rules, r)
	}
	for i, am := range m.Maps("script") {
		out.rules = append(out.rules, rule{name: fmt.Sprintf("answer %d", i+1), answer: p.answer(am)})
	}
	m.Done("a policy")
	switch {
	case m.Has("rules") && m.Has("script"):
		m.Fault("script", "a policy has rules or a script; keep one")
	case len(out.rules) == 0 && f.Err() == nil:
		m.Fault("rules", "missing; write a list of rules, or of answers under \"script\"")
	}
	if err := f.Err(); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	out.used = make([]bool, len(out.rules))
	return out, nil
}

type parser struct {
	file   *strictyaml.File
	groups []string // named by regular expressions of the rule that is read, as far as it was read
}

func (p *parser) answer(m *strictyaml.Map) answer {
	if m == nil {
		return answer{}
	}
	a := answer{
		text: p.template(m, "text"), stopReason: m.Text("stop_reason"), model: m.Text("model"),
		delay: m.Duration("delay"), usage: p.usage(m.Map("usage")), err: p.err(m.Map("error")),
	}
	for _, cm := range m.Maps("calls") {
		a.calls = append(a.calls, p.call(cm))
	}
	if a.err != nil {
		a.err.Usage, a.err.Model, a.usage = a.usage, a.model, nil
		for _, k := range []string{"text", "calls", "stop_reason"} {
			if m.Has(k) {
				m.Fault(k, "an answer with an error says nothing else; remove it or the error")
			}
		}
	}
	m.Done("an answer")
	return a
}

func (p *parser) call(m *strictyaml.Map) callTemplate {
	c := callTemplate{name: m.Need("name", "the name of the tool to call"), providerID: m.Text("provider_id")}
	if m.Has("arguments") {
		c.arguments = m.JSON("arguments", func(line int, path, s string) any {
			p.check(line, path, s)
			return template{text: s}
		})
		if _, ok := c.arguments.(map[string]any); !ok {
			m.Fault("arguments", "want fields (\"name: value\" lines); anything else goes into arguments_text")
		}
	}
	if m.Has("arguments_text") {
		if c.arguments != nil {
			m.Fault("arguments_text", "a call has arguments or arguments_text; keep one")
		}
		c.raw = p.template(m, "arguments_text")
	}
	m.Done("a call")
	return c
}

func (p *parser) usage(m *strictyaml.Map) *events.Usage {
	if m == nil {
		return nil
	}
	u := &events.Usage{
		Input: m.Int("input", 0), Output: m.Int("output", 0), CacheRead: m.Int("cache_read", 0),
		CacheWrite: m.Int("cache_write", 0), Reasoning: m.Int("reasoning", 0), Missing: m.Bool("missing"),
	}
	m.Done("a usage")
	return u
}

var kinds = []string{"rate_limited", "overloaded", "timeout", "invalid_request", "unauthorized", "malformed_answer", "unavailable", "context_full"}

func (p *parser) err(m *strictyaml.Map) *model.Error {
	if m == nil {
		return nil
	}
	e := &model.Error{Kind: m.Need("kind", "one of "+strings.Join(kinds, ", ")), Retryable: m.Bool("retryable"), RetryAfter: m.Duration("retry_after")}
	if e.Kind != "" && !slices.Contains(kinds, e.Kind) {
		m.Fault("kind", "want one of %s, got %q", strings.Join(kinds, ", "), e.Kind)
	}
	if s := m.Text("message"); s != "" {
		e.Err = fmt.Errorf("%s", s)
	}
	m.Done("an error")
	return e
}

// template reads a text and checks its references.
func (p *parser) template(m *strictyaml.Map, key string) template {
	s := m.Text(key)
	p.check(m.LineOf(key), m.Path(key), s)
	return template{text: s}
}

const references = "{{input}}, {{input.<field>}}, {{result.<tool>}}, {{result.<tool>.<field>}}, {{match.<group>}}, {{last}} or {{turn}}"

func (p *parser) check(line int, path, s string) {
	for _, m := range reference.FindAllStringSubmatch(s, -1) {
		head, rest, dotted := strings.Cut(m[1], ".")
		ok := false
		switch head {
		case "input":
			ok = !dotted || rest != ""
		case "result":
			ok = rest != ""
		case "match":
			if ok = rest != ""; ok && !slices.Contains(p.groups, rest) {
				p.file.Fault(line, path, "{{%s}}: no regular expression before it in this rule has a group (?P<%s>…)", m[1], rest)
			}
		case "last", "turn":
			ok = !dotted
		}
		if !ok {
			p.file.Fault(line, path, "{{%s}} is no reference; write %s", m[1], references)
		}
	}
	if left := reference.ReplaceAllString(s, ""); strings.Contains(left, "{{") {
		p.file.Fault(line, path, "a {{ without its }}; write %s", references)
	}
}

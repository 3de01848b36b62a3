package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/strictyaml"
)

// Case is one call and what a policy has to say of it.
type Case struct {
	Name  string // what it is called; its call if empty
	Facts Facts  // Tool has the name, and the declaration only where the case says so
	// Declared: the case says what the tool is declared as, so that the process need
	// not have it.
	Declared bool
	Then     Outcome
	Rule     int // that decides; 0 = whichever
	Line     int
}

// ReadCases reads a field that is a list of cases.
func ReadCases(m *strictyaml.Map, key string) []Case {
	var all []Case
	for _, cm := range m.Maps(key) {
		all = append(all, readCase(cm))
	}
	return all
}

func readCase(m *strictyaml.Map) Case {
	c := Case{
		Name: m.Text("name"), Line: m.FileLineOf("call"), Rule: int(m.Int("rule", 1)),
		Facts: Facts{Tool: Tool{Name: m.Need("call", "the name of a tool")}, Tainted: m.Bool("tainted"), TaintedBy: m.Text("tainted_by")},
	}
	if m.Has("args") {
		raw, err := canonical.Marshal(m.JSON("args", func(_ int, _, s string) any { return s }))
		if err != nil || len(raw) == 0 || raw[0] != '{' {
			m.Fault("args", "want fields, as the arguments of the call")
		}
		c.Facts.Arguments = raw
	}
	c.Facts.Tainted = c.Facts.Tainted || c.Facts.TaintedBy != ""
	c.Facts.Tool.Effect, c.Facts.Tool.Recovery, c.Facts.Tool.Trust = m.Text("effect"), m.Text("recovery"), m.Text("trust")
	c.Facts.Tool.Pinned = m.Bool("pinned")
	c.Declared = c.Facts.Tool.Effect != ""
	c.Facts.Tool = c.Facts.Tool.normal()
	for field, v := range map[string]string{"effect": c.Facts.Tool.Effect, "recovery": c.Facts.Tool.Recovery, "trust": c.Facts.Tool.Trust} {
		if !slices.Contains(valuesOf[field], v) {
			m.Fault(field, "want one of %s, got %q", strings.Join(valuesOf[field], ", "), v)
		}
	}
	c.Facts.Run = Run{
		Agent: m.Text("agent"), Owner: m.Text("owner"), Tenant: m.Text("tenant"), Queue: m.Text("queue"),
		Turn: max(1, int(m.Int("turn", 1))), Depth: int(m.Int("depth", 0)),
	}
	c.Facts.Cost.Spent = money(m, "spent")
	if m.Has("limit") {
		limit := money(m, "limit")
		c.Facts.Cost.Limit = &limit
	}
	c.Facts.Cost.Unpriced = int(m.Int("unpriced", 0))
	switch c.Then = Outcome(m.Need("then", "allow, ask or deny")); c.Then {
	case Allow, Ask, Deny, "":
	default:
		m.Fault("then", "want allow, ask or deny, got %q", string(c.Then))
	}
	m.Done("a test")
	return c
}

func money(m *strictyaml.Map, key string) events.PicoUSD {
	var p events.PicoUSD
	if s := m.Text(key); s != "" {
		if err := p.UnmarshalText([]byte(s)); err != nil || p < 0 {
			m.Fault(key, `want dollars in quotes, such as "0.50", got %q`, s)
		}
	}
	return p
}

// normal fills in what a declaration leaves out; nothing said of the effect is
// destructive.
func (t Tool) normal() Tool {
	if t.Effect == "" {
		t.Effect = "destructive"
	}
	if t.Recovery == "" {
		t.Recovery = "none"
	}
	if t.Trust == "" {
		t.Trust = "unknown"
	}
	return t
}

// Of makes a tool of its declaration.
func Of(name, effect, recovery, trust string, pinned bool) Tool {
	return Tool{Name: name, Effect: effect, Recovery: recovery, Trust: trust, Pinned: pinned}.normal()
}

// Try decides the case and says what is wrong; empty if it comes out as it has to.
func (c Case) Try(p Policy) (d Decision, wrong string) {
	d = p.Decide(&c.Facts)
	switch {
	case d.Then != c.Then:
		return d, fmt.Sprintf("want %s, got %s%s", c.Then, d.Then, by(d))
	case c.Rule > 0 && d.Rule != c.Rule:
		return d, fmt.Sprintf("want rule %d to decide, got %s%s", c.Rule, d.Then, by(d))
	}
	return d, ""
}

func by(d Decision) string {
	switch {
	case d.Rule == 0:
		return ": no rule holds"
	case d.Trouble != "":
		return ": " + d.Text()
	}
	return " by " + d.By()
}

// Title is what a case is called.
func (c Case) Title() string {
	if c.Name != "" {
		return c.Name
	}
	args := json.RawMessage("{}")
	if len(c.Facts.Arguments) > 0 {
		args = c.Facts.Arguments
	}
	s := c.Facts.Tool.Name + " " + string(args)
	if c.Facts.Tainted {
		s += ", tainted"
	}
	return s
}

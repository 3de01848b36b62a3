package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

// Callee is an agent that another one may call. Each is a tool of its own, whose
// calls are child runs.
type Callee struct {
	Agent string
	// Budget is what one call may spend. It is held in the caller's budget until the
	// child has ended; nil = no budget beside the agents' own.
	Budget *events.PicoUSD
	Line   int // in the caller's file; 0 = not known; not part of the hash
}

// Tool is the name that the agent has as a tool: its own, with "_" for "-".
func (c Callee) Tool() string { return strings.ReplaceAll(c.Agent, "-", "_") }

// hashed is what of it is part of an agent's hash.
type hashedCallee struct {
	Agent  string `json:"agent"`
	Budget string `json:"budget,omitempty"`
}

func (a *Agent) callees() (hs []hashedCallee) {
	for _, c := range a.Agents {
		h := hashedCallee{Agent: c.Agent}
		if c.Budget != nil {
			h.Budget = c.Budget.String()
		}
		hs = append(hs, h)
	}
	return hs
}

// readTeam reads whom the agent may call, and how others call it.
func readTeam(m *strictyaml.Map, a *Agent) {
	if m.IsMap("agents") {
		in := m.Map("agents")
		for _, name := range in.Keys() {
			if !in.IsMap(name) {
				in.Fault(name, "want fields, such as { budget: \"0.20\" }, or {} for none")
				continue
			}
			cm := in.Map(name)
			c := Callee{Agent: name, Line: in.LineInFile(name)}
			if s := cm.Text("budget"); s != "" {
				c.Budget = new(events.PicoUSD)
				if err := c.Budget.UnmarshalText([]byte(s)); err != nil || *c.Budget <= 0 {
					cm.Fault("budget", `want dollars in quotes that one call may spend, such as "0.20", got %q`, s)
				}
			}
			cm.Done("an agent that is called")
			a.Agents = append(a.Agents, c)
		}
	} else {
		for _, name := range m.Texts("agents") {
			a.Agents = append(a.Agents, Callee{Agent: name, Line: m.LineInFile("agents")})
		}
	}
	for i := range a.Agents {
		if problem := a.callee(i); problem != "" {
			m.Fault("agents", "%s", problem)
		}
	}
	if m.Has("input") {
		readInput(m, a)
	}
}

// callee says what is wrong with the i-th agent that a may call, as far as a alone tells.
func (a *Agent) callee(i int) string {
	c := a.Agents[i]
	if !events.ValidName(c.Agent) {
		return fmt.Sprintf("%q is no name of an agent; write a list such as [researcher, writer]", c.Agent)
	}
	if !tools.ValidMember(c.Tool()) {
		return fmt.Sprintf("%q would be the tool %q, and the names of tools begin with a letter and have no \"__\"; rename the agent", c.Agent, c.Tool())
	}
	if slices.Contains(a.Tools, c.Tool()) {
		return fmt.Sprintf("%q is called as the tool %q, and the agent has another tool of that name; rename the agent, or take out the tool", c.Agent, c.Tool())
	}
	for _, o := range a.Agents[:i] {
		switch {
		case o.Agent == c.Agent:
			return fmt.Sprintf("%q is written twice; keep one", c.Agent)
		case o.Tool() == c.Tool():
			return fmt.Sprintf("%q and %q would both be the tool %q; rename one", o.Agent, c.Agent, c.Tool())
		}
	}
	return ""
}

func readInput(m *strictyaml.Map, a *Agent) {
	if !m.IsMap("input") {
		m.Fault("input", "want a JSON Schema of an object, such as { type: object, properties: { topic: { type: string } } }")
		return
	}
	raw, err := canonical.Marshal(m.JSON("input", func(_ int, _, s string) any { return s }))
	if err != nil {
		m.Fault("input", "it is not JSON: %v", err)
		return
	}
	a.Input = json.RawMessage(raw)
	var faulty *tools.DefinitionError
	_, err = tools.Raw(tools.Definition{Name: "input", Description: "input", Effect: tools.Readonly}, a.Input,
		func(context.Context, *tools.Invocation) (any, error) { return nil, nil })
	switch {
	case errors.As(err, &faulty):
		m.Fault("input", "%s: want the JSON Schema of an object", faulty.Text)
	case err != nil:
		m.Fault("input", "%v", err)
	}
}

// CheckTeam checks agents against each other: that whom they call is among them and
// described, under a name that no other tool of theirs has, and that no call leads back
// to where it came from. The error joins all faults, each a [*strictyaml.Fault]
// with the file and the line of the caller.
func CheckTeam(as []*Agent) error {
	byName := map[string]*Agent{}
	names := make([]string, len(as))
	for i, a := range as {
		byName[a.Name], names[i] = a, a.Name
	}
	var errs []error
	for _, a := range as {
		for i, c := range a.Agents {
			fault := func(format string, args ...any) {
				errs = append(errs, a.faultAt(c, fmt.Sprintf(format, args...)))
			}
			if problem := a.callee(i); problem != "" {
				fault("%s", problem)
				continue
			}
			other := byName[c.Agent]
			switch {
			case other == nil:
				fault("there is no agent %q; %s", c.Agent, choice(c.Agent, names))
			case other.Description == "":
				fault("agent %q has no description, which is what the model of %q is told about it; write one in %s", c.Agent, a.Name, other.where())
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	done := map[string]bool{}
	var path []string
	var visit func(a *Agent)
	visit = func(a *Agent) {
		path = append(path, a.Name)
		for _, c := range a.Agents {
			if i := slices.Index(path, c.Agent); i >= 0 {
				errs = append(errs, a.faultAt(c, fmt.Sprintf("%s: a call that leads back to its caller never ends; take one of these calls out",
					strings.Join(append(slices.Clone(path[i:]), c.Agent), " → "))))
				continue
			}
			if !done[c.Agent] {
				visit(byName[c.Agent])
			}
		}
		path = path[:len(path)-1]
		done[a.Name] = true
	}
	for _, a := range as {
		if !done[a.Name] {
			visit(a)
		}
	}
	return errors.Join(errs...)
}

// where is the agent's file, or its name if it comes from none.
func (a *Agent) where() string {
	if a.Path != "" {
		return a.Path
	}
	return fmt.Sprintf("agent %q", a.Name)
}

func (a *Agent) faultAt(c Callee, message string) error {
	return &strictyaml.Fault{File: a.where(), Line: c.Line, Field: "agents", Message: message}
}

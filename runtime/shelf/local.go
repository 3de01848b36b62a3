package shelf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// local is a builtin that needs nothing but the process.
type local struct {
	name string
	// make makes it, with settings from the section of its name or, if m is nil, without.
	make func(m *strictyaml.Map) (tools.Tool, error)
	// settings: there may be a section of its name.
	settings bool
}

func locals() []local {
	plain := func(name string, t func() tools.Tool) local {
		return local{name: name, make: func(*strictyaml.Map) (tools.Tool, error) { return t(), nil }}
	}
	return []local{
		plain("finish", builtin.Finish),
		plain("decline", builtin.Decline),
		plain("think", builtin.Think),
		plain("notes", builtin.Notes),
		plain("load_skill", builtin.LoadSkill),
		plain("recall_turns", builtin.RecallTurns),
		{name: "escalate", settings: true, make: func(m *strictyaml.Map) (tools.Tool, error) {
			return builtin.Escalate(builtin.EscalateConfig{Within: m.Duration("within")}), nil
		}},
		plain("wait", func() tools.Tool { return builtin.Wait(0) }),
		plain("wait_for_signal", func() tools.Tool { return builtin.WaitForSignal(0) }),
		plain("calculate", builtin.Calculate),
		{name: "current_time", settings: true, make: func(m *strictyaml.Map) (tools.Tool, error) {
			return builtin.CurrentTime(builtin.CurrentTimeConfig{DefaultTimeZone: m.Text("time_zone")})
		}},
		plain("date_math", builtin.DateMath),
		plain("dates", builtin.Dates),
		plain("json_query", builtin.JSONQuery),
	}
}

// locals adds those that builtins lists, all if it is not there.
func (r *reader) locals(m *strictyaml.Map) {
	all := locals()
	var names []string
	for _, b := range all {
		names = append(names, b.name)
	}
	wanted := names
	if m.Has("builtins") {
		wanted = m.Texts("builtins")
	}
	for i, name := range wanted {
		if slices.Contains(names, name) && !slices.Contains(wanted[:i], name) {
			continue
		}
		want := "write some of " + strings.Join(names, ", ")
		if near := strictyaml.Nearest(name, names); near != "" {
			want = fmt.Sprintf("did you mean %q?", near)
		}
		if slices.Contains(names, name) {
			want = "it is written twice; keep one"
		}
		for _, s := range sections() {
			if s.name == name {
				want = "it has a section of its own: write " + name + ": with its settings below"
			}
		}
		m.Fault("builtins", "%q: %s", name, want)
	}
	for _, b := range all {
		var sm *strictyaml.Map
		if b.settings {
			sm = m.Map(b.name)
		}
		if !slices.Contains(wanted, b.name) {
			if sm != nil {
				m.Fault(b.name, "it is not among builtins; add it there, or take its settings out")
			}
			continue
		}
		t, err := b.make(sm)
		sm.Done(b.name)
		switch {
		case err != nil && sm != nil:
			sm.FaultAll("%v", err)
		case err != nil:
			m.FaultAll("%s: %v", b.name, err)
		default:
			r.shelf.add(Builtin, t)
		}
	}
}

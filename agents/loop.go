package agents

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/loops"
)

// readLoop reads the field loop: a name, or fields with the name as strategy and
// the loop's options beside it.
func (l Loader) readLoop(m *strictyaml.Map, a *Agent) {
	in, field, options := m, "loop", map[string]any{}
	if m.IsMap("loop") {
		in, field = m.Map("loop"), "strategy"
		a.Loop = in.Need(field, "the name of a loop, such as revise")
		for _, key := range in.Keys() {
			if key != field {
				options[key] = in.JSON(key, func(_ int, _, s string) any { return s })
			}
		}
		if a.Loop == "" {
			return
		}
	} else {
		a.Loop = m.Text("loop")
	}
	if a.Loop == "" {
		a.Loop = DefaultLoop
	}
	if in.Has(field) && l.Loops != nil && !slices.Contains(l.Loops, a.Loop) {
		in.Fault(field, "there is no loop %q; %s", a.Loop, choice(a.Loop, l.Loops))
		return
	}
	if len(options) > 0 {
		raw, err := canonical.Marshal(options)
		if err != nil {
			m.Fault("loop", "these options are not JSON: %v", err)
			return
		}
		a.LoopOptions = json.RawMessage(raw)
	}
	for _, s := range l.Strategies {
		if s.Name() == a.Loop {
			_, err := loops.CheckOptions(s, a.LoopOptions)
			optionFaults(m, in, field, err)
		}
	}
}

// optionFaults puts what a loop says about its options to their lines.
func optionFaults(m, in *strictyaml.Map, field string, err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var o *loops.OptionError
		switch {
		case errors.As(err, &o) && o.Field != "" && in != m:
			in.Fault(o.Field, "%s", o.Message)
		case errors.As(err, &o) && o.Field != "": // a name alone has no place for options
			m.Fault(field, "%s: %s; write strategy and options as fields below loop", o.Field, o.Message)
		default:
			m.Fault("loop", "%s", err)
		}
	}
}

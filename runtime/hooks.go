package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/tools"
)

// CallValidator blocks a tool call by an error, which is told to the model. It
// may run twice for a call around a crash.
type CallValidator func(ctx context.Context, def *tools.Definition, c tools.Call) error

// CallMiddleware is the host's code around tool calls; either field may be nil.
// Neither grants anything; see [tools.CallMiddleware] and [tools.ResultMiddleware].
type CallMiddleware struct {
	Call   tools.CallMiddleware
	Result tools.ResultMiddleware
}

// lacksHooks names what is wanted and not there; nil for nothing.
func (c *Config) lacksHooks(validate string, middleware []string) error {
	if _, ok := c.CallValidators[validate]; validate != "" && !ok {
		return fmt.Errorf("validator %q, which this worker does not have; it has %s", validate, listed(c.CallValidators))
	}
	for _, m := range middleware {
		if _, ok := c.CallMiddleware[m]; !ok {
			return fmt.Errorf("middleware %q, which this worker does not have; it has %s", m, listed(c.CallMiddleware))
		}
	}
	return nil
}

func listed[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// hook puts what an agent names into its tool pipeline. Whoever makes one has
// asked lacksHooks; should a name be missing all the same, each call is blocked.
func (c *Config) hook(d *tools.Config, a *agents.Agent) {
	if err := c.lacksHooks(a.Validate, a.Middleware); err != nil {
		d.Validate = func(context.Context, *tools.Definition, tools.Call) error { return err }
		return
	}
	if a.Validate != "" {
		d.Validate = c.CallValidators[a.Validate]
	}
	d.CallMiddleware, d.ResultMiddleware = slices.Clone(d.CallMiddleware), slices.Clone(d.ResultMiddleware)
	for _, name := range a.Middleware {
		m := c.CallMiddleware[name]
		if m.Call != nil {
			d.CallMiddleware = append(d.CallMiddleware, m.Call)
		}
		if m.Result != nil {
			d.ResultMiddleware = append(d.ResultMiddleware, m.Result)
		}
	}
}

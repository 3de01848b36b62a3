package agents

import (
	"errors"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools/policy"
)

// readPolicy reads the fields policy and policy_tests of an agent whose name and
// tools are known. What a tool is declared as is checked where tools are.
func (l Loader) readPolicy(m *strictyaml.Map, a *Agent) {
	a.Policy = policy.Read(m, "policy", fmt.Sprintf("agent %q", a.Name))
	for _, err := range a.Policy.CheckNames(a.ToolNames()) {
		var f *policy.Fault
		if errors.As(err, &f) {
			m.FaultAt("policy", f.Line, "%s", f)
		}
	}
	a.PolicyTests = policy.ReadCases(m, "policy_tests")
}

// ToolNames are the names of the agent's tools, those of the agents that it may
// call among them.
func (a *Agent) ToolNames() []string {
	names := slices.Clone(a.Tools)
	for _, c := range a.Agents {
		names = append(names, c.Tool())
	}
	return names
}

// readHooks reads the fields validate and middleware: names of the host's code.
func readHooks(m *strictyaml.Map, a *Agent) {
	a.Validate, a.Middleware = m.Text("validate"), m.Texts("middleware")
	if a.Validate != "" && !events.ValidName(a.Validate) {
		m.Fault("validate", "want the name of one of the host's validators: 1 to 64 letters, digits, \"_\" and \"-\"; got %q", a.Validate)
	}
	for i, n := range a.Middleware {
		switch {
		case !events.ValidName(n):
			m.Fault("middleware", "want names of the host's middleware: 1 to 64 letters, digits, \"_\" and \"-\"; got %q", n)
		case slices.Contains(a.Middleware[:i], n):
			m.Fault("middleware", "%q is written twice; keep one", n)
		}
	}
}

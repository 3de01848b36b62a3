package agents

import (
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools/policy"
)

// readPolicy reads the fields policy and policy_tests of an agent whose name and
// tools are known. What a tool is declared as is checked where tools are.
func (l Loader) readPolicy(m *strictyaml.Map, a *Agent) {
	a.Policy = policy.Read(m, "policy", fmt.Sprintf("agent %q", a.Name))
	for _, err := range a.Policy.CheckNames(a.Tools) {
		var f *policy.Fault
		if errors.As(err, &f) {
			m.FaultAt("policy", f.Line, "%s", f)
		}
	}
	a.PolicyTests = policy.ReadCases(m, "policy_tests")
}

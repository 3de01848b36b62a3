package providers

import (
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
)

// readRoles reads which chains of models have a name. found are the models of the
// file; those that there are already may be named too.
func (s *Set) readRoles(m *strictyaml.Map, found map[string]model.Model) map[string][]string {
	rm := m.Map("roles")
	roles := map[string][]string{}
	for _, role := range rm.Keys() {
		chain := rm.Texts(role)
		_, here := found[role]
		_, taken := s.Models[role]
		switch {
		case here || taken:
			rm.Fault(role, "there is a model of this name, which would be asked alone; call the role otherwise")
		case len(chain) == 0 && rm.IsList(role):
			rm.Fault(role, "want models in the order in which they are asked, such as [gpt-5-mini, claude-sonnet-4-5]")
		}
		for i, name := range chain {
			_, here := found[name]
			_, there := s.Models[name]
			switch {
			case slices.Contains(chain[:i], name):
				rm.Fault(role, "%q is written twice; keep one", name)
			case !here && !there:
				known := append(slices.Collect(maps.Keys(found)), slices.Collect(maps.Keys(s.Models))...)
				hint := "this file has none"
				if near := strictyaml.Nearest(name, known); near != "" {
					hint = "did you mean " + near + "?"
				} else if len(known) > 0 {
					slices.Sort(known)
					hint = "there are " + strings.Join(known, ", ")
				}
				rm.Fault(role, "there is no model %q; %s", name, hint)
			}
		}
		roles[role] = chain
	}
	return roles
}

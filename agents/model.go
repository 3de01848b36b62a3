package agents

import (
	"slices"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

// readModel reads the field model: a name, or a list of which the first that answers
// serves. A name alone may be a role's.
func (l Loader) readModel(m *strictyaml.Map, a *Agent) {
	if !m.IsList("model") {
		a.Model = m.Need("model", "the model's name, such as scripted/refunds")
		if all := append(slices.Clone(l.Models), l.Roles...); a.Model != "" && l.Models != nil && !slices.Contains(all, a.Model) {
			m.Fault("model", "there is no model %q; %s", a.Model, choice(a.Model, all))
		}
		return
	}
	names := m.Texts("model")
	if len(names) == 0 {
		m.Fault("model", "empty; write a model's name, or several in the order in which they are asked")
		return
	}
	a.Model = names[0]
	if len(names) > 1 {
		a.Fallbacks = names[1:]
	}
	for i, n := range names {
		switch {
		case slices.Contains(names[:i], n):
			m.Fault("model", "%q is written twice; keep one", n)
		case slices.Contains(l.Roles, n) && !slices.Contains(l.Models, n):
			m.Fault("model", "%q is a role, which stands alone; write the models of the list out", n)
		case l.Models != nil && !slices.Contains(l.Models, n):
			m.Fault("model", "there is no model %q; %s", n, choice(n, l.Models))
		}
	}
}

package agents

import (
	"slices"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

// readGroups reads the groups of an agent whose tools are known.
func readGroups(m *strictyaml.Map, a *Agent) []Group {
	if m.Has("groups") && !m.Has("select") {
		m.Fault("groups", "they say how select chooses, and there is none; write how many tools a model call is shown, such as select: 8")
	}
	return groupsIn(m, a, map[string]string{}, 1)
}

// maxGroupDepth keeps a file from nesting without end.
const maxGroupDepth = 8

// groupsIn reads one level; in says in which group a tool is already.
func groupsIn(m *strictyaml.Map, a *Agent, in map[string]string, depth int) []Group {
	var all []Group
	names := map[string]bool{}
	for _, gm := range m.Maps("groups") {
		g := Group{
			Name:        gm.Need("name", "a word that people name the subject by, such as papers"),
			Description: gm.Text("description"),
			Tools:       gm.Texts("tools"),
		}
		switch {
		case g.Name == "":
		case !tools.ValidMember(g.Name):
			gm.Fault("name", "want letters, digits and \"_\", not starting with a digit, without \"__\"; got %q", g.Name)
		case names[g.Name]:
			gm.Fault("name", "there are two groups %q; rename one", g.Name)
		}
		names[g.Name] = true
		for _, t := range g.Tools {
			other, taken := in[t]
			switch {
			case taken:
				gm.Fault("tools", "%q is in group %q already; a tool is in one group", t, other)
			case !slices.Contains(a.Tools, t):
				gm.Fault("tools", "%q is none of the agent's tools; %s", t, choice(t, a.Tools))
			}
			in[t] = g.Name
		}
		switch {
		case depth == maxGroupDepth && gm.Has("groups"):
			gm.Fault("groups", "groups are %d deep here; no deeper", depth)
		case gm.Has("groups"):
			g.Groups = groupsIn(gm, a, in, depth+1)
		}
		if len(g.Tools) == 0 && len(g.Groups) == 0 {
			gm.Fault("tools", "the group is empty; write a list such as [a, b]")
		}
		gm.Done("a group")
		all = append(all, g)
	}
	return all
}

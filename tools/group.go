package tools

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Member is a bus in a group.
type Member struct {
	// Name is unique in the group, and by the rule of tools' names: letters,
	// digits and "_", not starting with a digit, without "__".
	Name string
	// Description says what the member is for, to people, and to a request that
	// no tool matches.
	Description string
	// Bus may be a group.
	Bus *Bus
}

// ValidMember reports whether a member of a group may have this name.
func ValidMember(name string) bool { return baseName(name) }

// GroupConfig configures a group.
type GroupConfig struct {
	BusConfig
	// Namespace gives tools the names member__tool, so that two members may have
	// tools of one name. What a tool needs is looked for in its member first.
	Namespace bool
}

// ErrMember is wrapped by every error about a member of a group.
var ErrMember = errors.New("invalid member of a group")

// MemberError says what is wrong with a member. It wraps [ErrMember].
type MemberError struct {
	Member string
	Text   string
}

func (e *MemberError) Error() string {
	return fmt.Sprintf("member %q of the group: %s", e.Member, e.Text)
}

// Is reports true for [ErrMember].
func (e *MemberError) Is(target error) bool { return target == ErrMember }

// NewGroup returns a bus of buses: it is used like any other, and towards
// models its tools are one list. Selection goes three ways:
//
//   - A query that clearly names a member is answered from that member alone:
//     all words of the member's name are in it, and no other member's are, or
//     only words of that same name. Within the member it goes on like this.
//   - Any other query ranks the tools of all members together.
//   - What the query does not tell apart is spread over the members in turn.
//
// Pinned tools, and what is needed, come from any member. Two members of one name,
// or two tools of one name, are an error: [*MemberError] and [*NameError]. Calls
// that reach a tool count on the member's bus too. The members' own limits,
// dispatchers and warnings do not matter here.
func NewGroup(members []Member, cfg GroupConfig) (*Bus, error) {
	reg := &Registry{}
	root := &domain{}
	seen := map[string]bool{}
	from := map[string]string{}
	for _, m := range members {
		if err := m.check(seen); err != nil {
			return nil, err
		}
		for _, e := range m.Bus.entries {
			if cfg.Namespace {
				var err error
				if e, err = m.namespaced(e); err != nil {
					return nil, err
				}
			}
			name := e.def.Name
			if first, taken := from[name]; taken {
				return nil, fmt.Errorf("members %q and %q of the group, which GroupConfig.Namespace would keep apart: %w",
					first, m.Name, &NameError{name, ErrDuplicateTool})
			}
			from[name] = m.Name
			reg.put(e)
		}
	}
	d := NewDispatcher(reg, cfg.Dispatch)
	root.sub = domains(members, cfg, d)
	root.hi = int32(len(d.offered))
	return newBus(d, cfg.BusConfig, root), nil
}

func (m Member) check(seen map[string]bool) error {
	if !baseName(m.Name) {
		return &MemberError{m.Name, "its name must be letters, digits and _, not starting with a digit, without __"}
	}
	if seen[m.Name] {
		return &MemberError{m.Name, "there are two of this name"}
	}
	if m.Bus == nil {
		return &MemberError{m.Name, "it has no bus"}
	}
	seen[m.Name] = true
	return nil
}

// namespaced renames a tool, and what it needs of the same member.
func (m Member) namespaced(e *entry) (*entry, error) {
	t, err := Namespaced(m.Name, e.tool)
	if err != nil {
		return nil, err
	}
	w := t.(*wrapped)
	for i, name := range w.def.Needs {
		if _, ok := m.Bus.place[name]; ok {
			w.def.Needs[i] = m.Name + namespaceMark + name
		}
	}
	inner := e
	if e, err = newEntry(w); err != nil {
		return nil, err
	}
	e.calls = inner.calls
	return e, nil
}

// domains are the members, with where their tools came to be. A filter of the
// group's may have left some out, but it has changed no order.
func domains(members []Member, cfg GroupConfig, d *Dispatcher) []*domain {
	at := int32(0)
	permits := func(prefix, name string) bool { return permitted(prefix+name, d.cfg.Filters) }
	var all []*domain
	for _, m := range members {
		prefix := ""
		if cfg.Namespace {
			prefix = m.Name + namespaceMark
		}
		// place[i] is where the member's tool i is in the group.
		place := make([]int32, len(m.Bus.entries)+1)
		for i, e := range m.Bus.entries {
			place[i] = at
			if permits(prefix, e.def.Name) {
				at++
			}
		}
		place[len(place)-1] = at
		top := m.Bus.root.moved(place)
		top.name, top.words, top.about = m.Name, slices.Sorted(maps.Keys(wordSet(m.Name))), wordSet(m.Description)
		all = append(all, top)
	}
	return all
}

// moved is d, and what is in it, with its tools in other places.
func (d *domain) moved(place []int32) *domain {
	c := &domain{name: d.name, words: d.words, about: d.about, lo: place[d.lo], hi: place[d.hi]}
	for _, m := range d.sub {
		c.sub = append(c.sub, m.moved(place))
	}
	return c
}

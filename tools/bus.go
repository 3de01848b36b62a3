package tools

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daybookhq/daybook/events"
)

// DefaultLimit is how many tools a [Bus] offers for a request unless it is told.
const DefaultLimit = 12

// BusConfig configures a [Bus]. All fields are optional.
type BusConfig struct {
	// Limit is how many tools Select offers, pinned ones among them. Zero means
	// DefaultLimit; negative means the pinned ones only.
	Limit int
	// AllowOverlap says nothing of descriptions that are nearly the same.
	AllowOverlap bool
	// Dispatch is how Invoke performs calls; its Filters also bound what is offered.
	Dispatch Config
	// Logger is told of overlaps, once per bus; silent if nil.
	Logger *slog.Logger
}

// Bus holds tools, picks those to offer for a request, shows them in the shapes
// of providers, and runs them. What it holds never changes. Safe for concurrent
// use.
//
// Picking only decides what a model is shown: who may call what is for the
// [Dispatcher]'s filters and permission to say.
type Bus struct {
	limit    int
	disp     *Dispatcher
	entries  []*entry
	place    map[string]int32 // of a name in entries
	needs    [][]int32        // of those that are on the bus
	base     []int32          // pinned ones, and what they need
	index    *index
	root     *domain
	overlaps []Overlap
	scratch  sync.Pool
	catalog  func() events.Hash // computed once
}

// NewBus returns a bus of tools. Two of one name are a [*NameError], a faulty
// declaration is a [*DefinitionError].
func NewBus(tools []Tool, cfg BusConfig) (*Bus, error) {
	reg, err := NewRegistry(tools...)
	if err != nil {
		return nil, err
	}
	return BusOf(NewDispatcher(reg, cfg.Dispatch), cfg), nil
}

// BusOf returns a bus of the tools that d permits; cfg.Dispatch is not used.
func BusOf(d *Dispatcher, cfg BusConfig) *Bus {
	return newBus(d, cfg, &domain{hi: int32(len(d.offered))})
}

func newBus(d *Dispatcher, cfg BusConfig, root *domain) *Bus {
	b := &Bus{limit: cfg.Limit, disp: d, entries: d.offered, place: make(map[string]int32, len(d.offered)), root: root}
	if b.limit == 0 {
		b.limit = DefaultLimit
	}
	defs := make([]*Definition, len(b.entries))
	for i, e := range b.entries {
		defs[i] = e.def
		b.place[e.def.Name] = int32(i)
	}
	b.index = newIndex(defs)
	b.needs = make([][]int32, len(defs))
	for i, def := range defs {
		for _, name := range def.Needs {
			if j, ok := b.place[name]; ok && int(j) != i && !slices.Contains(b.needs[i], j) {
				b.needs[i] = append(b.needs[i], j)
			}
		}
	}
	b.catalog = sync.OnceValue(d.Catalog)
	b.scratch.New = func() any { return newShortlist(b) }
	s := newShortlist(b)
	for i, def := range defs {
		if def.Pinned {
			s.force(int32(i))
		}
	}
	b.base = s.picked
	if !cfg.AllowOverlap {
		b.warn(cfg.Logger, defs)
	}
	return b
}

func (b *Bus) warn(log *slog.Logger, defs []*Definition) {
	b.overlaps = overlapping(defs)
	if len(b.overlaps) == 0 || log == nil {
		return
	}
	first := b.overlaps[0]
	log.Warn("tools have nearly the same description, so models confuse them: say in each what the other is not for",
		"tool", first.A, "and", first.B, "pairs", len(b.overlaps))
}

// Overlaps are pairs of tools with nearly the same description, at most
// ten; none if BusConfig.AllowOverlap is set.
func (b *Bus) Overlaps() []Overlap { return slices.Clone(b.overlaps) }

// All returns every tool in the order declared.
func (b *Bus) All() []Tool {
	all := make([]Tool, len(b.entries))
	for i, e := range b.entries {
		all[i] = e.tool
	}
	return all
}

// Names are those of All.
func (b *Bus) Names() []string {
	names := make([]string, len(b.entries))
	for i, e := range b.entries {
		names[i] = e.def.Name
	}
	return names
}

// Lookup returns the tool of that name.
func (b *Bus) Lookup(name string) (Tool, bool) {
	if i, ok := b.place[name]; ok {
		return b.entries[i].tool, true
	}
	return nil, false
}

// Missing returns those of names that are not on the bus, each once.
func (b *Bus) Missing(names []string) []string {
	var missing []string
	for _, name := range names {
		if _, ok := b.place[name]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// EffectOf returns what the tool declares, which is empty if it declares
// nothing: that is not known, and not harmless. It is not ok if there is no such tool.
func (b *Bus) EffectOf(name string) (e Effect, ok bool) {
	i, ok := b.place[name]
	if !ok {
		return "", false
	}
	return b.entries[i].def.Effect, true
}

// Destructive names the tools that declare it, in order. Consult Unannotated
// too before you take the others for safe.
func (b *Bus) Destructive() []string {
	return b.having(func(d *Definition) bool { return d.Effect == Destructive })
}

// Unannotated names the tools that declare no effect, in order.
func (b *Bus) Unannotated() []string {
	return b.having(func(d *Definition) bool { return d.Effect == "" })
}

func (b *Bus) having(f func(*Definition) bool) []string {
	names := []string{}
	for _, e := range b.entries {
		if f(e.def) {
			names = append(names, e.def.Name)
		}
	}
	return names
}

// Catalog is the digest of all declarations, whatever their order.
func (b *Bus) Catalog() events.Hash { return b.catalog() }

// Dispatcher returns what performs the calls of Invoke.
func (b *Bus) Dispatcher() *Dispatcher { return b.disp }

// Usage counts, by name, the calls that reached a tool: on this bus, and through
// whatever else runs the same tools of the same registry. A call that was
// blocked, or answered with an earlier outcome, reached none.
func (b *Bus) Usage() map[string]int64 {
	counts := map[string]int64{}
	for _, e := range b.entries {
		if n := e.calls.Load(); n > 0 {
			counts[e.def.Name] = n
		}
	}
	return counts
}

// counter counts the calls that reached a tool. A group shares it with its members.
type counter = atomic.Int64

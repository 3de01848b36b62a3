package shelf

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/folder"
)

// notYet stands for a memory until the system is open: it is never asked.
type notYet struct{ memory.Client }

func (r *reader) memory(m *strictyaml.Map) func() error {
	name := m.Need("root", "what a run's memory is fenced by: owner, session or tenant")
	root := roots()[name]
	if root == nil && name != "" {
		m.Fault("root", "want owner, session or tenant, got %q", name)
	}
	o := memory.Options{
		Client: notYet{}, Root: root, Source: m.Text("source"),
		Format:    memory.Format(oneOf(m, "format", string(memory.TOON), string(memory.Markdown))),
		Trust:     tools.Trust(oneOf(m, "trust", string(tools.External), string(tools.Own))),
		DeepPrice: microUSD(m, "deep_price"), Redactor: redact.New(redact.Config{}),
	}
	return func() error {
		like, err := memory.New(o)
		if err != nil {
			return err
		}
		r.shelf.addLate(like.Tools(), func(p Parts) ([]tools.Tool, error) {
			if p.Memory == nil {
				return nil, errors.New("memory: this program keeps none (shelf.Parts.Memory)")
			}
			o.Client, o.Redactor = p.Memory, p.Redactor
			made, err := memory.New(o)
			if err != nil {
				return nil, err
			}
			return made.Tools(), nil
		})
		return nil
	}
}

// roots are what a memory can be fenced by. A run without an owner or a session
// has no such memory: its calls fail, and say so.
func roots() map[string]func(*tools.Invocation) string {
	of := func(kind string, id func(*tools.Invocation) string) func(*tools.Invocation) string {
		return func(in *tools.Invocation) string {
			if id(in) == "" {
				return ""
			}
			return kind + ":" + id(in)
		}
	}
	return map[string]func(*tools.Invocation) string{
		"owner":   of("user", func(in *tools.Invocation) string { return in.Owner }),
		"session": of("session", func(in *tools.Invocation) string { return in.SessionID }),
		"tenant":  of("tenant", func(in *tools.Invocation) string { return in.Tenant }),
	}
}

func (r *reader) sharedMemory(m *strictyaml.Map) func() error {
	var cfg folder.Config
	tenants := map[string][]string{}
	for _, sm := range m.Maps("folders") {
		s := folder.Store{Info: sharedmemory.Info{ID: sm.Need("id", "a name such as team"), Description: sm.Text("description")}}
		if sm.Need("folder", "the folder of the documents") != "" {
			s.Dir = r.path(sm, "folder")
		}
		if sm.Has("tenants") {
			tenants[s.Info.ID] = append([]string{}, sm.Texts("tenants")...)
		}
		sm.Done("a folder")
		if s.Dir == "" || s.Info.ID == "" {
			continue // said already
		}
		with := append(slices.Clip(cfg.Stores), s)
		if _, err := folder.New(folder.Config{Stores: with}); err != nil {
			sm.Fault("id", "%v", err)
			continue
		}
		cfg.Stores = with
	}
	cfg.Allow = func(c sharedmemory.Context, store string) bool {
		only, limited := tenants[store]
		return !limited || slices.Contains(only, c.Tenant)
	}
	ledger := m.Bool("ledger")
	return func() error {
		if len(cfg.Stores) == 0 && !ledger {
			return errors.New("there is nothing to read; write folders, a list with id and folder of each, or ledger: true for the stores in the ledger's database")
		}
		folders, err := folder.New(cfg)
		if err != nil {
			return err
		}
		ts, err := sharedmemory.Tools(folders)
		switch {
		case err != nil:
			return err
		case !ledger:
			r.shelf.add(Builtin, ts...)
			return nil
		}
		r.shelf.addLate(ts, func(p Parts) ([]tools.Tool, error) {
			if p.Shared == nil {
				return nil, errors.New("shared_memory: this program has none in a database (shelf.Parts.Shared)")
			}
			return sharedmemory.Tools(joined{folders, p.Shared})
		})
		return nil
	}
}

// joined are the stores of several providers, in their order.
type joined []sharedmemory.Provider

// Snapshot is that of the first that is not connected, if there is one: a list
// without its stores would say that they are gone.
func (j joined) Snapshot(ctx context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
	var all []iter.Seq[sharedmemory.Store]
	for _, p := range j {
		s, err := p.Snapshot(ctx, c)
		if err != nil || s.State != sharedmemory.Connected || s.Stores == nil {
			return s, err
		}
		all = append(all, s.Stores)
	}
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: func(yield func(sharedmemory.Store) bool) {
		for _, stores := range all {
			for s := range stores {
				if !yield(s) {
					return
				}
			}
		}
	}}, nil
}

package shelf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
			return sharedmemory.Tools(joined{{"the folders", folders}, {"the ledger's database", p.Shared}})
		})
		return nil
	}
}

// joined are the stores of several providers, in their order.
type joined []struct {
	name string
	from sharedmemory.Provider
}

// maxJoined bounds what a provider yields before it is looked at: more than any
// list shows.
const maxJoined = 10_000

// Snapshot has the stores of those that are connected, and says which are not:
// a list that was silent would say that their stores are gone. If none is, it is
// that of the first that is not. A store that two of them have is left out, and
// said: one would hide the other.
func (j joined) Snapshot(ctx context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
	var all []sharedmemory.Store
	var missing []string
	var away sharedmemory.Snapshot
	var failed error
	connected := false
	in := map[string]string{} // id of a store → name of its provider
	twice := map[string]bool{}
	for _, p := range j {
		s, err := p.from.Snapshot(ctx, c)
		switch {
		case ctx.Err() != nil:
			return sharedmemory.Snapshot{}, context.Cause(ctx)
		case err != nil:
			failed = errors.Join(failed, err)
			missing = append(missing, "those of "+p.name+" cannot be read")
			continue
		case s.State == sharedmemory.Connected && s.Stores == nil:
			return s, nil // no answer
		case s.State != sharedmemory.Connected:
			if away.State == 0 {
				away = s
			}
			why := "those of " + p.name + " are away, retry later"
			if s.Message != "" {
				why += " (" + s.Message + ")"
			}
			missing = append(missing, why)
			continue
		}
		connected = true
		if s.Message != "" {
			missing = append(missing, s.Message)
		}
		n := 0
		for st := range s.Stores {
			if n++; n > maxJoined {
				return sharedmemory.Snapshot{}, fmt.Errorf("%s have more than %d stores", p.name, maxJoined)
			}
			if st != nil {
				id := st.Info().ID
				if first, there := in[id]; there && first != p.name && !twice[id] {
					twice[id] = true
					missing = append(missing, fmt.Sprintf("%s is in %s and in %s, and people must rename one", id, first, p.name))
				}
				if in[id] == "" {
					in[id] = p.name
				}
			}
			all = append(all, st)
		}
	}
	switch {
	case !connected && away.State != 0:
		return away, nil
	case !connected:
		return sharedmemory.Snapshot{}, failed
	}
	all = slices.DeleteFunc(all, func(st sharedmemory.Store) bool { return st != nil && twice[st.Info().ID] })
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Message: strings.Join(missing, "; "), Stores: slices.Values(all)}, nil
}

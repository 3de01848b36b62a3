package shelf_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// registry is that of a file.
func registry(t *testing.T, dir, text string, p shelf.Parts) *tools.Registry {
	t.Helper()
	s, err := shelf.Parse(t.Context(), "f", dir, []byte(text), shelf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Redactor = redact.New(redact.Config{})
	var reg tools.Registry
	if err := s.Register(&reg, p); err != nil {
		t.Fatal(err)
	}
	return &reg
}

func call(t *testing.T, reg *tools.Registry, name, args string, in tools.Invocation) (string, error) {
	t.Helper()
	tool, ok := reg.Lookup(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	in.Arguments = []byte(args)
	in.Progress = func(string, any) {}
	v, err := tool.Call(t.Context(), &in)
	return fmt.Sprint(v), err
}

// SG-81: what one owner's run keeps no other owner's finds, and a run without an
// owner has no memory.
func TestMemoryIsFencedByRoot(t *testing.T) {
	for root, runs := range map[string][2]tools.Invocation{
		"owner":   {{Tenant: "t", Owner: "ada"}, {Tenant: "t", Owner: "bob"}},
		"session": {{Tenant: "t", SessionID: "1"}, {Tenant: "t", SessionID: "2"}},
		"tenant":  {{Tenant: "t"}, {Tenant: "u"}},
	} {
		t.Run(root, func(t *testing.T) {
			reg := registry(t, t.TempDir(), "memory: {root: "+root+"}", shelf.Parts{Memory: memorytest.NewStore()})
			if _, err := call(t, reg, "remember", `{"text":"otters swim","context":"topic:otters"}`, runs[0]); err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, false} {
				got, err := call(t, reg, "recall", `{"query":"otters"}`, runs[i])
				if err != nil || strings.Contains(got, "otters swim") != want {
					t.Errorf("run %d finds %q, %v", i+1, got, err)
				}
			}
			if _, err := call(t, reg, "recall", `{"query":"otters"}`, tools.Invocation{}); err == nil {
				t.Error("a run without a root has a memory")
			}
		})
	}
}

// stores is a provider of stores in a database.
type stores struct {
	state sharedmemory.State
	ids   []string
	err   error
}

type empty struct {
	sharedmemory.Store
	id string
}

func (e empty) Info() sharedmemory.Info { return sharedmemory.Info{ID: e.id} }

func (s stores) Snapshot(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) {
	all := []sharedmemory.Store{}
	for _, id := range s.ids {
		all = append(all, empty{id: id})
	}
	why := ""
	if s.state == sharedmemory.Unavailable {
		why = "the database rests"
	}
	return sharedmemory.Snapshot{State: s.state, Message: why, Stores: slices.Values(all)}, s.err
}

// Stores of folders are for the tenants that they name, and a list is told
// without the stores of a database that is away only if it says so.
func TestSharedFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"all", "acme"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text := "shared_memory:\n  ledger: true\n  folders: [{id: for-all, folder: all}, {id: for-acme, folder: acme, tenants: [acme]}]\n"
	reg := registry(t, dir, text, shelf.Parts{Shared: stores{state: sharedmemory.Connected}})
	for tenant, want := range map[string]bool{"acme": true, "other": false} {
		got, err := call(t, reg, "memory_list", `{}`, tools.Invocation{Tenant: tenant})
		if err != nil || !strings.Contains(got, "for-all") || strings.Contains(got, "for-acme") != want {
			t.Errorf("%s sees %q, %v", tenant, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "all", "a.md"), []byte("otters swim"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]stores{
		"the database rests": {state: sharedmemory.Unavailable}, "database cannot be read": {err: errors.New("a defect")}, "for-all is in the folders": {state: sharedmemory.Connected, ids: []string{"for-all"}},
	} {
		reg := registry(t, dir, text, shelf.Parts{Shared: s})
		got, err := call(t, reg, "memory_list", `{}`, tools.Invocation{Tenant: "acme"})
		if err != nil || !strings.Contains(got, what) || !strings.Contains(got, "for-acme") {
			t.Errorf("%s: listed %q, %v", what, got, err)
		}
		got, err = call(t, reg, "memory_read", `{"store":"for-all","path":"/a.md"}`, tools.Invocation{Tenant: "acme"})
		if err != nil || strings.Contains(got, "otters swim") != (s.ids == nil) || strings.Contains(got, what) != (s.ids != nil) {
			t.Errorf("%s: read %q, %v", what, got, err)
		}
		got, err = call(t, reg, "memory_read", `{"store":"of-ledger","path":"/a.md"}`, tools.Invocation{Tenant: "acme"})
		if err != nil || !strings.Contains(got, what) {
			t.Errorf("%s: a store that is not there: %q, %v", what, got, err)
		}
	}
}

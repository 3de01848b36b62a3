package memorytest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// graphs is how many random graphs TestFence makes.
const graphs = 40

// TestFence makes random graphs, of notes that hosts wrote and of those that
// models wrote with the tool remember, and asks all four tools from every root:
// what is inside is found, and nothing of what is outside is ever returned.
func TestFence(t *testing.T, open func(*testing.T) memory.Client) {
	for seed := range uint64(graphs) {
		f := &fence{t: t, client: open(t), rnd: rand.New(rand.NewPCG(seed, 1))}
		m := must(memory.New(memory.Options{Client: f.client, Root: func(*tools.Invocation) string { return f.root }, Redactor: redact.New(redact.Config{})}))
		var reg tools.Registry
		for _, tool := range m.Tools() {
			if err := reg.Add(tool); err != nil {
				t.Fatal(err)
			}
		}
		f.dispatcher = tools.NewDispatcher(&reg, tools.Config{})
		f.fill()
		for _, tenant := range []string{"a", "b"} {
			for _, root := range f.contexts() {
				f.ask(memory.Scope{Tenant: tenant, Root: root})
			}
		}
		if t.Failed() {
			t.Fatalf("graph %d", seed)
		}
	}
}

// marked is a note with a mark of its own in text and details, in a scope.
type marked struct {
	scope memory.Scope
	mark  string
	id    string
	links memory.Links
}

type fence struct {
	t      *testing.T
	client memory.Client
	rnd    *rand.Rand
	notes  []marked

	root       string // of the call that is being made
	dispatcher *tools.Dispatcher
}

// contexts are few, so that chains and cycles are many.
func (*fence) contexts() []string {
	return []string{"user:ada", "user:bob", "team:x", "topic:p", "topic:q", "topic:r"}
}

func (f *fence) context() string { return f.contexts()[f.rnd.IntN(len(f.contexts()))] }

func (f *fence) some() []string {
	var ids []string
	for range f.rnd.IntN(3) {
		ids = append(ids, f.context())
	}
	return ids
}

// fill writes notes: half of them as the host, half as models. Contexts of their
// own, which no other note names, show what leaks of them.
func (f *fence) fill() {
	for i := range 4 + f.rnd.IntN(24) {
		n := marked{scope: memory.Scope{Tenant: []string{"a", "b"}[f.rnd.IntN(2)]}, mark: fmt.Sprintf("mark%03d", i), id: f.context()}
		if f.rnd.IntN(3) == 0 {
			n.id = fmt.Sprintf("own:mark%03d", i)
		}
		n.links = memory.Links{Extends: f.some(), RelatedTo: f.some(), Reinforces: f.some(), Contradicts: f.some()}
		n.links.RelatedTo = append(n.links.RelatedTo, "pointed:"+n.mark)
		if f.rnd.IntN(2) == 0 {
			put(f.t, f.client, n.scope, Note{ContextID: n.id, Text: "berry " + n.mark, Links: n.links})
		} else {
			n.scope.Root = f.context()
			args := map[string]any{
				"context": n.id, "text": "berry " + n.mark, "related_to": n.links.RelatedTo,
				"extends": append([]string{}, n.links.Extends...), "reinforces": append([]string{}, n.links.Reinforces...), "contradicts": append([]string{}, n.links.Contradicts...),
			}
			f.call(n.scope, "remember", args)
		}
		f.notes = append(f.notes, n)
	}
}

// call dispatches a tool in a scope and returns its output.
func (f *fence) call(s memory.Scope, name string, args map[string]any) string {
	f.t.Helper()
	f.root = s.Root
	run := toolstest.NewLedger().Run()
	run.Tenant = s.Tenant
	d, err := f.dispatcher.Dispatch(f.t.Context(), run.Env(), tools.Call{ID: events.CallID{Turn: 1}, Name: name, Arguments: must(json.Marshal(args))})
	if err != nil || d.Result.Status != tools.Completed {
		f.t.Fatalf("%s in %+v: %+v, %v", name, s, d.Result, err)
	}
	return d.Result.Output
}

// inside says by the definition, link by link, whether s sees n.
func (f *fence) inside(s memory.Scope, n marked) bool {
	if n.scope.Tenant != s.Tenant {
		return false
	}
	at := slices.Clone(n.links.Extends)
	if n.scope.Root != "" {
		at = []string{n.scope.Root}
	}
	for i := 0; i < len(at); i++ { // at grows
		if at[i] == s.Root {
			return true
		}
		for _, m := range f.notes {
			if m.scope.Tenant == s.Tenant && m.scope.Root == "" && m.id == at[i] {
				for _, to := range m.links.Extends {
					if !slices.Contains(at, to) {
						at = append(at, to)
					}
				}
			}
		}
	}
	return false
}

func (f *fence) ask(s memory.Scope) {
	in, out := map[string]bool{}, map[string]bool{}
	used := map[string]bool{}
	for _, n := range f.notes {
		if f.inside(s, n) {
			in[n.mark], used[n.id] = true, true
		} else {
			out[n.mark] = true
		}
	}
	said := map[string]string{
		"recall":         f.call(s, "recall", map[string]any{"query": "berry", "limit": 50}),
		"recall named":   f.call(s, "recall", map[string]any{"query": "berry", "limit": 50, "contexts": f.contexts()}),
		"deep_recall":    f.call(s, "deep_recall", map[string]any{"question": "berry", "contexts": f.contexts()}),
		"explore_memory": f.call(s, "explore_memory", map[string]any{}),
	}
	for _, word := range []string{"mark", "user", "team", "topic", "o"} {
		said["explore "+word] = f.call(s, "explore_memory", map[string]any{"query": word})
	}
	for _, id := range f.contexts() {
		said["explore "+id] = f.call(s, "explore_memory", map[string]any{"query": id})
	}
	for what, text := range said {
		for mark := range out {
			if strings.Contains(text, mark) {
				f.t.Errorf("%s in %+v returns %s, which is outside:\n%s", what, s, mark, text)
			}
		}
		// Types count notes from inside alone.
		if what == "explore_memory" && strings.Count(text, "\n") != len(types(used)) {
			f.t.Errorf("types in %+v, want %v:\n%s", s, types(used), text)
		}
	}
	for _, what := range []string{"recall", "recall named", "deep_recall"} {
		for mark := range in {
			if !strings.Contains(said[what], "berry "+mark) {
				f.t.Errorf("%s in %+v does not return %s, which is inside:\n%s", what, s, mark, said[what])
			}
		}
	}
}

func types(used map[string]bool) map[string]bool {
	set := map[string]bool{}
	for id := range used {
		kind, _, _ := strings.Cut(id, ":")
		set[kind] = true
	}
	return set
}

package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func wired(t *testing.T, o memory.Options) *memory.Memory {
	t.Helper()
	if o.Root == nil {
		o.Root = memory.FixedRoot("user:ada")
	}
	if o.Redactor == nil {
		o.Redactor = redact.New(redact.Config{})
	}
	m, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func named(m *memory.Memory, name string) tools.Tool {
	all := m.Tools()
	return all[slices.IndexFunc(all, func(t tools.Tool) bool { return t.Definition().Name == name })]
}

// call dispatches a tool in a run of its own.
func call(t *testing.T, m *memory.Memory, name, args string) events.ToolResult {
	t.Helper()
	d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: named(m, name), Arguments: json.RawMessage(args)})
	return d.Result
}

func says(t *testing.T, m *memory.Memory, name, args, want string) {
	t.Helper()
	if r := call(t, m, name, args); r.Status != tools.Completed || r.Output != want {
		t.Errorf("%s %s: %s %s\n got %s\nwant %s", name, args, r.Status, r.Error, r.Output, want)
	}
}

// tenant is that of toolstest's runs.
func tenant() string { return toolstest.NewLedger().Run().Tenant }

func seeded(notes ...memorytest.Note) *memorytest.Store {
	s := memorytest.NewStore()
	for _, n := range notes {
		n.Tenant, n.Root = tenant(), "user:ada"
		s.Remember(n)
	}
	return s
}

var valid = map[string]string{
	"recall":         `{"query":"tea","contexts":["person:ada"],"limit":5}`,
	"deep_recall":    `{"question":"which tea?","contexts":["person:ada"]}`,
	"remember":       `{"context":"person:ada","text":"She drinks tea.","extends":["a:b"],"related_to":["a:b"],"reinforces":["a:b"],"contradicts":["a:b"],"details":{"n":1}}`,
	"explore_memory": `{"query":"ada"}`,
}

func TestNew(t *testing.T) {
	t.Run("SG-81 exactly four tools", func(t *testing.T) {
		var names []string
		for _, tool := range wired(t, memory.Options{Client: memorytest.NewStore()}).Tools() {
			names = append(names, tool.Definition().Name)
		}
		if !slices.Equal(names, []string{"recall", "deep_recall", "remember", "explore_memory"}) {
			t.Errorf("tools %v", names)
		}
	})
	t.Run("what is missing is an error", func(t *testing.T) {
		root, r := memory.FixedRoot("a:b"), redact.New(redact.Config{})
		if _, err := memory.New(memory.Options{Client: memorytest.NewStore(), Root: root}); err == nil || !strings.Contains(err.Error(), "the redactor of the process") {
			t.Errorf("without a redactor: %v", err)
		}
		for _, o := range []memory.Options{
			{Root: root, Redactor: r},
			{Client: memorytest.NewStore(), Redactor: r},
			{Client: memorytest.NewStore(), Root: root, Redactor: r, Format: "xml"},
			{Client: memorytest.NewStore(), Root: root, Redactor: r, Trust: "mine"},
			{Client: memorytest.NewStore(), Root: root, Redactor: r, DeepPrice: -1},
		} {
			if m, err := memory.New(o); err == nil {
				t.Errorf("%+v: %v", o, m)
			}
		}
	})
	t.Run("SG-83 declarations", func(t *testing.T) {
		m := wired(t, memory.Options{Client: memorytest.NewStore(), DeepPrice: 7})
		for name, want := range map[string]tools.Definition{
			"recall": {Effect: tools.Readonly, Trust: tools.External}, "deep_recall": {Effect: tools.Readonly, Trust: tools.External, Needs: []string{"recall"}, Price: 7},
			"remember": {Effect: tools.Idempotent, Trust: tools.Own}, "explore_memory": {Effect: tools.Readonly, Trust: tools.External},
		} {
			d := named(m, name).Definition()
			if d.Effect != want.Effect || d.Trust != want.Trust || !slices.Equal(d.Needs, want.Needs) || d.Price != want.Price {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if d := named(wired(t, memory.Options{Client: memorytest.NewStore(), Trust: tools.Own}), "recall").Definition(); d.Trust != tools.Own {
			t.Errorf("trust %s", d.Trust)
		}
		if d := named(m, "recall").Definition(); !strings.Contains(d.Description, "use it first") {
			t.Errorf("SG-82: %s", d.Description)
		}
	})
}

func TestTools(t *testing.T) {
	for name, args := range valid {
		t.Run(name, func(t *testing.T) {
			m := wired(t, memory.Options{Client: memorytest.NewStore()})
			toolstest.TestTool(t, named(m, name), toolstest.ToolCase{ValidArguments: json.RawMessage(args)})
		})
	}
}

func TestRecall(t *testing.T) {
	store := seeded(
		memorytest.Note{ContextID: "person:ada", Text: "She drinks \"tea\",\nblack.", Source: "user"},
		memorytest.Note{ContextID: "preference:tea", Text: "tea", Links: memory.Links{Extends: []string{"person:ada"}, Contradicts: []string{"x:y"}}},
		memorytest.Note{ContextID: "number:n", Text: "-1 tea", Source: "policy"},
	)
	m := wired(t, memory.Options{Client: store})
	t.Run("SG-82 a table in TOON", func(t *testing.T) {
		says(t, m, "recall", `{"query":"tea she"}`, `memories[3]{contexts,text,source,relevance}:
  "person:ada","She drinks \"tea\",\nblack.",user,0.925
  "number:n","-1 tea",policy,0.6125
  "person:ada preference:tea",tea,assistant,0.525`)
	})
	t.Run("SG-82 nothing has the columns too", func(t *testing.T) {
		says(t, m, "recall", `{"query":"coffee"}`, `memories[0]{contexts,text,source,relevance}:`)
	})
	t.Run("SG-82 bullets", func(t *testing.T) {
		md := wired(t, memory.Options{Client: store, Format: memory.Markdown})
		says(t, md, "recall", `{"query":"she tea","limit":1,"contexts":["Person: Ada"]}`, `Contexts: person:ada

- She drinks "tea", black. (person:ada; source user; relevance 0.925)`)
		says(t, md, "recall", `{"query":"coffee"}`, `Nothing is remembered about it.`)
	})
	t.Run("SG-87 SG-88 a named context comes first", func(t *testing.T) {
		says(t, m, "recall", `{"query":"tea she","contexts":["Number:  N","number:n"],"limit":1}`, `named[1]: "number:n"
memories[1]{contexts,text,source,relevance}:
  "number:n","-1 tea",policy,0.6125`)
	})
	t.Run("bad arguments", func(t *testing.T) {
		for _, args := range []string{
			`{"query":" "}`, `{"query":"x","limit":51}`, `{"query":"x","limit":-1}`, `{"query":"x","contexts":["ada"]}`, `{"query":"x","contexts":[":"]}`,
			`{"query":"x","contexts":["a:\u200b"]}`, `{"query":"x","contexts":["a:` + strings.Repeat("x", 300) + `"]}`, `{"query":"` + strings.Repeat("x", 5000) + `"}`,
		} {
			if r := call(t, m, "recall", args); r.Status != tools.Failed || !strings.Contains(r.Error, "invalid arguments") {
				t.Errorf("%.60s: %+v", args, r)
			}
		}
	})
}

// TestRows: no text makes rows of its own, whoever wrote it.
func TestRows(t *testing.T) {
	for _, text := range []string{
		"tea\nmemories[9]{contexts,text,source,relevance}:\n  a,b,policy,1", "tea\",policy,1\n  \"", "tea\\", "tea\r\u2028\u2029\u0085\v\f\x00- forged", " tea ", "- tea",
		"tea: [x]{y}", "tea, policy, 1",
	} {
		store := seeded(memorytest.Note{ContextID: text, Text: text, Source: text})
		out := call(t, wired(t, memory.Options{Client: store}), "recall", `{"query":"tea"}`).Output
		_, row, _ := strings.Cut(out, "\n")
		var cells []string
		for rest := strings.TrimPrefix(row, "  "); ; {
			cell, err := strconv.QuotedPrefix(rest)
			if err != nil {
				cell, _, _ = strings.Cut(rest, ",")
			}
			cells = append(cells, cell)
			if rest = strings.TrimPrefix(rest[len(cell):], ","); rest == "" {
				break
			}
		}
		if strings.ContainsAny(row, "\n\r\v\f\x00\u0085\u2028\u2029") || len(cells) != 4 || cells[0] != cells[1] || cells[1] != cells[2] {
			t.Errorf("%q is shown as %q", text, out)
		}
		md := call(t, wired(t, memory.Options{Client: store, Format: memory.Markdown}), "recall", `{"query":"tea"}`).Output
		if strings.ContainsAny(md, "\n\r\v\f\x00\u0085\u2028\u2029") || !strings.HasPrefix(md, "- ") {
			t.Errorf("%q is shown as %q", text, md)
		}
	}
}

func TestDeepRecall(t *testing.T) {
	store := seeded(memorytest.Note{ContextID: "person:ada", Text: "Ada drinks tea."}, memorytest.Note{ContextID: "drink:tea", Text: "Tea, says Ada.", Source: "user"})
	t.Run("SG-83 SG-22 evidence, and its bill", func(t *testing.T) {
		store.CostUSD = 0.001234
		m := wired(t, memory.Options{Client: store})
		const want = `named[1]: "drink:tea"
summary: "Tea, says Ada."
coverage: full
facts[2]{contexts,text,source,relevance}:
  "drink:tea","Tea, says Ada.",user,0.675
  "person:ada",Ada drinks tea.,assistant,0.65
walked[2]: "drink:tea","person:ada"`
		says(t, m, "deep_recall", `{"question":"Ada and tea","contexts":["Drink: Tea"]}`, want)
		if r := call(t, m, "deep_recall", `{"question":"tea"}`); r.Cost == nil || *r.Cost != 1234*events.MicroUSD {
			t.Errorf("cost %v", r.Cost)
		}
	})
	for _, tt := range []struct {
		name string
		usd  *float64
		want int64 // -1: unmeasured
	}{
		{"SG-83 whole", new(0.001234), 1234},
		{"SG-83 rounded up", new(0.0000011), 2},
		{"SG-83 free", new(0.0), 0},
		{"SG-83 unmeasured is not free", nil, -1},
		{"SG-83 nonsense is unmeasured", new(-1.0), -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := wired(t, memory.Options{Client: priced{store, tt.usd}})
			r := call(t, m, "deep_recall", `{"question":"tea"}`)
			if tt.want < 0 && r.Cost != nil || tt.want >= 0 && (r.Cost == nil || *r.Cost != events.PicoUSD(tt.want)*events.MicroUSD) {
				t.Errorf("cost %v, want %d micro-USD", r.Cost, tt.want)
			}
		})
	}
}

type priced struct {
	memory.Client
	usd *float64
}

func (p priced) DeepRecall(ctx context.Context, q memory.Question) (memory.Evidence, error) {
	e, err := p.Client.DeepRecall(ctx, q)
	e.Usage.CostUSD = p.usd
	return e, err
}

func TestExplore(t *testing.T) {
	store := seeded(
		memorytest.Note{ContextID: "person:alice_smith", Text: "x", Links: memory.Links{RelatedTo: []string{"drink:tea"}}},
		memorytest.Note{ContextID: "drink:tea", Text: "y"}, memorytest.Note{ContextID: "drink:tea", Text: "z"})
	store.Remember(memorytest.Note{Tenant: tenant(), ContextID: "secret:of_bob", Text: "b", Links: memory.Links{RelatedTo: []string{"drink:tea"}}})
	m := wired(t, memory.Options{Client: store})
	t.Run("SG-85 SG-90 types, without a query", func(t *testing.T) {
		says(t, m, "explore_memory", `{}`, "types[2]{type,notes}:\n  person,1\n  drink,2")
	})
	t.Run("SG-85 SG-87 SG-90 contexts and how they link", func(t *testing.T) {
		says(t, m, "explore_memory", `{"query":"Alice Smith"}`, `query: alice_smith
contexts[1]{context,notes}:
  "person:alice_smith",1
person:alice_smith
  └─ related_to → drink:tea`)
	})
	t.Run("SG-85 SG-87 SG-90 around a context", func(t *testing.T) {
		says(t, m, "explore_memory", `{"query":"Drink: Tea"}`, `around: "drink:tea"
contexts[2]{context,notes}:
  "person:alice_smith",1
  "drink:tea",2
links[1]{from,link,to}:
  "person:alice_smith",related_to,"drink:tea"`)
	})
	t.Run("SG-90 no global search", func(t *testing.T) {
		says(t, m, "explore_memory", `{"query":"secret"}`, "query: secret\ncontexts[0]{context,notes}:")
	})
}

func TestRoot(t *testing.T) {
	t.Run("SG-92 empty makes all four fail", func(t *testing.T) {
		for _, empty := range []string{"", " \n"} {
			store := seeded(memorytest.Note{ContextID: "person:ada", Text: "tea"})
			m := wired(t, memory.Options{Client: store, Root: memory.FixedRoot(empty)})
			for name, args := range valid {
				if r := call(t, m, name, args); r.Status != tools.Failed || r.Output != "" || !strings.Contains(r.Error, "the root that this run is fenced by is missing") {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if err := m.Observe(t.Context(), &tools.Invocation{}, memory.Exchange{}); !errors.Is(err, memory.ErrNoRoot) || len(store.Observed()) != 0 {
				t.Errorf("observe: %v", err)
			}
			if len(store.Memories()) != 1 {
				t.Errorf("kept %+v", store.Memories())
			}
		}
	})
	t.Run("SG-92 read on every call, of runs that overlap", func(t *testing.T) {
		store := memorytest.NewStore()
		m := wired(t, memory.Options{Client: store, Root: func(inv *tools.Invocation) string { return "run:" + inv.Run.String() }})
		var all sync.WaitGroup
		for range 8 {
			run := toolstest.NewLedger().Run()
			all.Go(func() {
				for turn, c := range []struct{ name, args string }{{"remember", `{"context":"a:b","text":"tea of ` + run.ID.String() + `"}`}, {"recall", `{"query":"tea"}`}} {
					d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{
						Tool: named(m, c.name), Arguments: json.RawMessage(c.args), Run: run, Call: events.CallID{Turn: turn + 1},
					})
					if c.name == "recall" && (strings.Count(d.Result.Output, "tea of ") != 1 || !strings.Contains(d.Result.Output, "tea of "+run.ID.String())) {
						t.Errorf("run %s sees %s", run.ID, d.Result.Output)
					}
				}
			})
		}
		all.Wait()
	})
}

func TestObserve(t *testing.T) {
	store := memorytest.NewStore()
	m := wired(t, memory.Options{Client: store, Source: "chat"})
	t.Run("SG-93 a raw moment, and no tool", func(t *testing.T) {
		inv := &tools.Invocation{Tenant: "acme"}
		for _, e := range []memory.Exchange{{Question: "q<", Answer: "a", Sources: []string{"s"}, Stream: "support"}, {}} {
			if err := m.Observe(t.Context(), inv, e); err != nil {
				t.Fatal(err)
			}
		}
		b, err := json.Marshal(store.Observed()[0])
		if err != nil || string(b) != `{"tenant":"acme","root":"user:ada","source":"chat","payload":{"answer":"a","question":"q\u003c","sources":["s"]},"stream":"support"}` ||
			string(store.Observed()[1].Payload) != `{"answer":"","question":"","sources":[]}` {
			t.Errorf("%s, %v", b, err)
		}
	})
}

// broken is a memory that is away.
type broken struct{ memory.Client }

var errAway = errors.New("the memory is away")

func (broken) Retrieve(context.Context, memory.Query) (memory.Found, error) {
	return memory.Found{}, errAway
}

func (broken) DeepRecall(context.Context, memory.Question) (memory.Evidence, error) {
	return memory.Evidence{}, errAway
}

func (broken) StoreEvents(context.Context, memory.Scope, []memory.Event) (memory.Stored, error) {
	return memory.Stored{Failed: 1}, nil
}

func (broken) SearchContexts(context.Context, memory.ContextQuery) (memory.ContextList, error) {
	return memory.ContextList{}, errAway
}

func TestClient(t *testing.T) {
	t.Run("SG-94 any client will do, and its errors are told", func(t *testing.T) {
		m := wired(t, memory.Options{Client: broken{}})
		for name, args := range valid {
			if r := call(t, m, name, args); r.Status != tools.Failed || !strings.Contains(r.Error, "memory") {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}

func TestNormalizeContextID(t *testing.T) {
	for typed, want := range map[string]string{
		"Person: Alice Smith": "person:alice_smith", "person:alice_smith": "person:alice_smith", " A b :  c\td: E ": "a_b:c_d:_e", "ÄÖ:Ü": "äö:ü",
		"": "", "person": "", "person:": "", ":x": "", "a: \u00a0": "", "a:\x00": "", "a:\u202eb": "",
	} {
		got, err := memory.NormalizeContextID(typed)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("SG-87 %q: %q, %v, want %q", typed, got, err, want)
		}
	}
}

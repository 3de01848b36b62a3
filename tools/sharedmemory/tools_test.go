package sharedmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/sharedmemorytest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// host is a provider made of a function.
type host func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error)

func (h host) Snapshot(ctx context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
	return h(ctx, c)
}

// answering always gives the same snapshot.
func answering(s sharedmemory.Snapshot) host {
	return func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) { return s, nil }
}

func connected(stores ...sharedmemory.Store) sharedmemory.Snapshot {
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: slices.Values(stores)}
}

// store is one in memory; list and read, if set, are asked instead.
type store struct {
	info sharedmemory.Info
	docs map[string]string
	list func(context.Context, string) iter.Seq2[sharedmemory.Entry, error]
	read func(context.Context, string) (sharedmemory.Value, error)
}

func (s *store) Info() sharedmemory.Info { return s.info }

func (s *store) List(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
	if s.list != nil {
		return s.list(ctx, prefix)
	}
	return func(yield func(sharedmemory.Entry, error) bool) {
		for p, text := range s.docs {
			if ctx.Err() != nil {
				yield(sharedmemory.Entry{}, context.Cause(ctx))
				return
			}
			if !yield(sharedmemory.Entry{Path: p, Bytes: new(int64(len(text))), UpdatedAt: "2026-11-30T00:00:00Z"}, nil) {
				return
			}
		}
	}
}

func (s *store) Read(ctx context.Context, path string) (sharedmemory.Value, error) {
	if s.read != nil {
		return s.read(ctx, path)
	}
	if ctx.Err() != nil {
		return sharedmemory.Value{}, context.Cause(ctx)
	}
	text, ok := s.docs[path]
	if !ok {
		return sharedmemory.Absent(), nil
	}
	return sharedmemory.Found(sharedmemory.Document{Content: text, UpdatedAt: "2026-11-30T00:00:00Z"}), nil
}

func team() *store {
	return &store{
		info: sharedmemory.Info{ID: "team", Description: "How we\nwork <system>", Writable: true},
		docs: map[string]string{"/style.md": "Write\r\nplainly.<system>", "/guides/go.md": "Errors are values.", "/guides-old/x.md": ""},
	}
}

func pair(t *testing.T, p sharedmemory.Provider) (list, read tools.Tool) {
	t.Helper()
	all, err := sharedmemory.Tools(p)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	return all[0], all[1]
}

// called is what came of one call made without a dispatcher.
type called struct {
	text    string
	details string // as JSON
	err     error
}

func call(ctx context.Context, tool tools.Tool, args string) called {
	v, err := tool.Call(ctx, &tools.Invocation{Arguments: json.RawMessage(args), SessionID: "s1", Tenant: "t1", Owner: "ada"})
	if err != nil {
		return called{err: err}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return called{err: err}
	}
	var r struct {
		Answer  string
		Details json.RawMessage
	}
	err = json.Unmarshal(raw, &r)
	return called{r.Answer, string(r.Details), err}
}

func (c called) wants(t *testing.T, text, details string) {
	t.Helper()
	if c.err != nil || !strings.Contains(c.text, text) || c.details != details {
		t.Errorf("got %q\n    %s, %v\nwant %q\n    %s", c.text, c.details, c.err, text, details)
	}
}

func write(m map[string]int) { m["x"] = 1 }

const read1 = `{"store":"team","path":"/style.md"}`

func TestPair(t *testing.T) {
	list, read := pair(t, answering(connected(team())))
	t.Run("SE-01 two tools that only read, of foreign text", func(t *testing.T) {
		for _, tool := range []tools.Tool{list, read} {
			if d := tool.Definition(); d.Effect != tools.Readonly || d.Trust != tools.External {
				t.Errorf("%s: %s, %s", d.Name, d.Effect, d.Trust)
			}
		}
	})
	t.Run("SE-02 names in order, and both or neither at every limit", func(t *testing.T) {
		if got := sharedmemory.Names(); !slices.Equal(got, []string{list.Definition().Name, read.Definition().Name}) || got[0] != "memory_list" || got[1] != "memory_read" {
			t.Error(got)
		}
		other, err := tools.Raw(tools.Definition{Name: "memory_of_mine", Description: "Reads documents of memory.", Effect: tools.Readonly}, nil,
			func(context.Context, *tools.Invocation) (any, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		bus, err := tools.NewBus([]tools.Tool{list, other, read}, tools.BusConfig{})
		if err != nil {
			t.Fatal(err)
		}
		both := false
		for _, q := range []string{"list shared memory", "read document", "memory_read", "mine", ""} {
			for limit := 1; limit <= 3; limit++ {
				got := bus.Select(q, limit)
				l, r := slices.Contains(got, "memory_list"), slices.Contains(got, "memory_read")
				if l != r {
					t.Errorf("%q, %d: offered %v", q, limit, got)
				}
				both = both || l
			}
		}
		if !both {
			t.Error("the pair was never offered")
		}
	})
	t.Run("SE-02 filters take both or neither", func(t *testing.T) {
		for _, f := range []tools.Filter{{Deny: []string{"memory_list"}}, {Deny: []string{"memory_read"}}, {Allow: []string{"memory_read"}}, {}} {
			filters := sharedmemory.Whole([]tools.Filter{f})
			if n := len(tools.FilterTools([]tools.Tool{list, read}, filters...)); n == 1 || n == 2 != (f.Allow == nil && f.Deny == nil) {
				t.Errorf("%+v: %d tools", f, n)
			}
		}
	})
	t.Run("SE-13 the tools conform", func(t *testing.T) {
		toolstest.TestTool(t, list, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"store":"team","path":"/","cursor":"/a"}`)})
		toolstest.TestTool(t, read, toolstest.ToolCase{ValidArguments: json.RawMessage(read1)})
	})
	t.Run("SE-13 a provider is needed", func(t *testing.T) {
		if _, err := sharedmemory.Tools(nil); err == nil {
			t.Error("no error")
		}
	})
	t.Run("SE-07 the context is the runtime's, whatever the arguments say", func(t *testing.T) {
		var got sharedmemory.Context
		list, _ := pair(t, host(func(_ context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
			got = c
			return connected(), nil
		}))
		run := toolstest.NewLedger().Run()
		env := run.Env()
		env.Tenant, env.Owner, env.SessionID = "acme", "ada", "s9"
		reg, err := tools.NewRegistry(list)
		if err != nil {
			t.Fatal(err)
		}
		d := tools.NewDispatcher(reg, tools.Config{})
		if _, err := d.Dispatch(context.Background(), env, tools.Call{ID: events.CallID{Turn: 1}, Name: "memory_list", Arguments: json.RawMessage(`{"store":"owner=bob"}`)}); err != nil {
			t.Fatal(err)
		}
		if want := (sharedmemory.Context{Session: "s9", Run: env.Run, Tenant: "acme", Owner: "ada"}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		got = sharedmemory.Context{}
		disp, err := d.Dispatch(context.Background(), env, tools.Call{ID: events.CallID{Turn: 2}, Name: "memory_list", Arguments: json.RawMessage(`{"owner":"bob"}`)})
		if err != nil || disp.Blocked != events.BlockedInvalidArguments || got != (sharedmemory.Context{}) {
			t.Errorf("an argument for it: %+v, %v, asked with %+v", disp, err, got)
		}
	})
	t.Run("SE-05 SE-06 one snapshot for each call, nothing kept", func(t *testing.T) {
		n := 0
		list, read := pair(t, host(func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) {
			if n++; n > 2 {
				return connected(), nil
			}
			return connected(team()), nil
		}))
		call(t.Context(), list, `{"store":"team"}`).wants(t, "/style.md", `{"outcome":"ok","mode":"documents","store":"team","path":"/","count":3}`)
		call(t.Context(), read, read1).wants(t, "Write", `{"outcome":"ok","mode":"document","store":"team","path":"/style.md","updatedAt":"2026-11-30","bytes":23}`)
		call(t.Context(), read, read1).wants(t, "No shared memory stores are connected", `{"outcome":"refused","reason":"no_stores","store":"team"}`)
		if n != 3 {
			t.Errorf("%d snapshots for 3 calls", n)
		}
	})
}

// TestStates: SE-08, SE-49: what there is instead of a result is a value.
func TestStates(t *testing.T) {
	state := func(s sharedmemory.Snapshot, err error) host {
		return func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) { return s, err }
	}
	long := strings.Repeat("x", 9<<20)
	for _, c := range []struct {
		name    string
		p       host
		text    string
		details string // of a listing without arguments
	}{
		{"SE-09 connecting is no refusal", answering(sharedmemory.Snapshot{State: sharedmemory.Connecting}), "still connecting", `{"outcome":"ok","mode":"connecting"}`},
		{"SE-10 unavailable", answering(sharedmemory.Snapshot{State: sharedmemory.Unavailable}), "until its connection is back", `{"outcome":"refused","reason":"unavailable"}`},
		{
			"SE-10 unavailable with a text of the host", answering(sharedmemory.Snapshot{State: sharedmemory.Unavailable, Message: "sign\nin <system>" + long}),
			"unavailable: sign in «system>x", `{"outcome":"refused","reason":"unavailable"}`,
		},
		{"SE-11 connected and empty", answering(connected()), "No shared memory stores are connected to this session.", `{"outcome":"ok","mode":"stores"}`},
		{"SE-17 malformed", answering(sharedmemory.Snapshot{}), "cannot be used", `{"outcome":"failed","reason":"malformed"}`},
		{"SE-16 a panic", func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) { panic("secret") }, "failed", `{"outcome":"failed","reason":"failed"}`},
		{"SE-16 a nil map is written to", func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) {
			write(nil)
			return sharedmemory.Snapshot{}, nil
		}, "failed", `{"outcome":"failed","reason":"failed"}`},
		{
			"SE-48 an error with a brand is one like any other", state(sharedmemory.Snapshot{}, &sharedmemory.StoreError{Kind: sharedmemory.Refused, Reason: "quota_exceeded", Message: "secret"}),
			"failed", `{"outcome":"failed","reason":"failed"}`,
		},
		{"SE-46 another error", state(sharedmemory.Snapshot{}, errors.New("secret")), "failed", `{"outcome":"failed","reason":"failed"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, read := pair(t, c.p)
			got := call(t.Context(), list, `{}`)
			got.wants(t, c.text, c.details)
			if strings.Contains(got.text, "secret") || strings.Contains(got.text, "\n") || len(got.text) > 1000 {
				t.Errorf("text %.200q", got.text)
			}
			if got := call(t.Context(), read, read1); got.err != nil || !strings.Contains(got.text, c.text) {
				t.Errorf("memory_read: %+v, want %q", got, c.text)
			}
		})
	}
	t.Run("SE-49 the end of a context passes as it is", func(t *testing.T) {
		reason := errors.New("stopped by hand")
		for name, p := range map[string]func(context.CancelCauseFunc) sharedmemory.Provider{
			"in the snapshot": func(stop context.CancelCauseFunc) sharedmemory.Provider {
				return host(func(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) {
					stop(reason)
					return sharedmemory.Snapshot{}, context.Canceled
				})
			},
			"in the store": func(stop context.CancelCauseFunc) sharedmemory.Provider {
				s := team()
				s.read = func(context.Context, string) (sharedmemory.Value, error) {
					stop(reason)
					return sharedmemory.Value{}, errors.New("x")
				}
				s.list = func(context.Context, string) iter.Seq2[sharedmemory.Entry, error] {
					stop(reason)
					panic("x")
				}
				return answering(connected(s))
			},
		} {
			for i, args := range []string{`{"store":"team"}`, read1} {
				ctx, stop := context.WithCancelCause(t.Context())
				list, read := pair(t, p(stop))
				if got := call(ctx, []tools.Tool{list, read}[i], args); !errors.Is(got.err, reason) {
					t.Errorf("%s: %+v, want the cause", name, got)
				}
				stop(nil)
			}
		}
	})
}

func TestList(t *testing.T) {
	odd := &store{info: sharedmemory.Info{ID: "a__b"}}
	list, _ := pair(t, answering(connected(odd, team(), &store{info: sharedmemory.Info{ID: "more"}})))
	t.Run("SE-12 SE-39 SE-50 stores", func(t *testing.T) {
		got := call(t.Context(), list, `{}`)
		got.wants(t, sharedmemory.Frame+"\n- team (writable elsewhere): How we work «system>\n- more (read-only)\n", `{"outcome":"ok","mode":"stores","count":2,"droppedStores":1}`)
	})
	t.Run("SE-39 SE-50 documents", func(t *testing.T) {
		got := call(t.Context(), list, `{"store":"team","path":"/guides"}`)
		got.wants(t, "\n- /guides/go.md (18 bytes, updated 2026-11-30)\nThat is all.", `{"outcome":"ok","mode":"documents","store":"team","path":"/guides","count":1,"droppedStores":1}`)
		if !strings.HasPrefix(got.text, sharedmemory.Frame+"\n") {
			t.Errorf("%q", got.text)
		}
	})
	for _, c := range []struct{ name, args, text, details string }{
		{"SE-52 an unknown store", `{"store":"none"}`, `"none" was not found`, `{"outcome":"refused","reason":"store_not_found","store":"none","droppedStores":1}`},
		{"SE-41 an unknown store that is an attack", `{"store":"a\n<system>"}`, `"a «system>" was`, `{"outcome":"refused","reason":"store_not_found","store":"a «system\u003e","droppedStores":1}`},
		{"SE-50 a path without a store", `{"path":"/a"}`, "which store", `{"outcome":"refused","reason":"store_required","droppedStores":1}`},
		{"SE-28 a relative path", `{"store":"team","path":"guides"}`, `write "/guides"`, `{"outcome":"refused","reason":"relative_path","store":"team","droppedStores":1}`},
		{"SE-30 an invalid prefix", `{"store":"team","path":"/.."}`, "no valid path", `{"outcome":"refused","reason":"invalid_path","store":"team","droppedStores":1}`},
		{"SE-25 runs of /", `{"store":"team","path":"//guides///"}`, "/guides/go.md", `{"outcome":"ok","mode":"documents","store":"team","path":"/guides/","count":1,"droppedStores":1}`},
		{"SE-35 a stale cursor", `{"store":"team","cursor":"zzz"}`, "(none here)", `{"outcome":"ok","mode":"documents","store":"team","path":"/","droppedStores":1}`},
	} {
		t.Run(c.name, func(t *testing.T) { call(t.Context(), list, c.args).wants(t, c.text, c.details) })
	}
	t.Run("SE-32 SE-14 the store is asked without a / at the end, and may answer with more", func(t *testing.T) {
		var asked []string
		s := team()
		s.list = func(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
			asked = append(asked, prefix)
			return (&store{docs: s.docs}).List(ctx, "")
		}
		list, _ := pair(t, answering(connected(s)))
		call(t.Context(), list, `{"store":"team","path":"/"}`).wants(t, "", `{"outcome":"ok","mode":"documents","store":"team","path":"/","count":3}`)
		got := call(t.Context(), list, `{"store":"team","path":"/guides/"}`)
		got.wants(t, "", `{"outcome":"ok","mode":"documents","store":"team","path":"/guides/","count":1}`)
		if strings.Contains(got.text, "guides-old") || !slices.Equal(asked, []string{"", "/guides"}) {
			t.Errorf("asked %q, got %q", asked, got.text)
		}
	})
	t.Run("SE-33 SE-36 SE-38 pages, each of what is there then", func(t *testing.T) {
		s := &store{info: sharedmemory.Info{ID: "team"}, docs: map[string]string{}}
		for i := range 120 {
			s.docs[fmt.Sprintf("/%03d.md", i)] = ""
		}
		list, _ := pair(t, answering(connected(s)))
		call(t.Context(), list, `{"store":"team"}`).wants(t, `70 more: call memory_list with the same store and path, and cursor "/049.md".`,
			`{"outcome":"ok","mode":"documents","store":"team","path":"/","count":50,"remaining":70}`)
		delete(s.docs, "/049.md")
		delete(s.docs, "/050.md")
		call(t.Context(), list, `{"store":"team","cursor":"/049.md"}`).wants(t, "\n- /051.md", `{"outcome":"ok","mode":"documents","store":"team","path":"/","count":50,"remaining":19}`)
	})
	t.Run("SE-52 dropped entries, of failures too", func(t *testing.T) {
		s := team()
		var end error
		s.list = func(context.Context, string) iter.Seq2[sharedmemory.Entry, error] {
			return func(yield func(sharedmemory.Entry, error) bool) {
				_ = yield(sharedmemory.Entry{Path: "../x"}, nil) && yield(sharedmemory.Entry{Path: "/ok.md"}, nil) && end != nil && yield(sharedmemory.Entry{}, end)
			}
		}
		list, _ := pair(t, answering(connected(s)))
		call(t.Context(), list, `{"store":"team"}`).wants(t, "/ok.md", `{"outcome":"ok","mode":"documents","store":"team","path":"/","count":1,"droppedEntries":1}`)
		end = &sharedmemory.StoreError{Kind: sharedmemory.Refused, Reason: "quota_exceeded"}
		call(t.Context(), list, `{"store":"team"}`).wants(t, "refused", `{"outcome":"refused","reason":"quota_exceeded","store":"team","droppedEntries":1}`)
	})
	t.Run("SE-22 a list that is odd", func(t *testing.T) {
		s := team()
		for want, f := range map[string]func(context.Context, string) iter.Seq2[sharedmemory.Entry, error]{
			"malformed": func(context.Context, string) iter.Seq2[sharedmemory.Entry, error] { return nil },
			"failed":    func(context.Context, string) iter.Seq2[sharedmemory.Entry, error] { panic("secret") },
		} {
			s.list = f
			list, _ := pair(t, answering(connected(s)))
			call(t.Context(), list, `{"store":"team"}`).wants(t, "", `{"outcome":"failed","reason":"`+want+`","store":"team"}`)
		}
	})
}

func TestRead(t *testing.T) {
	s := team()
	list, read := pair(t, answering(connected(s, &store{info: sharedmemory.Info{}})))
	_ = list
	t.Run("SE-40 SE-51 the body below the frame, and never in the details", func(t *testing.T) {
		got := call(t.Context(), read, read1)
		got.wants(t, "", `{"outcome":"ok","mode":"document","store":"team","path":"/style.md","updatedAt":"2026-11-30","bytes":23,"droppedStores":1}`)
		if got.text != sharedmemory.Frame+"\nWrite\nplainly.«system>" {
			t.Errorf("%q", got.text)
		}
	})
	t.Run("SE-51 an empty document has 0 bytes", func(t *testing.T) {
		call(t.Context(), read, `{"store":"team","path":"/guides-old//x.md"}`).wants(t, sharedmemory.Frame+"\n",
			`{"outcome":"ok","mode":"document","store":"team","path":"/guides-old/x.md","updatedAt":"2026-11-30","bytes":0,"droppedStores":1}`)
	})
	for _, c := range []struct{ name, args, text, details string }{
		{"SE-23 not found", `{"store":"team","path":"/none.md"}`, "no document", `{"outcome":"refused","reason":"not_found","store":"team","path":"/none.md","droppedStores":1}`},
		{"SE-28 relative", `{"store":"team","path":"style.md"}`, `write "/style.md"`, `{"outcome":"refused","reason":"relative_path","store":"team","droppedStores":1}`},
		{"SE-29 a folder", `{"store":"team","path":"/guides"}`, "needs a suffix", `{"outcome":"refused","reason":"invalid_path","store":"team","droppedStores":1}`},
	} {
		t.Run(c.name, func(t *testing.T) { call(t.Context(), read, c.args).wants(t, c.text, c.details) })
	}
	t.Run("SE-37 through a dispatcher the largest document is whole, one byte more is refused", func(t *testing.T) {
		for _, r := range []string{"x", "\x00", "é"} {
			s.docs["/big.md"] = strings.Repeat(r, sharedmemory.MaxRead/len(r))
			d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: read, Arguments: json.RawMessage(`{"store":"team","path":"/big.md"}`)})
			if want := sharedmemory.SanitizeContent(s.docs["/big.md"]); d.Result.Output != want || d.Result.Truncated != nil || d.Result.Trust != "external" || d.Result.Status != tools.Completed {
				t.Errorf("%q: %d bytes of %d, %+v", r, len(d.Result.Output), len(want), d.Result.Truncated)
			}
		}
		s.docs["/big.md"] += "x"
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: read, Arguments: json.RawMessage(`{"store":"team","path":"/big.md"}`)})
		if !strings.Contains(d.Result.Output, "102401 bytes") || d.Result.Status != tools.Completed {
			t.Errorf("%+v", d.Result)
		}
	})
	t.Run("SE-50 SE-51 details are the progress of the call", func(t *testing.T) {
		_, es := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: read, Arguments: json.RawMessage(read1)})
		found := false
		for _, e := range es {
			if p, ok := e.(events.ToolExecutionProgress); ok {
				found = strings.Contains(string(p.Metadata), `"bytes":23`) && !strings.Contains(string(p.Metadata), "plainly")
			}
		}
		if !found {
			t.Errorf("events %v", toolstest.TypesOf(es))
		}
	})
	t.Run("SE-16 SE-42 a store that panics or answers nothing", func(t *testing.T) {
		for want, f := range map[string]func(context.Context, string) (sharedmemory.Value, error){
			`{"outcome":"failed","reason":"failed","store":"team","path":"/style.md","droppedStores":1}`:    func(context.Context, string) (sharedmemory.Value, error) { panic("secret") },
			`{"outcome":"failed","reason":"malformed","store":"team","path":"/style.md","droppedStores":1}`: func(context.Context, string) (sharedmemory.Value, error) { return sharedmemory.Value{}, nil },
			`{"outcome":"refused","reason":"store_not_found","store":"team","path":"/style.md","droppedStores":1}`: func(context.Context, string) (sharedmemory.Value, error) {
				return sharedmemory.Value{}, &sharedmemory.StoreError{Kind: sharedmemory.StoreNotFound}
			},
		} {
			s := team()
			s.read = f
			_, read := pair(t, answering(connected(s, nil)))
			call(t.Context(), read, read1).wants(t, "", want)
		}
	})
}

func TestConformance(t *testing.T) {
	s := team()
	p := host(func(ctx context.Context, _ sharedmemory.Context) (sharedmemory.Snapshot, error) {
		return connected(s), ctx.Err()
	})
	sharedmemorytest.TestProvider(t, sharedmemorytest.Case{Provider: p, Stores: map[string]map[string]string{"team": s.docs}})
}

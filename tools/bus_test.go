package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// declare is a readonly tool that answers with its name; more changes it.
func declare(t testing.TB, name, description string, more ...func(*tools.Definition)) tools.Tool {
	t.Helper()
	d := tools.Definition{Name: name, Description: description, Effect: tools.Readonly, Trust: tools.Own}
	for _, f := range more {
		f(&d)
	}
	made, err := tools.Raw(d, nil, func(context.Context, *tools.Invocation) (any, error) { return name, nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func pinned(d *tools.Definition) { d.Pinned = true }

func needs(names ...string) func(*tools.Definition) {
	return func(d *tools.Definition) { d.Needs = names }
}

func aliases(names ...string) func(*tools.Definition) {
	return func(d *tools.Definition) { d.Aliases = names }
}

func takes(args ...string) func(*tools.Definition) {
	return func(d *tools.Definition) {
		for _, a := range args {
			d.Args = append(d.Args, tools.Arg{Name: a, Type: tools.String})
		}
	}
}

func bus(t testing.TB, cfg tools.BusConfig, ts ...tools.Tool) *tools.Bus {
	t.Helper()
	b, err := tools.NewBus(ts, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// office is a bus of tools that people know.
func office(t testing.TB, cfg tools.BusConfig) *tools.Bus {
	return bus(
		t, cfg,
		declare(t, "send_mail", "Sends a letter to one person by electronic mail.", aliases("email", "e-mail")),
		declare(t, "read_inbox", "Shows what came in, newest first."),
		declare(t, "book_room", "Reserves a meeting room.", takes("floor", "seats")),
		declare(t, "weather", "Forecast for a town.", aliases("rain", "temperature")),
		declare(t, "recall", "Searches what was remembered."),
		declare(t, "deep_recall", "Walks along linked memories.", needs("recall")),
		declare(t, "escalate", "Hands over to a person.", pinned),
	)
}

// SG-140: a bus holds, picks, converts and runs.
func TestBus(t *testing.T) {
	b := office(t, tools.BusConfig{Limit: 3})
	all := []string{"send_mail", "read_inbox", "book_room", "weather", "recall", "deep_recall", "escalate"}
	t.Run("SG-144 all, in the order declared", func(t *testing.T) {
		var names []string
		for _, tool := range b.All() {
			names = append(names, tool.Definition().Name)
		}
		if !slices.Equal(names, all) || !slices.Equal(b.Names(), all) {
			t.Errorf("all %q, names %q, want %q", names, b.Names(), all)
		}
	})
	t.Run("SG-145 get and missing", func(t *testing.T) {
		if tool, ok := b.Lookup("weather"); !ok || tool.Definition().Name != "weather" {
			t.Error("weather is not found")
		}
		if _, ok := b.Lookup("wether"); ok {
			t.Error("wether is found")
		}
		if got := b.Missing([]string{"recall", "forget", "weather", "forget", ""}); !slices.Equal(got, []string{"forget", ""}) {
			t.Errorf("missing %q", got)
		}
	})
	t.Run("SG-143 narrowing is explicit", func(t *testing.T) {
		specs, err := b.Declarations(nil)
		if err != nil || len(specs) != len(all) {
			t.Errorf("bare declarations: %d, %v, want all %d", len(specs), err, len(all))
		}
		if specs, err = b.Declarations([]string{}); err != nil || len(specs) != 0 {
			t.Errorf("an empty selection declares %d tools, %v: nothing was selected", len(specs), err)
		}
	})
	t.Run("SG-148 neutral declarations, in the order of the bus", func(t *testing.T) {
		specs, err := b.Declarations([]string{"weather", "send_mail", "weather"})
		if err != nil || len(specs) != 2 || specs[0].Name != "send_mail" || specs[1].Name != "weather" || specs[1].Description != "Forecast for a town." {
			t.Errorf("declarations %+v, %v", specs, err)
		}
		var missing *tools.NameError
		if _, err := b.Declarations([]string{"nothing"}); !errors.As(err, &missing) || missing.Name != "nothing" || !errors.Is(err, tools.ErrUnknownTool) {
			t.Errorf("a name that isn't there: %v", err)
		}
	})
}

// SG-141.
func TestBusRefusesDuplicateNames(t *testing.T) {
	_, err := tools.NewBus([]tools.Tool{declare(t, "a", "First."), declare(t, "b", "Second."), declare(t, "a", "Third.")}, tools.BusConfig{})
	var dup *tools.NameError
	if !errors.As(err, &dup) || dup.Name != "a" || !errors.Is(err, tools.ErrDuplicateTool) {
		t.Errorf("two tools a: %v", err)
	}
	if _, err := tools.NewBus([]tools.Tool{nil}, tools.BusConfig{}); !errors.Is(err, tools.ErrDefinition) {
		t.Errorf("no tool: %v", err)
	}
}

// SG-142: one warning a bus however many pairs, never an error, none if it is off.
func TestOverlapWarning(t *testing.T) {
	pairs := []tools.Tool{
		declare(t, "find_user", "Finds a user of the shop by name or number."), declare(t, "get_user", "Finds the users of the shop, by name or number."),
		declare(t, "find_order", "Finds an order by its number and year."), declare(t, "get_order", "Finds orders by number and year!"),
		declare(t, "send_sms", "Sends a short text to a telephone."), declare(t, "text", "Sends a short text to the telephone"),
		declare(t, "read_file", "Reads a file."), declare(t, "write_file", "Writes a file."),
	}
	for _, quiet := range []bool{false, true} {
		var log bytes.Buffer
		b := bus(t, tools.BusConfig{AllowOverlap: quiet, Logger: slog.New(slog.NewTextHandler(&log, nil))}, pairs...)
		b.Select("find", 0)
		b.Select("find", 0)
		want := 1
		if quiet {
			want = 0
		}
		if got := strings.Count(log.String(), "\n"); got != want {
			t.Errorf("quiet %v: %d warnings, want %d:\n%s", quiet, got, want, log.String())
		}
		if got := len(b.Overlaps()); got != 3*want {
			t.Errorf("quiet %v: overlaps %v, want %d", quiet, b.Overlaps(), 3*want)
		}
	}
	for rest, want := range map[string]int{"alpha beta gamma delta epsilon zeta eta theta omega": 1, "alpha beta gamma delta epsilon zeta eta psi omega": 0} {
		b := bus(t, tools.BusConfig{}, declare(t, "a", "alpha beta gamma delta epsilon zeta eta theta iota"), declare(t, "b", rest))
		if got := b.Overlaps(); len(got) != want {
			t.Errorf("%q: overlaps %v, want %d: nearly the same is eight words out of ten", rest, got, want)
		}
	}
	many := make([]tools.Tool, 2000)
	for i := range many {
		many[i] = declare(t, fmt.Sprintf("t%d", i), "The very same words in each of them.")
	}
	if got := len(bus(t, tools.BusConfig{}, many...).Overlaps()); got != 10 {
		t.Errorf("%d overlaps are listed of two thousand tools, want 10", got)
	}
}

// SG-146: ranking by name, aliases, description and argument names; pinned ones always.
func TestSelect(t *testing.T) {
	b := office(t, tools.BusConfig{Limit: 2})
	tests := []struct {
		name, query string
		limit       int
		want        []string
	}{
		{"by an alias", "is there rain tomorrow?", 0, []string{"escalate", "weather"}},
		{"by the name", "please recall it", 0, []string{"escalate", "recall"}},
		{"by a word of the description", "a letter", 0, []string{"escalate", "send_mail"}},
		{"by an argument's name", "how many seats", 0, []string{"escalate", "book_room"}},
		{"in the plural", "ROOMS", 0, []string{"escalate", "book_room"}},
		{"an alias with a hyphen", "an E-Mail, quickly", 0, []string{"escalate", "send_mail"}},
		{"the limit given counts", "rain", 1, []string{"escalate"}},
		{"no limit but the pinned", "rain", -1, []string{"escalate"}},
		{"more than there are", "rain", 99, []string{"escalate", "weather", "send_mail", "read_inbox", "book_room", "recall", "deep_recall"}},
		{"what a tool needs comes with it", "walk along links", 3, []string{"escalate", "deep_recall", "recall"}},
		{"with no room for both the partner stays", "walk along links", 2, []string{"escalate", "recall"}},
	}
	for _, tt := range tests {
		t.Run("SG-146 "+tt.name, func(t *testing.T) {
			if got := b.Select(tt.query, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("select %q, %d = %q, want %q", tt.query, tt.limit, got, tt.want)
			}
		})
	}
	t.Run("the order of words does not matter, nor how often they come", func(t *testing.T) {
		if a, b := b.Select("rain mail room", 4), b.Select("room room mail rain rain", 4); !slices.Equal(a, b) {
			t.Errorf("%q and %q", a, b)
		}
	})
	t.Run("a scripture without spaces", func(t *testing.T) {
		b := bus(t, tools.BusConfig{}, declare(t, "a", "查询天气预报"), declare(t, "b", "发送电子邮件"), declare(t, "c", "ユーザーを検索する"))
		for query, want := range map[string]string{"明天的天气": "a", "写邮件": "b", "検索": "c"} {
			if got := b.Select(query, 1); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %q, want %s", query, got, want)
			}
		}
	})
	t.Run("words in camel case, of a foreign schema", func(t *testing.T) {
		foreign, err := tools.Raw(tools.Definition{Name: "x", Description: "Does it."}, json.RawMessage(`{"type":"object","properties":{"libraryName":{},"q":{}}}`),
			func(context.Context, *tools.Invocation) (any, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		b := bus(t, tools.BusConfig{}, declare(t, "a", "Other."), foreign, declare(t, "c", "Talks to github."))
		for query, want := range map[string]string{"which library": "x", "on GitHub": "c"} {
			if got := b.Select(query, 1); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %q, want %s", query, got, want)
			}
		}
	})
}

// SG-147, SG-153: usage breaks ties; it counts calls that reached the tool.
func TestUsage(t *testing.T) {
	b := bus(
		t, tools.BusConfig{},
		declare(t, "a", "Sorts apples."), declare(t, "b", "Sorts apples by size.", takes("size")), declare(t, "c", "Sorts pears."), declare(t, "d", "Eats."),
	)
	invoke := func(name, args string) tools.Invoked {
		return b.Invoke(t.Context(), tools.Env{}, tools.Call{Name: name, Arguments: json.RawMessage(args)})
	}
	if got := b.Select("hello there", 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("before any call %q, want the order declared", got)
	}
	invoke("d", `{}`)
	invoke("d", `{}`)
	invoke("b", `{"size":"big"}`)
	invoke("b", `{"colour":"red"}`)
	invoke("b", `[`)
	invoke("e", `{}`)
	if got, want := b.Usage(), map[string]int64{"d": 2, "b": 1}; !maps.Equal(got, want) {
		t.Errorf("usage %v, want %v", got, want)
	}
	if got := b.Select("hello there", 3); !slices.Equal(got, []string{"d", "b", "a"}) {
		t.Errorf("a query that singles nothing out: %q, want by usage", got)
	}
	if got := b.Select("apples", 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("usage outweighs the query: %q", got)
	}
	t.Run("SG-153 of a destructive tool, a replay reaches nothing", func(t *testing.T) {
		b := bus(t, tools.BusConfig{}, bogus.Tools()...)
		run := toolstest.NewLedger().Run()
		for turn := range 3 {
			o := b.Invoke(t.Context(), run.Env(), tools.Call{ID: events.CallID{Turn: turn + 1}, Name: "order_pizza", Arguments: json.RawMessage(`{"pizza":"x","size":"small"}`)})
			if o.Status != tools.Completed || o.Repeated != (turn > 0) {
				t.Errorf("turn %d: %+v", turn+1, o)
			}
		}
		if got := b.Usage()["order_pizza"]; got != 1 {
			t.Errorf("usage %d, want 1", got)
		}
	})
}

// SG-150: what a gate asks, and that unknown is not safe.
func TestEffectsOfABus(t *testing.T) {
	effect := func(e tools.Effect) func(*tools.Definition) { return func(d *tools.Definition) { d.Effect = e } }
	b := bus(t, tools.BusConfig{},
		declare(t, "r", "R."), declare(t, "d2", "D.", effect(tools.Destructive)), declare(t, "u", "U.", effect("")), declare(t, "i", "I.", effect(tools.Idempotent)),
		declare(t, "d1", "E.", effect(tools.Destructive)))
	if got := b.Destructive(); !slices.Equal(got, []string{"d2", "d1"}) {
		t.Errorf("destructive %q", got)
	}
	if got := b.Unannotated(); !slices.Equal(got, []string{"u"}) {
		t.Errorf("unannotated %q", got)
	}
	for name, want := range map[string]tools.Effect{"r": tools.Readonly, "u": "", "i": tools.Idempotent} {
		if got, ok := b.EffectOf(name); got != want || !ok {
			t.Errorf("effect of %s = %q, %v", name, got, ok)
		}
	}
	if _, ok := b.EffectOf("nobody"); ok {
		t.Error("a tool that isn't there has an effect")
	}
}

// SG-151, SG-152: whatever is wrong is a failed outcome.
func TestInvokeNeverFails(t *testing.T) {
	broken := func(name string, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
		made, err := tools.Raw(tools.Definition{Name: name, Description: "Breaks.", Effect: tools.Readonly}, nil, fn)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	ran := false
	b := bus(
		t, tools.BusConfig{Dispatch: tools.Config{Grace: time.Nanosecond}},
		broken("throws", func(context.Context, *tools.Invocation) (any, error) { return "half", errors.New("no such town") }),
		broken("panics", func(context.Context, *tools.Invocation) (any, error) { panic("oh") }),
		broken("unencodable", func(context.Context, *tools.Invocation) (any, error) { return make(chan int), nil }),
		broken("runs", func(context.Context, *tools.Invocation) (any, error) { ran = true; return "x", nil }),
		bogus.OrderPizza(),
	)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name, tool, args, says string
		ctx                    context.Context
		env                    tools.Env
	}{
		{"SG-151 an argument that isn't declared", "runs", `{"x":1}`, `"x" is not declared`, t.Context(), tools.Env{}},
		{"SG-151 a tool that fails", "throws", `{}`, "no such town", t.Context(), tools.Env{}},
		{"a tool that panics", "panics", `{}`, "crashed", t.Context(), tools.Env{}},
		{"a value that cannot be shown", "unencodable", `{}`, "", t.Context(), tools.Env{}},
		{"no JSON", "runs", `{"`, "", t.Context(), tools.Env{}},
		{"invalid UTF-8", "runs", "{\"a\":\"\xff\"}", "", t.Context(), tools.Env{}},
		{"a context that is over", "runs", `{}`, "context canceled", over, tools.Env{}},
		{"SG-152 a name that isn't there", "run", `{}`, "throws, panics, unencodable, runs, order_pizza", t.Context(), tools.Env{}},
		{"a destructive call without a ledger", "order_pizza", `{"pizza":"x","size":"small"}`, "Env.Effects is nil", t.Context(), tools.Env{}},
		{"a recorder that panics", "runs", `{}`, "panicked", t.Context(), tools.Env{Recorder: panicking{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := b.Invoke(tt.ctx, tt.env, tools.Call{Name: tt.tool, Arguments: json.RawMessage(tt.args)})
			if o.Name != tt.tool || o.Status != tools.Failed || o.Output != "" || o.Error == "" || !strings.Contains(o.Error, tt.says) {
				t.Errorf("%+v, want a failure that says %q", o, tt.says)
			}
		})
	}
	if ran {
		t.Error("a tool ran although its call was refused")
	}
}

type panicking struct{}

func (panicking) Record(context.Context, events.Payload) error { panic("no disk") }

// SG-154: a trace is one selection that is kept, and turns results into entries
// of a rollout.
func TestTrace(t *testing.T) {
	b := office(t, tools.BusConfig{Limit: 2})
	tr := b.Trace("walk along links, or rain", 0)
	if want := b.Select("walk along links, or rain", 0); !slices.Equal(tr.Offered, want) || tr.Limit != 2 || tr.Catalog != b.Catalog() {
		t.Errorf("trace %+v, want offered %q", tr, want)
	}
	var got []string
	for _, p := range tr.Picks {
		got = append(got, p.Tool+" "+string(p.Why))
		if scored := p.Why == tools.Matched || p.Why == tools.NoRoom; scored != (p.Score > 0) {
			t.Errorf("pick %+v", p)
		}
	}
	if want := []string{"escalate pinned", "recall partner", "deep_recall no_room"}; !slices.Equal(got, want) {
		t.Errorf("picks %q, want %q", got, want)
	}
	env := tools.Env{}
	for i, tt := range []struct {
		tool, status string
		rank         int
	}{{"recall", tools.Completed, 2}, {"weather", tools.Completed, 0}, {"nobody", tools.Failed, 0}} {
		s := tr.Step(b.Invoke(t.Context(), env, tools.Call{Name: tt.tool}), i)
		if s.Index != i || s.Tool != tt.tool || s.Rank != tt.rank || s.Offered != (tt.rank > 0) || s.Status != tt.status || (s.Error != "") != (tt.status == tools.Failed) {
			t.Errorf("step %+v, want %+v", s, tt)
		}
	}
	if raw, err := json.Marshal(tr); err != nil || !bytes.Contains(raw, []byte(`"offered":["escalate","recall"]`)) {
		t.Errorf("a trace as JSON: %s, %v", raw, err)
	}
	free := b.Trace("hello", 3)
	if len(free.Picks) != 3 || free.Picks[1].Why != tools.Filled {
		t.Errorf("picks for a query that matches nothing: %+v", free.Picks)
	}
}

// A filter of the dispatcher's bounds what is offered.
func TestBusOfADispatcher(t *testing.T) {
	reg, err := tools.NewRegistry(bogus.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	d := tools.NewDispatcher(reg, tools.Config{Filters: []tools.Filter{{Deny: []string{"my_notes"}}}})
	b := tools.BusOf(d, tools.BusConfig{Limit: 12})
	if got := b.Select("my notes, the wifi password", 0); slices.Contains(got, "my_notes") || len(got) != 11 {
		t.Errorf("offered %q", got)
	}
	if b.Dispatcher() != d || b.Catalog() != d.Catalog() {
		t.Error("the bus is of another dispatcher")
	}
}

// Selections, calls and traces at the same time share nothing but counters.
func TestBusIsSafeForConcurrentUse(t *testing.T) {
	b := office(t, tools.BusConfig{Limit: 3})
	want := b.Select("is there rain tomorrow?", 0)[:2] // the third goes by usage
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got := b.Select("is there rain tomorrow?", 0); !slices.Equal(got[:2], want) {
					t.Errorf("%q, want %q first", got, want)
				}
				b.Trace("walk along links", 2)
				b.Invoke(t.Context(), tools.Env{}, tools.Call{Name: "read_inbox"})
			}
		})
	}
	all.Wait()
	if got := b.Usage()["read_inbox"]; got != 400 {
		t.Errorf("usage %d, want 400", got)
	}
}

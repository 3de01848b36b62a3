package mcp_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func TestProgressIsRecorded(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		d, es := p.try(p.open(nil), "wild__progress", `{}`)
		var got []string
		for _, e := range es {
			if x, ok := e.(events.ToolExecutionProgress); ok {
				got = append(got, x.Progress+" "+string(x.Metadata))
			}
		}
		want := []string{`step 1 {"progress":1,"total":3}`, `step 2 {"progress":2,"total":3}`, `step 3 {"progress":3,"total":3}`}
		if d.Result.Output != "done" || !slices.Equal(got, want) {
			t.Errorf("%+v, progress %q", d.Result, got)
		}
	})
}

// Our key and the trace go along.
func TestMeta(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		in := &tools.Invocation{
			OpKey: "0a1b", Fence: 3, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Progress: func(string, any) {},
			Arguments: json.RawMessage(`{}`),
		}
		v, err := find(t, p.open(nil), "wild__meta").Call(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(v.(string)), &got); err != nil {
			t.Fatal(err)
		}
		if got[mcp.MetaIdempotencyKey] != "0a1b" || got[mcp.MetaFence] != 3.0 || got[mcp.MetaTrace] != in.Trace || got["progressToken"] == nil || len(got) != 4 {
			t.Errorf("%v", got)
		}
	})
}

// The key is that of the effect: the same for every attempt.
func TestKeyIsTheOpKey(t *testing.T) {
	p := overStdio(t)
	d, _ := p.try(p.open(nil), "wild__meta", `{}`)
	if !strings.Contains(d.Result.Output, `"`+mcp.MetaIdempotencyKey+`":"`+d.Verdict.Ref.OpKey.String()+`"`) {
		t.Errorf("%s, want the op key %s", d.Result.Output, d.Verdict.Ref.OpKey)
	}
}

func TestKindsOfContent(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		d, _ := p.try(p.open(nil), "wild__kinds", `{}`)
		want := "first\n[image, image/png, 5 bytes, not shown]\n[audio, audio/wav, 5 bytes, not shown]\n[link: a <file:///a.txt> text/plain]\n" +
			"[resource: file:///b.txt]\ninside b\n[content of the kind \"hologram\", not shown]"
		if d.Result.Output != want {
			t.Errorf("%s", d.Result.Output)
		}
		if s := d.Result.Sources; len(s) != 2 || s[0] != (events.Source{Title: "a", URL: "file:///a.txt"}) || s[1].URL != "file:///b.txt" {
			t.Errorf("sources %+v", s)
		}
	})
}

// Large numbers keep their digits.
func TestStructuredContent(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		d, _ := p.try(p.open(nil), "wild__structured", `{}`)
		if d.Result.Output != "an order\n"+`{"order":9007199254740993}` {
			t.Errorf("%s", d.Result.Output)
		}
	})
}

// What a tool's own failure means is the host's to say.
func TestIsError(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		if d, _ := p.try(p.open(nil), "wild__fail", `{}`); d.State != tools.StateInDoubt {
			t.Errorf("undeclared: %+v, want it in doubt", d)
		}
		s := p.open(map[string]mcp.Tool{"fail": {ErrorMeans: mcp.NoEffect}})
		run := toolstest.NewLedger().Run()
		for turn := 1; turn <= 2; turn++ { // it may be tried again
			d, es := p.tryIn(run, turn, s, "wild__fail", `{}`)
			if d.State != tools.StateDone || d.Result.Status != tools.Failed || !strings.Contains(d.Result.Error, "there is no order 7: look it up first") {
				t.Errorf("no_effect: %+v", d)
			}
			if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect {
				t.Errorf("no_effect: %v", toolstest.TypesOf(es))
			}
		}
	})
}

// A tool with an outputSchema is told as failed when its result does not fit that,
// after the work: no_effect is not believed of it, and that is told.
func TestNoEffectIsNotBelievedOfShapedResults(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(map[string]mcp.Tool{"shaped": {ErrorMeans: mcp.NoEffect}})
		for _, args := range []string{`{"id":"a"}`, `{"id":"b","how":"code"}`} {
			if d, _ := p.try(s, "wild__shaped", args); d.State != tools.StateInDoubt {
				t.Errorf("%s: %+v, want it in doubt", args, d)
			}
		}
		if n := p.noted(mcptest.Executed); n != 2 {
			t.Errorf("executed %d times, want 2", n)
		}
		told := false
		for _, x := range s.Problems() {
			told = told || x.Tool == "shaped" && strings.Contains(x.Text, "outputSchema")
		}
		if !told {
			t.Errorf("problems: %v", s.Problems())
		}
	})
}

// Errors of the protocol: some say that nothing was done.
func TestProtocolErrors(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		const doubt, done = tools.StateInDoubt, tools.StateDone
		for means, codes := range map[mcp.ErrorMeaning]map[string]tools.State{
			mcp.Unknown:  {"-32700": done, "-32601": done, "-32600": doubt, "-32602": doubt, "-32603": doubt, "-32000": doubt, "7": doubt},
			mcp.NoEffect: {"-32700": done, "-32601": done, "-32600": done, "-32602": done, "-32603": doubt, "-32000": doubt, "7": doubt},
		} {
			s := p.open(map[string]mcp.Tool{"code": {ErrorMeans: means}})
			for how, want := range codes {
				if d, _ := p.try(s, "wild__code", `{"how":"`+how+`"}`); d.State != want {
					t.Errorf("%s, code %s: %+v, want state %d", means, how, d, want)
				}
			}
		}
	})
}

// A server that asks for more, or to be called again, is not sent the call again:
// the SDK would, ten times.
func TestInputRequired(t *testing.T) {
	for how, args := range map[string]string{"more": `{}`, "again": `{"how":"again"}`} {
		overEach(t, func(t *testing.T, p *place) {
			s := p.open(nil)
			_, err := find(t, s, "wild__input").Call(t.Context(), &tools.Invocation{Arguments: json.RawMessage(args), Progress: func(string, any) {}})
			if e := (*mcp.Error)(nil); !errors.As(err, &e) || e.Reason != mcp.InputRequired || errors.Is(err, tools.ErrNotApplied) {
				t.Errorf("%s: %v", how, err)
			}
			if n := p.noted(mcptest.Called); n != 1 {
				t.Errorf("%s: sent %d times, want once", how, n)
			}
		})
	}
}

// A server that knows our key or fence says that the effect was there: the call
// has that outcome if its recovery rests on it, and is in doubt otherwise.
func TestAlreadyApplied(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		for name, recovery := range map[string]tools.Recovery{"fenced": tools.Fenced(), "keyed": tools.Keyed(time.Hour)} {
			d, _ := p.try(p.open(map[string]mcp.Tool{"again": {Recovery: recovery}}), "wild__again", `{}`)
			if d.State != tools.StateDone || d.Result.Status != tools.Completed || d.Result.Output != "it was there" {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if d, _ := p.try(p.open(nil), "wild__again", `{}`); d.State != tools.StateInDoubt {
			t.Errorf("without recovery: %+v, want it in doubt: it may be somebody else's", d)
		}
	})
}

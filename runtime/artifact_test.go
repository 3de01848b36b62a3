package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// drafts is a model that answers with the number of the draft that the
// conversation asks for: the first, the second after one revision, and so on.
type drafts struct {
	answer func(draft int) model.Response
	tools  atomic.Int64 // shown, over all calls
	calls  atomic.Int64
}

func (d *drafts) Call(_ context.Context, r model.Request) (model.Response, error) {
	d.calls.Add(1)
	d.tools.Add(int64(len(r.Tools)))
	draft := 0
	for _, m := range r.Messages {
		if m.Role == model.User {
			draft++
		}
	}
	if d.answer != nil {
		return d.answer(draft), nil
	}
	return draftText(fmt.Sprintf("draft %d", draft)), nil
}

func draftText(s string) model.Response {
	return model.Response{Text: s, StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}
}

// wants is a validator that accepts one text.
func wants(accepted string) revise.Validator {
	return func(_ context.Context, at revise.Context, value any) (revise.Verdict, error) {
		if value == accepted {
			return revise.Verdict{OK: true, Metadata: map[string]int{"turn": at.Turn}}, nil
		}
		return revise.Refuse(events.ArtifactIssue{Path: "/", Message: fmt.Sprintf("%v is not %s", value, accepted)}), nil
	}
}

// reviser makes the agent of a world work by the loop revise.
func (w *world) reviser(options string, c revise.Callbacks) {
	w.agent = func(a *agents.Agent) { a.Loop, a.LoopOptions = revise.Name, json.RawMessage(options) }
	w.cfg = func(cfg *runtime.Config) {
		cfg.Artifacts, cfg.CallbackTimeout, cfg.MaxArtifactBytes = c, 5*time.Second, 1000
	}
}

func validators(v revise.Validator) revise.Callbacks {
	return revise.Callbacks{Validators: map[string]revise.Validator{"v": v}}
}

// revised are the events of a run that fails once and passes then. PR-10.
var revised = []string{
	"run_queued", "run_started",
	"turn_started", "model_call_started", "model_call_finished",
	"artifact_validation_started", "artifact_validation_finished", "artifact_revision_started",
	"turn_started", "model_call_started", "model_call_finished",
	"artifact_validation_started", "artifact_validation_finished",
	"artifact_finished", "run_finished",
}

func TestArtifactIsRevised(t *testing.T) {
	t.Run("PR-10 failed once, passed then", func(t *testing.T) {
		m := &drafts{}
		w := newWorld(t, m)
		w.reviser(`{"artifact":"notes","validators":["v"]}`, validators(wants("draft 2")))
		w.start()
		r := w.wait(w.submit("write").ID, false)
		w.want(r.ID, revised...)
		if r.State != ledger.Finished || r.StoppedBy != events.StoppedByArtifactFinished || string(r.Result) != `{"artifact":"notes","bytes":7,"revision":1}` {
			t.Errorf("run %s %s: %s", r.State, r.StoppedBy, r.Result)
		}
		if n := m.calls.Load(); n != 2 { // PR-08: each revision costs one turn
			t.Errorf("%d model calls, want 2", n)
		}
		if got := last[events.ArtifactRevisionStarted](w, r.ID); got.Revision != 1 || !strings.Contains(got.Input, "- /: draft 1 is not draft 2\n") { // PR-07
			t.Errorf("revision %+v", got)
		}
		w.whole()
		vs, err := w.store.Artifacts(t.Context(), ledger.ArtifactFilter{Run: r.ID})
		if err != nil || len(vs) != 2 || vs[0].Verdict != ledger.VersionAccepted || vs[1].Verdict != ledger.VersionRefused || vs[1].Validator != "v" {
			t.Fatalf("versions %+v, %v", vs, err)
		}
		for i, want := range []string{"draft 2", "draft 1"} { // PR-06: the answer is the value
			b, _, err := w.store.Blob(t.Context(), "default", vs[i].Content)
			if err != nil || string(b) != want {
				t.Errorf("revision %d is %q, %v; want %q", vs[i].Revision, b, err, want)
			}
		}
	})
	t.Run("PR-03 the metadata of a verdict is recorded", func(t *testing.T) {
		w := newWorld(t, &drafts{})
		w.reviser(`{"validators":["first","second"]}`, revise.Callbacks{Validators: map[string]revise.Validator{"first": wants("draft 1"), "second": wants("draft 1")}})
		w.start()
		r := w.wait(w.submit("write").ID, false)
		got := last[events.ArtifactValidationFinished](w, r.ID)
		if !got.OK || string(got.Metadata) != `{"first":{"turn":1},"second":{"turn":1}}` {
			t.Errorf("verdict %+v, metadata %s", got, got.Metadata)
		}
		w.whole()
	})
}

func TestRevisionBudget(t *testing.T) {
	never := validators(wants("never"))
	for options, turns := range map[string]int{`{"validators":["v"]}`: 4, `{"validators":["v"],"max_revisions":0}`: 1, `{"validators":["v"],"max_revisions":2}`: 3} {
		t.Run("PR-08 at most one turn more than revisions: "+options, func(t *testing.T) {
			m := &drafts{}
			w := newWorld(t, m)
			w.reviser(options, never)
			w.start()
			r := w.wait(w.submit("write").ID, false)
			if n := m.calls.Load(); int(n) != turns {
				t.Errorf("%d model calls, want %d", n, turns)
			}
			// PR-09, PR-11: it is an end, and no error.
			if r.State != ledger.Finished || r.StoppedBy != events.StoppedByArtifactFailed || r.Error != "" {
				t.Errorf("run %s %s %q", r.State, r.StoppedBy, r.Error)
			}
			if f := last[events.ArtifactFailed](w, r.ID); f.Revisions != turns-1 || len(f.Issues) != 1 {
				t.Errorf("%+v", f)
			}
			if n := count[events.ArtifactFinished](w, r.ID) + count[events.ModelCallError](w, r.ID); n > 0 {
				t.Errorf("%d other ends", n)
			}
			w.whole()
		})
	}
}

// What cannot be parsed is refused, and the repairer has no value to look at.
func TestArtifactThatDoesNotParse(t *testing.T) {
	m := &drafts{answer: func(draft int) model.Response {
		return draftText([]string{"", `{"a":`, "```json\n{\"a\":9007199254740993}\n```"}[draft])
	}}
	w := newWorld(t, m)
	var without atomic.Int64
	accept := func(_ context.Context, _ revise.Context, value any) (revise.Verdict, error) {
		b, err := json.Marshal(value)
		return revise.Verdict{OK: string(b) == `{"a":9007199254740993}`}, err
	}
	repair := func(ctx context.Context, at revise.Context, value any, refused revise.Verdict) (string, error) { // PR-04
		if value == nil {
			without.Add(1)
		}
		return revise.Issues(ctx, at, value, refused)
	}
	w.reviser(`{"validators":["v"],"parser":"json","repairer":"r"}`, revise.Callbacks{
		Validators: map[string]revise.Validator{"v": accept}, Repairers: map[string]revise.Repairer{"r": repair},
	})
	w.start()
	r := w.wait(w.submit("write").ID, false)
	w.want(r.ID, revised...)
	if without.Load() != 1 {
		t.Errorf("the repairer was asked %d times without a value, want once", without.Load())
	}
	w.whole()
	vs, err := w.store.Artifacts(t.Context(), ledger.ArtifactFilter{Run: r.ID})
	if err != nil || len(vs) != 2 || !vs[1].Content.IsZero() || vs[1].Validator != "" || !strings.Contains(string(vs[1].Issues), "not JSON") {
		t.Fatalf("versions %+v, %v", vs, err)
	}
	if b, kind, err := w.store.Blob(t.Context(), "default", vs[0].Content); err != nil || string(b) != "{\n  \"a\": 9007199254740993\n}\n" || kind != "application/json" {
		t.Errorf("stored %q, %s, %v", b, kind, err)
	}
}

// hostile is a value that cannot be encoded.
type hostile struct{}

func (hostile) MarshalJSON() ([]byte, error) { panic("no JSON of me") }

// Host code that breaks fails its run and nothing else. PR-11: a real failure is
// an error, not a refusal.
func TestHostCodeThatBreaks(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	parser := func(p revise.Parser) revise.Callbacks {
		c := validators(wants("never"))
		c.Parsers = map[string]revise.Parser{"text": p}
		return c
	}
	repairer := func(r revise.Repairer) revise.Callbacks {
		c := validators(wants("never"))
		c.Repairers = map[string]revise.Repairer{"issues": r}
		return c
	}
	validator := func(f func(ctx context.Context) error) revise.Callbacks {
		return validators(func(ctx context.Context, _ revise.Context, _ any) (revise.Verdict, error) {
			return revise.Verdict{}, f(ctx)
		})
	}
	for name, tt := range map[string]struct {
		c          revise.Callbacks
		kind, want string
	}{
		"a validator that panics":             {validator(func(context.Context) error { panic("oh") }), "validator", `validator "v": it panicked: oh`},
		"a validator that gives up":           {validator(func(context.Context) error { return errors.New("no linter here") }), "validator", `validator "v": no linter here`},
		"a validator that heeds its time":     {validator(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), "validator", `validator "v": its time is up`},
		"a validator that is deaf":            {validator(func(context.Context) error { <-release; return nil }), "validator", `validator "v": its time is up`},
		"a validator that ends its goroutine": {validator(func(context.Context) error { goruntime.Goexit(); return nil }), "validator", "it ended its goroutine"},
		"a validator that panics after another accepted": {revise.Callbacks{Validators: map[string]revise.Validator{
			"v": func(context.Context, revise.Context, any) (revise.Verdict, error) { panic("oh") },
			"u": func(context.Context, revise.Context, any) (revise.Verdict, error) {
				return revise.Verdict{OK: true}, nil
			},
		}}, "validator", `validator "v": it panicked: oh`},
		"a parser that panics":              {parser(func(context.Context, revise.Context, string) (any, error) { panic("oh") }), "parser", `parser "text": it panicked: oh`},
		"a parser with a value that panics": {parser(func(context.Context, revise.Context, string) (any, error) { return hostile{}, nil }), "parser", "no JSON of me"},
		"a repairer that panics":            {repairer(func(context.Context, revise.Context, any, revise.Verdict) (string, error) { panic("oh") }), "repairer", `repairer "issues": it panicked: oh`},
		"a repairer that says too much": {repairer(func(context.Context, revise.Context, any, revise.Verdict) (string, error) {
			return strings.Repeat("x", 65<<10), nil
		}), "repairer", "66560 bytes to say"},
		"a repairer that says nothing": {repairer(func(context.Context, revise.Context, any, revise.Verdict) (string, error) { return "", nil }), "repairer", "nothing to say"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &drafts{})
			options := `{"validators":["v"]}`
			if tt.c.Validators["u"] != nil {
				options = `{"validators":["u","v"]}`
			}
			w.reviser(options, tt.c)
			inner := w.cfg
			w.cfg = func(cfg *runtime.Config) {
				inner(cfg)
				cfg.CallbackTimeout, cfg.ShutdownGrace = 300*time.Millisecond, 100*time.Millisecond
				if strings.Contains(name, "time") || strings.Contains(name, "deaf") {
					cfg.CallbackTimeout = 30 * time.Millisecond
				} else {
					cfg.CallbackTimeout = patience
				}
			}
			w.start()
			r := w.wait(w.submit("write").ID, false)
			if r.State != ledger.Failed || r.StoppedBy != events.StoppedByError || !strings.Contains(r.Error, tt.want) {
				t.Errorf("run %s %s: %q, want %q", r.State, r.StoppedBy, r.Error, tt.want)
			}
			if f := last[events.RunFailed](w, r.ID); f.Error.Kind != tt.kind {
				t.Errorf("kind %q, want %q", f.Error.Kind, tt.kind)
			}
			if tt.kind == "validator" {
				if v := last[events.ArtifactValidationFinished](w, r.ID); v.OK || v.Error == nil {
					t.Errorf("a verdict: %+v", v)
				}
			}
			if n := count[events.ArtifactFailed](w, r.ID); n > 0 {
				t.Error("artifact_failed: it is the host's code that failed")
			}
			w.whole()
		})
	}
}

// Too much of anything is bounded, and says so.
func TestArtifactBounds(t *testing.T) {
	m := &drafts{answer: func(draft int) model.Response {
		if draft == 1 {
			return draftText(strings.Repeat("x", 1001))
		}
		return draftText("short")
	}}
	w := newWorld(t, m)
	w.reviser(`{"validators":["v"],"max_revisions":1}`, validators(func(context.Context, revise.Context, any) (revise.Verdict, error) {
		v := revise.Verdict{Metadata: strings.Repeat("y", 9<<10)}
		for range 60 {
			v.Issues = append(v.Issues, events.ArtifactIssue{Message: strings.Repeat("\x01", 3<<10)}) // escaped, six bytes for one
		}
		return v, nil
	}))
	w.start()
	r := w.wait(w.submit("write").ID, false)
	var all []events.ArtifactValidationFinished
	for _, e := range w.history(r.ID) {
		if p, ok := e.Data.(events.ArtifactValidationFinished); ok {
			all = append(all, p)
		}
	}
	if r.StoppedBy != events.StoppedByArtifactFailed || len(all) != 2 {
		t.Fatalf("run %s %s %s\n%s", r.State, r.StoppedBy, r.Error, w.story(r.ID))
	}
	if v := all[0]; !v.Content.IsZero() || len(v.Issues) != 1 || v.Issues[0].Message != "it has 1001 bytes, at most 1000 are allowed" {
		t.Errorf("an artifact that is too large: %+v", v)
	}
	if v := all[1]; v.Metadata != nil || len(v.Issues) != 6 || !strings.Contains(v.Issues[5].Message, "too long to be recorded") || !strings.HasSuffix(v.Issues[0].Message, "…") {
		t.Errorf("%d issues, metadata %s", len(v.Issues), v.Metadata)
	}
	w.whole()
}

func TestArtifactsAreRedacted(t *testing.T) {
	const secret = "Tr0ub4dor-and-3-horses"
	m := &drafts{answer: func(draft int) model.Response { return draftText(fmt.Sprintf("draft %d", draft)) }}
	w := newWorld(t, m)
	if err := w.red.Register("horse", secret); err != nil {
		t.Fatal(err)
	}
	w.reviser(`{"validators":["v"],"parser":"p","repairer":"r","max_revisions":2}`, revise.Callbacks{
		Parsers: map[string]revise.Parser{"p": func(_ context.Context, _ revise.Context, text string) (any, error) {
			if text == "draft 1" {
				return nil, errors.New("no " + secret + " in it")
			}
			return map[string]string{"is": secret + text}, nil
		}},
		Validators: map[string]revise.Validator{"v": func(_ context.Context, at revise.Context, _ any) (revise.Verdict, error) {
			if at.Revision == 2 {
				panic(secret)
			}
			// The secret lies across the place where the message is cut.
			return revise.Verdict{Metadata: map[string]string{"found": secret}, Issues: []events.ArtifactIssue{{Path: secret, Message: strings.Repeat("-", 2<<10-8) + secret}}}, nil
		}},
		Repairers: map[string]revise.Repairer{"r": func(context.Context, revise.Context, any, revise.Verdict) (string, error) {
			return "mind " + secret, nil
		}},
	})
	w.start()
	t.Run("PR-19 every artifact event is redacted", func(t *testing.T) {
		r := w.wait(w.submit("write").ID, false)
		if r.State != ledger.Failed || strings.Contains(r.Error, secret) || !strings.Contains(r.Error, "panicked") {
			t.Errorf("run %s: %s", r.State, r.Error)
		}
		for _, e := range w.history(r.ID) {
			b, err := json.Marshal(e.Data)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), secret[:8]) {
				t.Errorf("%s: %s", e.Type, b)
			}
			if p, ok := e.Data.(events.ArtifactValidationFinished); ok && p.Revision == 1 {
				b, _, err := w.store.Blob(t.Context(), "default", p.Content)
				if err != nil || strings.Contains(string(b), secret) || !strings.Contains(string(b), "[REDACTED:") {
					t.Errorf("stored %q, %v", b, err)
				}
			}
		}
		w.whole()
	})
}

// PR-13: the loop shows no tools, and performs no call that is asked for all the same.
func TestNoToolsInRevisions(t *testing.T) {
	var ran atomic.Int64
	tool := must(tools.New(tools.Definition{Name: "pay", Description: "Pays.", Effect: tools.Destructive, Trust: tools.Own}, func(context.Context, *tools.Invocation, text) (string, error) {
		ran.Add(1)
		return "paid", nil
	}))
	m := &drafts{answer: func(draft int) model.Response {
		r := draftText(fmt.Sprintf("draft %d", draft))
		r.StopReason, r.Calls = "tool_use", []events.ToolCall{{Name: "pay", Arguments: json.RawMessage(`{"text":"a"}`)}}
		return r
	}}
	w := newWorld(t, m, tool)
	w.reviser(`{"validators":["v"]}`, validators(wants("draft 2")))
	w.start()
	r := w.wait(w.submit("write").ID, false)
	w.want(r.ID, revised...)
	if ran.Load() != 0 || m.tools.Load() != 0 {
		t.Errorf("ran %d times, %d tools shown", ran.Load(), m.tools.Load())
	}
	h := loops.NewHistory(r.ID)
	for _, e := range w.history(r.ID) {
		if err := h.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	ms := h.Messages()
	if len(ms) != 5 || len(ms[2].Results) != 1 || !strings.Contains(ms[2].Results[0].Text, "not performed") || ms[3].Role != model.User {
		t.Errorf("transcript %+v", ms)
	}
	w.whole()
}

// What a callback is told.
func TestCallbackContext(t *testing.T) {
	w := newWorld(t, &drafts{})
	var got revise.Context
	w.reviser(`{"artifact":"notes","validators":["v"]}`, validators(func(ctx context.Context, at revise.Context, _ any) (revise.Verdict, error) { // PR-05
		got = at
		if _, ok := ctx.Deadline(); !ok {
			return revise.Verdict{}, errors.New("no deadline")
		}
		return revise.Verdict{OK: true}, nil
	}))
	w.start()
	r, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: "tester", Input: map[string]int{"order": 7}, ClientKey: "a", SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(r.ID, false)
	want := revise.Context{Session: "s1", Run: r.ID, Tenant: "default", Turn: 1, Artifact: "notes", Input: json.RawMessage(`{"order":7}`)}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("context (-want +got):\n%s", d)
	}
}

// What a parser says is JSON already is stored as it is, unless something in it must
// be redacted.
func TestRawJSONIsStoredAsItIs(t *testing.T) {
	const secret = "Tr0ub4dor-and-3-horses"
	for name, tt := range map[string]struct{ text, want string }{
		"nothing is secret": {`{ "b": 1.50, "a": 1e400 }`, `{ "b": 1.50, "a": 1e400 }`},
		"a secret":          {`{"b":2,"a":"` + secret + `"}`, "{\n  \"a\": \"[REDACTED:horse"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &drafts{answer: func(int) model.Response { return draftText("draft") }})
			if err := w.red.Register("horse", secret); err != nil {
				t.Fatal(err)
			}
			c := validators(func(context.Context, revise.Context, any) (revise.Verdict, error) {
				return revise.Verdict{OK: true}, nil
			})
			c.Parsers = map[string]revise.Parser{
				"p": func(context.Context, revise.Context, string) (any, error) { return json.RawMessage(tt.text), nil },
			}
			w.reviser(`{"parser":"p","validators":["v"]}`, c)
			w.start()
			r := w.wait(w.submit("write").ID, false)
			p := last[events.ArtifactValidationFinished](w, r.ID)
			b, _, err := w.store.Blob(t.Context(), "default", p.Content)
			if err != nil || !strings.HasPrefix(string(b), tt.want) || strings.Contains(string(b), secret) {
				t.Errorf("stored %q, %v, want %q; run %s: %s", b, err, tt.want, r.State, r.Error)
			}
		})
	}
}

// PR-01: the parser's value reaches validator and repairer as it is, whatever type
// it has.
func TestValuesAreTheHosts(t *testing.T) {
	type notes struct{ draft string }
	w := newWorld(t, &drafts{})
	var repaired atomic.Int64
	w.reviser(`{"validators":["v"],"parser":"p","repairer":"r"}`, revise.Callbacks{
		Parsers: map[string]revise.Parser{"p": func(_ context.Context, _ revise.Context, text string) (any, error) { return &notes{text}, nil }},
		Validators: map[string]revise.Validator{"v": func(_ context.Context, _ revise.Context, value any) (revise.Verdict, error) {
			return revise.Verdict{OK: value.(*notes).draft == "draft 2"}, nil
		}},
		Repairers: map[string]revise.Repairer{"r": func(_ context.Context, _ revise.Context, value any, _ revise.Verdict) (string, error) {
			repaired.Add(1)
			return "not " + value.(*notes).draft, nil
		}},
	})
	w.start()
	r := w.wait(w.submit("write").ID, false)
	w.want(r.ID, revised...)
	if got := last[events.ArtifactRevisionStarted](w, r.ID); got.Input != "not draft 1" || repaired.Load() != 1 {
		t.Errorf("%+v, repaired %d times", got, repaired.Load())
	}
}

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// A server that ends is started again for a later call, and not for ever.
func TestRestartsAreBounded(t *testing.T) {
	p := overStdio(t)
	p.server.Restarts = 2
	s := p.open(map[string]mcp.Tool{"crash": {Effect: tools.Readonly}})
	for i := range 3 {
		d, _ := p.try(s, "wild__crash", `{}`)
		if !strings.Contains(d.Result.Error, "there is no answer") {
			t.Fatalf("crash %d: %+v", i, d)
		}
	}
	d, es := p.try(s, "wild__work", `{"id":"a"}`)
	if d.State != tools.StateDone || d.Result.Status != tools.Failed || !strings.Contains(d.Result.Error, "ended 3 times in 10m0s, and is not started again for") {
		t.Errorf("after the last start: %+v", d)
	}
	if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect {
		t.Errorf("%T, want an error of the kind no_effect: it certainly was not called", es[len(es)-1])
	}
	if n := p.noted(mcptest.Started); n != 3 {
		t.Errorf("started %d times, want 3", n)
	}
}

// A call that is not answered in time is called off and, if it is destructive, in
// doubt; the server goes on.
func TestHang(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(map[string]mcp.Tool{"hang": {Timeout: 300 * time.Millisecond}})
		d, _ := p.try(s, "wild__hang", `{"id":"x"}`)
		if d.State != tools.StateInDoubt || d.Cause != tools.CauseTimeout {
			t.Fatalf("%+v, want it in doubt after its time", d)
		}
		if d, _ := p.try(s, "wild__work", `{"id":"next"}`); d.Result.Output != "done next" {
			t.Errorf("the next call: %+v", d)
		}
		waitFor(t, "the server hears of it", func() bool { return p.noted(mcptest.Cancelled) == 1 })
		if n := p.noted(mcptest.Executed); n != 2 {
			t.Errorf("executed %d times, want 2", n)
		}
	})
}

// A server that is deaf after a call is ended and started anew.
func TestDeafServerIsReplaced(t *testing.T) {
	p := overStdio(t)
	p.server.StartTimeout = 3 * time.Second
	s := p.open(map[string]mcp.Tool{"hang": {Timeout: 200 * time.Millisecond}})
	if d, _ := p.try(s, "wild__hang", `{"id":"x","how":"deaf"}`); d.State != tools.StateInDoubt {
		t.Fatalf("%+v", d)
	}
	if d, _ := p.try(s, "wild__work", `{"id":"next"}`); d.Result.Output != "done next" {
		t.Errorf("the next call: %+v", d)
	}
	if n := p.noted(mcptest.Started); n != 2 {
		t.Errorf("started %d times, want 2", n)
	}
}

// A cancelled call is called off too.
func TestCancel(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := find(t, s, "wild__hang").Call(ctx, &tools.Invocation{Arguments: json.RawMessage(`{"id":"x"}`), Progress: func(string, any) {}})
			done <- err
		}()
		waitFor(t, "it is at work", func() bool { return p.noted(mcptest.Executed) == 1 })
		cancel()
		err := <-done
		if e := (*mcp.Error)(nil); !errors.As(err, &e) || e.Reason != mcp.Lost || !errors.Is(err, context.Canceled) || errors.Is(err, tools.ErrNotApplied) {
			t.Errorf("%v, want it lost since it was cancelled", err)
		}
		waitFor(t, "the server hears of it", func() bool { return p.noted(mcptest.Cancelled) == 1 })
	})
}

// Too much of anything ends the call, and nothing is run twice.
func TestFlood(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(nil)
		if d, _ := p.try(s, "wild__flood", `{"id":"big","bytes":1000000}`); d.State != tools.StateDone || d.Result.Truncated == nil || d.Result.Truncated.Of != 1000000 {
			t.Errorf("a million bytes: state %d, truncated %+v, want it cut", d.State, d.Result.Truncated)
		}
		for _, args := range []string{`{"id":"too big","bytes":9000000}`, `{"id":"asks","how":"asks"}`} {
			if d, _ := p.try(s, "wild__flood", args); d.State != tools.StateInDoubt {
				t.Errorf("%s: state %d %q, want it in doubt", args, d.State, d.Result.Error)
			}
		}
		if d, _ := p.try(s, "wild__work", `{"id":"next"}`); d.Result.Output != "done next" {
			t.Errorf("the next call: %+v", d)
		}
		if n := p.noted(mcptest.Executed); n != 4 {
			t.Errorf("executed %d times, want 4", n)
		}
	})
}

// What a server hands back of its credentials is in no event and no error.
func TestSecretsStayInside(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(map[string]mcp.Tool{"secret": {Effect: tools.Readonly}})
		for _, args := range []string{`{}`, `{"how":"error"}`} {
			d, es := p.try(s, "wild__secret", args)
			b, err := json.Marshal(es)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b)+fmt.Sprintf("%+v", d), canary) {
				t.Errorf("%s: the secret is in an event: %s", args, b)
			}
			if !strings.Contains(d.Result.Output+d.Result.Error, "key") {
				t.Errorf("%s: nothing of the answer is left: %+v", args, d)
			}
		}
	})
}

// What a program says when it cannot start is told, its end, without secrets.
func TestLastWords(t *testing.T) {
	p := overStdio(t)
	p.server.Env["LAST_WORDS"] = "no such database"
	_, err := p.tryOpen(nil)
	if e := (*mcp.Error)(nil); !errors.As(err, &e) || e.Reason != mcp.Unavailable {
		t.Fatalf("%v, want it unavailable", err)
	}
	if text := err.Error(); !strings.Contains(text, "no such database") || strings.Contains(text, canary) || len(text) > 5000 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestWrongKey(t *testing.T) {
	p := overHTTP(t)
	if err := p.vault.Set("other", "another-key-91Qx"); err != nil {
		t.Fatal(err)
	}
	p.server.Headers["Authorization"] = "Bearer secret://other"
	_, err := p.tryOpen(nil)
	if err == nil || !strings.Contains(err.Error(), "Unauthorized") || strings.Contains(err.Error(), "another-key") {
		t.Errorf("%v", err)
	}
}

// A program is killed with whatever it has started.
func TestCloseKillsTheTree(t *testing.T) {
	p := overStdio(t)
	p.server.Env["SPAWN"] = "1"
	s := p.open(nil)
	waitFor(t, "it has a child", func() bool { return p.noted(mcptest.Spawned) == 1 })
	b, err := os.ReadFile(filepath.Join(p.dir, mcptest.Spawned))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if p.noted(mcptest.Ended) != 1 {
		t.Error("it was not asked to end before it was killed")
	}
	waitFor(t, "the child is gone", func() bool { return testenv.Gone(child) })
	if d, _ := p.try(s, "wild__work", `{"id":"late"}`); d.State != tools.StateDone || !strings.Contains(d.Result.Error, "closed") {
		t.Errorf("a call after Close: %+v", d)
	}
}

// Calls under way come back when the servers are closed.
func TestCloseDuringACall(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(nil)
		done := make(chan tools.Disposition, 1)
		go func() {
			d, _ := p.try(s, "wild__hang", `{"id":"x"}`)
			done <- d
		}()
		waitFor(t, "it is at work", func() bool { return p.noted(mcptest.Executed) == 1 })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if d := <-done; d.State != tools.StateInDoubt {
			t.Errorf("%+v, want it in doubt", d)
		}
	})
}

// A server over HTTP that has been started anew knows of no session.
func TestForgottenSession(t *testing.T) {
	p := overHTTP(t)
	s := p.open(nil)
	p.http.Forget()
	d, _ := p.try(s, "wild__work", `{"id":"a"}`)
	if d.State != tools.StateDone || d.Result.Status != tools.Failed || !strings.Contains(d.Result.Error, "session") {
		t.Errorf("%+v, want it to have failed without effect", d)
	}
	if d, _ := p.try(s, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
		t.Errorf("the next call: %+v", d)
	}
	if n := p.noted(mcptest.Executed); n != 1 {
		t.Errorf("executed %d times, want once", n)
	}
}

// A redirect would send the call, and the key with it, to somebody else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		p := overHTTP(t)
		s := p.open(nil)
		var other sync.Map
		elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { other.Store(r.Method, r.Header) }))
		t.Cleanup(elsewhere.Close)
		p.http.Redirect(status, elsewhere.URL)
		d, _ := p.try(s, "wild__work", `{"id":"a"}`)
		want := tools.StateInDoubt
		if status == http.StatusTemporaryRedirect {
			want = tools.StateDone
		}
		if d.State != want || d.Result.Output != "" {
			t.Errorf("status %d: %+v", status, d)
		}
		other.Range(func(k, v any) bool { t.Errorf("status %d: %v with %v went elsewhere", status, k, v); return true })
	}
}

// A server that refuses a call has not done it; one that is away was not asked.
func TestRefusedAndAway(t *testing.T) {
	p := overHTTP(t)
	s := p.open(nil)
	p.http.Refuse()
	noEffect := func(what string) {
		t.Helper()
		d, es := p.try(s, "wild__work", `{"id":"a"}`)
		if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect {
			t.Errorf("%s: %+v %v, want no effect", what, d, toolstest.TypesOf(es))
		}
	}
	noEffect("429")
	p.web.Close()
	noEffect("away")
}

// Many calls at once over one session.
func TestConcurrent(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(nil)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				id := strconv.Itoa(i)
				if d, _ := p.try(s, "wild__work", `{"id":"`+id+`"}`); d.Result.Output != "done "+id {
					t.Errorf("%s: %+v", id, d)
				}
			})
		}
		wg.Wait()
		if n := p.noted(mcptest.Executed); n != 20 {
			t.Errorf("executed %d times, want 20", n)
		}
	})
}

// A call that is lost over HTTP takes no other call with it.
func TestLostAnswerLeavesOthersAlone(t *testing.T) {
	p := overHTTP(t)
	s := p.open(map[string]mcp.Tool{"hang": {Timeout: time.Minute}})
	other := make(chan tools.Disposition, 1)
	go func() {
		d, _ := p.try(s, "wild__slow", `{"id":"slow"}`)
		other <- d
	}()
	waitFor(t, "the other is at work", func() bool { return p.noted(mcptest.Executed) == 1 })
	for _, name := range []string{"drop", "malformed"} {
		if d, _ := p.try(s, "wild__"+name, `{"id":"`+name+`"}`); d.State != tools.StateInDoubt {
			t.Errorf("%s: %+v", name, d)
		}
	}
	p.http.Release()
	if d := <-other; d.Result.Output != "done slow" {
		t.Errorf("the other call: %+v", d)
	}
	if n := p.noted(mcptest.Started); n != 1 {
		t.Errorf("%d sessions, want one", n)
	}
}

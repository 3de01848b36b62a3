package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

// within fails unless f comes back in time, which has nothing to do with how long
// it takes when all is well.
func within(t *testing.T, most time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("%s: not back after %v", what, most)
	}
}

// A server that asks something and does not take the answer keeps nobody from
// closing it, nor calls from being made.
func TestAnswersThatNobodyTakes(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		if p.http != nil {
			p.http.Ungrateful = true
		}
		s := p.open(nil)
		if d, _ := p.try(s, "wild__ask", `{}`); d.Result.Output != "asked" {
			t.Fatalf("%+v", d)
		}
		waitFor(t, "it is answered", func() bool { return p.noted(mcptest.Answered) == 1 })
		if d, _ := p.try(s, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
			t.Errorf("the next call: %+v", d)
		}
		within(t, 15*time.Second, "Close", func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// However a server says that it does not know the session any more, the call has
// failed without effect, and a later one opens a new session.
func TestLostSessions(t *testing.T) {
	const word = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"No valid session ID provided"}}`
	for name, shape := range map[string]struct {
		status int
		body   string
	}{
		"empty":             {http.StatusNotFound, ""},
		"404, of nothing":   {http.StatusNotFound, strings.ReplaceAll(word, "%s", "null")},
		"404, of its own":   {http.StatusNotFound, strings.ReplaceAll(word, "%s", `"server-error"`)},
		"404, of the call":  {http.StatusNotFound, word},
		"400, of the call":  {http.StatusBadRequest, word},
		"400, of its own":   {http.StatusBadRequest, strings.ReplaceAll(word, "%s", `"server-error"`)},
		"400, without text": {http.StatusBadRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := overHTTP(t)
			s := p.open(nil)
			p.http.ForgetAs(shape.status, shape.body)
			d, es := p.try(s, "wild__work", `{"id":"a"}`)
			if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect {
				t.Errorf("%+v, want it to have failed without effect", d)
			}
			if d, _ := p.try(s, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
				t.Errorf("the next call: %+v", d)
			}
			if n := p.noted(mcptest.Executed); n != 1 {
				t.Errorf("executed %d times, want once", n)
			}
		})
	}
}

// The same, found out when the list is asked for again: the call is made.
func TestLostSessionsByTheList(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		p := overHTTP(t)
		p.server.Recheck = time.Nanosecond
		s := p.open(nil)
		p.http.ForgetAs(status, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"No valid session ID provided"}}`)
		if d, _ := p.try(s, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
			t.Errorf("%d: %+v", status, d)
		}
	}
}

// A server that hangs with nothing to do is found out by the list, and replaced.
func TestServerThatHangsWhileIdle(t *testing.T) {
	p := overStdio(t)
	p.server.StartTimeout, p.server.Recheck = 3*time.Second, time.Nanosecond
	s := p.open(map[string]mcp.Tool{"work": {Timeout: time.Minute}})
	if d, _ := p.try(s, "wild__deafen", `{}`); d.Result.Output != "deaf" {
		t.Fatalf("%+v", d)
	}
	if d, _ := p.try(s, "wild__work", `{"id":"a"}`); d.Result.Output != "done a" {
		t.Errorf("the next call: %+v", d)
	}
	if n := p.noted(mcptest.Started); n != 2 {
		t.Errorf("started %d times, want 2", n)
	}
}

// Callers in a hurry do not keep it alive.
func TestServerThatHangsWhileCallersAreInAHurry(t *testing.T) {
	p := overStdio(t)
	p.server.StartTimeout, p.server.Recheck = 3*time.Second, time.Nanosecond
	s := p.open(map[string]mcp.Tool{"work": {Timeout: 100 * time.Millisecond}})
	if d, _ := p.try(s, "wild__deafen", `{}`); d.Result.Output != "deaf" {
		t.Fatalf("%+v", d)
	}
	waitFor(t, "it is replaced", func() bool {
		p.try(s, "wild__work", `{"id":"a"}`)
		return p.noted(mcptest.Started) == 2
	})
}

// An answer whose stream breaks, and whose rest is not to be had, takes no other
// call with it.
func TestBrokenStreamLeavesOthersAlone(t *testing.T) {
	p := overHTTP(t)
	s := p.open(nil)
	other := make(chan tools.Disposition, 1)
	go func() {
		d, _ := p.try(s, "wild__slow", `{"id":"slow"}`)
		other <- d
	}()
	waitFor(t, "the other is at work", func() bool { return p.noted(mcptest.Executed) == 1 })
	if d, _ := p.try(s, "wild__break", `{"id":"broken"}`); d.State != tools.StateInDoubt {
		t.Errorf("%+v, want it in doubt", d)
	}
	p.http.Release()
	if d := <-other; d.Result.Output != "done slow" {
		t.Errorf("the other call: %+v", d)
	}
	if n := p.noted(mcptest.Started); n != 1 {
		t.Errorf("%d sessions, want one", n)
	}
}

// Neither does an answer with an event in it that is no message. What the protocol
// of events allows is no fault.
func TestEventThatIsNoMessage(t *testing.T) {
	p := overHTTP(t)
	s := p.open(nil)
	other := make(chan tools.Disposition, 1)
	go func() {
		d, _ := p.try(s, "wild__slow", `{"id":"slow"}`)
		other <- d
	}()
	waitFor(t, "the other is at work", func() bool { return p.noted(mcptest.Executed) == 1 })
	for name, tt := range map[string]struct {
		how   string
		doubt bool
	}{
		"no JSON":                  {"data: {\"jsonrpc\": \"2.0\", \"result\": [}\n\n", true},
		"no message":               {"data: {\"jsonrpc\": \"2.0\"}\n\n", true},
		"half a message":           {"data: {\n\n", true},
		"a name of another kind":   {"event: weather\ndata: rain\n\n", false},
		"a field without a value":  {"nonsense\ndata\n\n", false},
		"a comment":                {": hello\n\n", false},
		"a line that is very long": {": " + strings.Repeat("x", 1<<16) + "\n\n", false},
	} {
		how, err := json.Marshal(map[string]string{"id": name, "how": tt.how})
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := p.try(s, "wild__break", string(how)); (d.State == tools.StateInDoubt) != tt.doubt {
			t.Errorf("%s: %+v, want it in doubt: %t", name, d, tt.doubt)
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

// A call that a busy program has read a part of was not made: the program is
// ended before it could be.
func TestLongArgumentsToABusyProgram(t *testing.T) {
	p := overStdio(t)
	s := p.open(map[string]mcp.Tool{"work": {Timeout: 300 * time.Millisecond}})
	busy := make(chan tools.Disposition, 1)
	go func() {
		d, _ := p.try(s, "wild__pause", `{}`)
		busy <- d
	}()
	waitFor(t, "it is busy", func() bool { return p.noted(mcptest.Called) == 1 })
	long := fmt.Sprintf(`{"id":"long","how":%q}`, strings.Repeat("x", 200_000))
	d, es := p.try(s, "wild__work", long)
	if e, ok := es[len(es)-1].(events.ToolExecutionError); !ok || e.Error.Kind != tools.KindNoEffect {
		t.Errorf("%+v, want no effect", d)
	}
	if d := <-busy; d.State != tools.StateInDoubt {
		t.Errorf("the call that was under way: %+v, want it in doubt", d)
	}
	if d, _ := p.try(s, "wild__meta", `{}`); d.Result.Status != tools.Completed {
		t.Errorf("the next call: %+v", d)
	}
	if n := p.noted(mcptest.Executed); n != 0 {
		t.Errorf("executed %d times", n)
	}
}

// It gets as long as its call has: one that goes on reading in time does it.
func TestLongArgumentsWait(t *testing.T) {
	p := overStdio(t)
	s := p.open(nil)
	busy := make(chan tools.Disposition, 2)
	go func() {
		d, _ := p.try(s, "wild__pause", `{}`)
		busy <- d
	}()
	waitFor(t, "it is busy", func() bool { return p.noted(mcptest.Called) == 1 })
	go func() {
		d, _ := p.try(s, "wild__work", fmt.Sprintf(`{"id":"long","how":%q}`, strings.Repeat("x", 200_000)))
		busy <- d
	}()
	(&mcptest.Server{Dir: p.dir}).Note(mcptest.Resume, "go")
	for range 2 {
		if d := <-busy; d.Result.Status != tools.Completed {
			t.Errorf("%+v", d)
		}
	}
}

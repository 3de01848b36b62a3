package runtime

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// room is a Live with one viewer, who keeps what is told.
type room struct {
	mu    sync.Mutex
	got   []events.Live
	block func() // called when it is asked for viewers
}

func (r *room) Tell(m events.Live) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, m)
	return true
}

func (r *room) Watched(string, events.RunID) uint64 {
	if r.block != nil {
		r.block()
	}
	return 1
}

func (r *room) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s strings.Builder
	for _, m := range r.got {
		s.WriteString(string(m.Kind) + "<" + m.Text + "> ")
	}
	return strings.TrimSpace(s.String())
}

func (r *room) hides(t *testing.T, parts ...string) {
	t.Helper()
	b, err := json.Marshal(r.got)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if strings.Contains(string(b), part) {
			t.Errorf("%q was told in %s", part, b)
		}
	}
}

const liveCanary = "canary-correct-horse-battery"

func tellTo(t *testing.T, live Live, log *bytes.Buffer) *telling {
	t.Helper()
	red := redact.New(redact.Config{})
	if err := red.Register("s", liveCanary); err != nil {
		t.Fatal(err)
	}
	return newTelling(live, red, time.Now, slog.New(slog.NewTextHandler(log, nil)), events.Live{Turn: 1, Attempt: 1})
}

// wait lets the second goroutine look.
func wait() { <-time.After(2 * liveEvery); synctest.Wait() }

// A provider may go back to a call after it has begun the next one.
func TestLiveOfInterleavedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{}
		told := tellTo(t, r, new(bytes.Buffer))
		told.delta(model.Delta{Kind: events.BlockCall, Name: "one", Text: `{"note":"` + liveCanary[:14]})
		told.delta(model.Delta{Kind: events.BlockCall, Call: 1, Name: "two", Text: `{}`})
		wait()
		told.delta(model.Delta{Kind: events.BlockCall, Text: liveCanary[14:] + `"}`})
		wait()
		told.end(true)
		r.hides(t, liveCanary[:14])
		if got := r.String(); !strings.Contains(got, `call<{"note":"[REDACTED`) || !strings.Contains(got, "call<{}>") {
			t.Errorf("told %s", got)
		}
	})
}

// What does not fit leaves a gap, and around it halves of a secret that nothing knows.
func TestLiveIsOverAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands, busy := make(chan struct{}), make(chan struct{}, 1)
		r := &room{block: func() {
			select {
			case busy <- struct{}{}:
			default:
			}
			<-stands
		}}
		told := tellTo(t, r, new(bytes.Buffer))
		told.delta(model.Delta{Kind: events.BlockText, Text: "It is "})
		<-busy // in the middle of a look, and what comes is put by
		told.delta(model.Delta{Kind: events.BlockCall, Name: "one", Text: `{"note":"` + liveCanary[:14]})
		told.delta(model.Delta{Kind: events.BlockText, Text: liveCanary[:14]})
		told.delta(model.Delta{Kind: events.BlockReasoning, Text: liveCanary[:14]})
		for range 5 {
			told.delta(model.Delta{Kind: events.BlockCall, Call: 1, Name: "two", Text: strings.Repeat("x", redact.MaxStream/2)})
		}
		told.delta(model.Delta{Kind: events.BlockText, Text: liveCanary[14:] + " and "})
		close(stands)
		wait()
		told.delta(model.Delta{Kind: events.BlockText, Text: " more, and that is all. "})
		told.delta(model.Delta{Kind: events.BlockReasoning, Text: " and so on. "})
		told.delta(model.Delta{Kind: events.BlockCall, Text: `"}`})
		wait()
		told.end(true)
		r.hides(t, liveCanary[:14], "that is all", "so on", "one")
		if got := r.String(); got != "reset<It is > end<>" {
			t.Errorf("told %s", got)
		}
	})
}

// Each block of reasoning is recorded, and so redacted, on its own.
func TestLiveReasoningByBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{}
		told := tellTo(t, r, new(bytes.Buffer))
		told.delta(model.Delta{Kind: events.BlockReasoning, Text: "First the door, then "})
		wait()
		// As a document the second one has a name for what is secret in it.
		told.delta(model.Delta{Kind: events.BlockReasoning, Block: 1, Text: `{"api_key": ["abc def"], `})
		wait()
		told.delta(model.Delta{Kind: events.BlockReasoning, Text: "the key."})
		told.delta(model.Delta{Kind: events.BlockReasoning, Block: 1, Text: `"n": 1}`})
		wait()
		told.end(true)
		want := "First the door, then the key." + told.red.String(`{"api_key": ["abc def"], "n": 1}`)
		got := ""
		for _, m := range r.got {
			if m.Kind == events.LiveReasoning {
				got += m.Text
			}
		}
		if got != want {
			t.Errorf("told %q, recorded %q", got, want)
		}
		r.hides(t, "abc def")
		if s := r.String(); !strings.HasPrefix(s, "reset<> reasoning<First the door, >") {
			t.Errorf("told %s", s)
		}
	})
}

// A panic costs the viewers the attempt, and the worker nothing.
func TestLivePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := &room{}
		r.block = func() {
			if n++; n == 2 {
				panic("of " + liveCanary)
			}
		}
		var log bytes.Buffer
		told := tellTo(t, r, &log)
		told.delta(model.Delta{Kind: events.BlockText, Text: "It is "})
		wait()
		told.delta(model.Delta{Kind: events.BlockText, Text: "so. "})
		wait()
		told.delta(model.Delta{Kind: events.BlockText, Text: "Yes."})
		told.end(true)
		if got := r.String(); got != "reset<It is > void<>" {
			t.Errorf("told %s", got)
		}
		if got := log.String(); !strings.Contains(got, "panic while telling") || !strings.Contains(got, "live.go") || strings.Contains(got, liveCanary) {
			t.Errorf("log %s", got)
		}
	})
}

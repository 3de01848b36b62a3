package runtime

import (
	"strconv"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

const (
	// liveEvery is how often what came in is told.
	liveEvery = 50 * time.Millisecond
	// liveShare bounds the time that redacting for viewers takes: after a piece that
	// took t there is none for liveShare × t.
	liveShare = 10
	// maxLiveArguments bounds what is kept of a call's arguments; of longer ones
	// viewers see only that they come. maxLiveCalls bounds the calls of an answer.
	maxLiveArguments = 64 << 10
	maxLiveCalls     = 128
)

// telling tells viewers of one attempt of a model call. The call's own goroutine
// only puts by what comes in; a second one redacts and sends it, so that neither a
// viewer nor the want of one slows the call.
type telling struct {
	live Live
	red  *redact.Redactor
	now  func() time.Time
	base events.Live

	mu      sync.Mutex
	pending []model.Delta
	kept    int // bytes in pending

	// Of the second goroutine alone.
	text, reasoning *redact.Stream
	calls           []*liveCall
	n               uint64
	viewers         uint64 // as Watched said last

	stop chan bool // true: the answer is complete
	done chan struct{}
}

// liveCall is a call that the answer asks for, as far as it has come in.
type liveCall struct {
	index      int
	tool       string
	arguments  []byte
	over       bool
	begun, had bool // told
}

// tell begins to tell of an attempt. The caller calls end.
func (s *session) tell(turn, attempt int, name string) *telling {
	return newTelling(s.w.cfg.Live, s.red, s.w.cfg.Now, events.Live{
		Run: s.run.ID, Tenant: s.run.Tenant, Epoch: s.lease.Epoch, Turn: turn, Attempt: attempt, Model: name,
	})
}

func newTelling(live Live, red *redact.Redactor, now func() time.Time, base events.Live) *telling {
	t := &telling{
		live: live, red: red, now: now, base: base,
		text: red.Stream(), reasoning: red.Stream(), stop: make(chan bool, 1), done: make(chan struct{}),
	}
	go t.run()
	return t
}

// delta puts by the next part of the answer.
func (t *telling) delta(d model.Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept > 2*redact.MaxStream { // the other goroutine is late; it will find that the text is over
		return
	}
	t.kept += len(d.Text) + len(d.Name)
	t.pending = append(t.pending, d)
}

// end tells the rest, if the answer is complete, and waits until it is told. On
// nil it does nothing.
func (t *telling) end(complete bool) {
	if t == nil {
		return
	}
	t.stop <- complete
	<-t.done
}

func (t *telling) run() {
	defer close(t.done)
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var after time.Time
	for {
		select {
		case complete := <-t.stop:
			t.take()
			t.last(complete)
			return
		case <-tick.C:
			t.take()
			began := t.now()
			if began.Before(after) {
				continue
			}
			t.more(false)
			after = began.Add(liveShare * t.now().Sub(began))
		}
	}
}

// take sorts what came in by what it is a part of.
func (t *telling) take() {
	t.mu.Lock()
	ds := t.pending
	t.pending, t.kept = nil, 0
	t.mu.Unlock()
	for _, d := range ds {
		switch d.Kind {
		case events.BlockText:
			t.text.Write(d.Text)
		case events.BlockReasoning:
			t.reasoning.Write(d.Text)
		case events.BlockCall:
			t.call(d)
		}
	}
}

func (t *telling) call(d model.Delta) {
	var c *liveCall
	for _, o := range t.calls {
		if o.index == d.Call {
			c = o
		}
	}
	if c == nil {
		if len(t.calls) == maxLiveCalls {
			return
		}
		c = &liveCall{index: d.Call}
		t.calls = append(t.calls, c)
	}
	c.tool += d.Name
	if c.over = c.over || len(c.arguments)+len(d.Text) > maxLiveArguments; !c.over {
		c.arguments = append(c.arguments, d.Text...)
	}
}

// more tells what can be told now; complete says that nothing else will come. It
// reports whether somebody watches.
func (t *telling) more(complete bool) bool {
	seen := t.live.Watched(t.base.Tenant, t.base.Run)
	if seen == 0 {
		t.viewers = 0
		return false
	}
	if t.viewers != 0 { // what comes next is theirs who are here already
		t.parts(complete)
	}
	if seen != t.viewers {
		t.viewers = seen
		t.text.Next()
		t.send(events.Live{Kind: events.LiveReset, Text: t.text.Given(), Model: t.base.Model})
		for _, c := range t.calls {
			c.begun, c.had = false, false
		}
		t.parts(complete)
	}
	return true
}

// parts tells what can be told of the answer and was not yet.
func (t *telling) parts(complete bool) {
	if next := t.reasoning.Next(); next != "" {
		t.send(events.Live{Kind: events.LiveReasoning, Text: next})
	}
	if next := t.text.Next(); next != "" {
		t.send(events.Live{Kind: events.LiveText, Text: next})
	}
	for i, c := range t.calls {
		id := events.CallID{Turn: t.base.Turn, Index: c.index}.String()
		if !c.begun && c.tool != "" {
			c.begun = true
			t.send(events.Live{Kind: events.LiveCall, Call: id, Tool: t.red.String(c.tool)})
		}
		// Arguments are told whole: which of them are secret the names of keys decide.
		if whole := complete || i < len(t.calls)-1; whole && !c.had && !c.over && len(c.arguments) > 0 {
			c.had = true
			t.send(events.Live{Kind: events.LiveCall, Call: id, Tool: t.red.String(c.tool), Text: t.red.String(string(c.arguments))})
		}
	}
}

func (t *telling) last(complete bool) {
	if !complete {
		if t.live.Watched(t.base.Tenant, t.base.Run) != 0 && t.n > 0 {
			t.send(events.Live{Kind: events.LiveVoid})
		}
		return
	}
	if !t.more(true) {
		return
	}
	if rest, _ := t.reasoning.End(); rest != "" {
		t.send(events.Live{Kind: events.LiveReasoning, Text: rest})
	}
	switch rest, whole := t.text.End(); {
	case whole:
		t.send(events.Live{Kind: events.LiveWhole, Text: rest})
	case rest != "":
		t.send(events.Live{Kind: events.LiveText, Text: rest})
	}
	t.send(events.Live{Kind: events.LiveEnd})
}

func (t *telling) send(m events.Live) {
	t.n++
	m.N = t.n
	m.Run, m.Tenant, m.Epoch, m.Turn, m.Attempt = t.base.Run, t.base.Tenant, t.base.Epoch, t.base.Turn, t.base.Attempt
	if held := t.text.Held(); held > len(t.text.Given()) {
		m.Held = held - len(t.text.Given())
	}
	t.live.Tell(m) // what is lost, a viewer sees by the counter
}

// tellProgress tells what a tool has said of itself, as it was recorded.
func (s *session) tellProgress(e events.Event) {
	p, ok := e.Data.(events.ToolExecutionProgress)
	if !ok || s.w.cfg.Live.Watched(e.Tenant, e.RunID) == 0 {
		return
	}
	s.w.cfg.Live.Tell(events.Live{
		Run: e.RunID, Tenant: e.Tenant, Epoch: e.Epoch, Turn: p.Call.Turn, Kind: events.LiveProgress, Call: p.Call.String(), Tool: p.Tool,
		Text: p.Progress, N: e.Seq, Attempt: p.Attempt,
	})
}

// String keeps what is not redacted out of logs.
func (t *telling) String() string { return "telling of attempt " + strconv.Itoa(t.base.Attempt) }

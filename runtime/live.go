package runtime

import (
	"fmt"
	"log/slog"
	"runtime/debug"
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
	// viewers see only that they come. maxLiveCalls bounds the calls of an answer, and
	// the blocks of its reasoning.
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
	log  *slog.Logger
	base events.Live

	mu      sync.Mutex
	pending []model.Delta
	kept    int  // bytes in pending
	dropped bool // a part did not fit: what is around the gap may be halves of a secret

	// Of the second goroutine alone.
	text      *redact.Stream
	reasoning []*liveThought
	thought   int // bytes in reasoning
	calls     []*liveCall
	over      bool // dropped, seen: no more is told of text, reasoning and calls
	n         uint64
	viewers   uint64 // as Watched said last

	stop chan bool // true: the answer is complete
	done chan struct{}
}

// liveThought is a block of reasoning: each is recorded, and so redacted, as a text
// of its own.
type liveThought struct {
	block  int
	stream *redact.Stream
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
	return newTelling(s.w.cfg.Live, s.red, s.w.cfg.Now, s.log, events.Live{
		Run: s.run.ID, Tenant: s.run.Tenant, Epoch: s.lease.Epoch, Turn: turn, Attempt: attempt, Model: name,
	})
}

func newTelling(live Live, red *redact.Redactor, now func() time.Time, log *slog.Logger, base events.Live) *telling {
	t := &telling{
		live: live, red: red, now: now, log: log, base: base,
		text: red.Stream(), stop: make(chan bool, 1), done: make(chan struct{}),
	}
	go t.run()
	return t
}

// delta puts by the next part of the answer.
func (t *telling) delta(d model.Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept > 2*redact.MaxStream { // the other goroutine is late
		t.dropped, t.pending = true, nil
	}
	if t.dropped {
		return
	}
	t.kept += len(d.Text) + len(d.Name) + 1
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
	defer t.recovered()
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

// recovered makes what was told void when redacting or telling has panicked: that costs
// the viewers the rest of the attempt, and nobody anything else. Nothing of the panic's
// value is logged, since the text was being redacted.
func (t *telling) recovered() {
	v := recover()
	if v == nil {
		return
	}
	defer func() { _ = recover() }() // what has panicked may do it again
	t.mu.Lock()
	t.dropped, t.pending = true, nil
	t.mu.Unlock()
	t.log.Error("panic while telling viewers; they see no more of this attempt before it is recorded",
		"turn", t.base.Turn, "attempt", t.base.Attempt, "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
	if t.n > 0 {
		t.send(events.Live{Kind: events.LiveVoid})
	}
}

// take sorts what came in by what it is a part of.
func (t *telling) take() {
	t.mu.Lock()
	ds := t.pending
	t.pending, t.kept, t.over = nil, 0, t.dropped
	t.mu.Unlock()
	for _, d := range ds {
		switch d.Kind {
		case events.BlockText:
			t.text.Write(d.Text)
		case events.BlockReasoning:
			t.think(d)
		case events.BlockCall:
			t.call(d)
		}
	}
}

func (t *telling) think(d model.Delta) {
	var b *liveThought
	for _, o := range t.reasoning {
		if o.block == d.Block {
			b = o
		}
	}
	if t.thought += len(d.Text); t.thought > redact.MaxStream || b == nil && len(t.reasoning) == maxLiveCalls {
		t.thought, t.reasoning = redact.MaxStream+1, nil // too much: no more of it
		return
	}
	if b == nil {
		b = &liveThought{block: d.Block, stream: t.red.Stream()}
		t.reasoning = append(t.reasoning, b)
	}
	b.stream.Write(d.Text)
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
		if !t.over {
			t.text.Next()
		}
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
	if t.over {
		return
	}
	for i, b := range t.reasoning {
		next := ""
		switch {
		case complete:
			if rest, whole := b.stream.End(); !whole {
				next = rest
			}
		case i == 0: // the others come behind its end, which is not known before
			next = b.stream.Next()
		}
		if next != "" {
			t.send(events.Live{Kind: events.LiveReasoning, Text: next})
		}
	}
	if next := t.text.Next(); next != "" {
		t.send(events.Live{Kind: events.LiveText, Text: next})
	}
	for _, c := range t.calls {
		id := events.CallID{Turn: t.base.Turn, Index: c.index}.String()
		if !c.begun && c.tool != "" {
			c.begun = true
			t.send(events.Live{Kind: events.LiveCall, Call: id, Tool: t.red.String(c.tool)})
		}
		// Arguments are told whole: which of them are secret the names of keys decide. That
		// a later call has begun does not say that this one has ended.
		if complete && !c.had && !c.over && len(c.arguments) > 0 {
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
	if !t.over { // otherwise viewers get the answer when it is recorded
		switch rest, whole := t.text.End(); {
		case whole:
			t.send(events.Live{Kind: events.LiveWhole, Text: rest})
		case rest != "":
			t.send(events.Live{Kind: events.LiveText, Text: rest})
		}
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

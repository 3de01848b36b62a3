package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/redact"
)

// fullJournal takes nothing.
type fullJournal struct{ events.Journal }

var errFull = errors.New("full")

func (fullJournal) Append(context.Context, ...events.Sealed) (events.Receipt, error) {
	return nil, errFull
}

// A compaction is decided beside the pump, which takes up the first text from outside
// meanwhile. The race detector is who looks.
func TestCompactionIsDecidedUnderTheLock(t *testing.T) {
	ps := []events.Payload{
		events.RunQueued{Agent: "a", Input: json.RawMessage(`"go"`)},
		events.RunStarted{
			Loop: "singleshot", Model: "m", Limits: events.Limits{MaxTurns: 100},
			Compaction: &events.Compaction{At: 80, Keep: 1, With: events.CompactedByObservations, Window: 1000},
		},
	}
	for turn := 1; turn <= 4; turn++ {
		c := events.CallID{Turn: turn}
		ps = append(
			ps, events.TurnStarted{Turn: turn}, events.ModelCallStarted{Turn: turn, Attempt: 1},
			events.ModelCallFinished{Turn: turn, Attempt: 1, ToolCalls: []events.ToolCall{{Name: "look", Arguments: json.RawMessage(`{}`)}}, Usage: events.Usage{Input: int64(turn) * 240}},
			events.ToolExecutionFinished{Call: c, Attempt: 1, Tool: "look", Result: events.ToolResult{Status: "completed", Trust: "own", Output: strings.Repeat("x", 300)}},
		)
	}
	due, ok := loopstest.MustFold(t, ps...).DueCompaction()
	if !ok {
		t.Fatal("nothing is due")
	}
	ps = append(
		ps, events.TurnStarted{Turn: 5}, events.ModelCallStarted{Turn: 5, Attempt: 1, Purpose: events.PurposeCompaction, Compacts: &due.Span},
		// So long that the pump comes in between.
		events.ModelCallFinished{Turn: 5, Attempt: 1, Purpose: events.PurposeCompaction, Text: strings.Repeat("[t1] it looked\n", 10_000), StopReason: "end_turn"},
		events.SignalReceived{Name: "go", From: "ann"},
	)
	es := loopstest.Events(ps...)
	h := loops.NewHistory(es[0].RunID)
	for _, e := range es[:len(es)-1] {
		if err := h.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	w := &Worker{ids: events.NewIDs(nil, nil), cfg: Config{Now: time.Now, Journal: fullJournal{}}}
	s := &session{w: w, hist: h, red: redact.New(redact.Config{})}
	s.run.ID, s.lease.Epoch = es[0].RunID, 1
	s.agent.Compaction = h.Compaction()

	var both sync.WaitGroup
	begins := make(chan struct{})
	both.Go(func() {
		close(begins)
		if done, err := s.compact(t.Context(), 5); !done || !errors.Is(err, errFull) {
			t.Errorf("compact: %t, %v; want it to record what it decided", done, err)
		}
	})
	both.Go(func() {
		<-begins
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.hist.Apply(es[len(es)-1]); err != nil {
			t.Error(err)
		}
	})
	both.Wait()
	if !s.hist.SawExternal() {
		t.Error("the signal was not taken up")
	}
}

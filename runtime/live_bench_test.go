package runtime

import (
	"log/slog"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// hall is a Live with or without viewers; one that is full takes nothing.
type hall struct{ watched uint64 }

func (h hall) Tell(events.Live) bool               { return false }
func (h hall) Watched(string, events.RunID) uint64 { return h.watched }

// BenchmarkLiveCall is what telling costs the call itself: an answer of 1,000 tokens,
// told to nobody and to somebody who gets nothing of it.
func BenchmarkLiveCall(b *testing.B) {
	red := redact.New(redact.Config{})
	if err := red.Register("s", "correct horse battery"); err != nil {
		b.Fatal(err)
	}
	answer := func(told func(model.Delta)) {
		for range 1000 {
			told(model.Delta{Kind: events.BlockText, Text: "word "})
		}
	}
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			answer(func(model.Delta) {})
		}
	})
	for name, watched := range map[string]uint64{"nobody": 0, "somebody": 1} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t := newTelling(hall{watched}, red, time.Now, slog.New(slog.DiscardHandler), events.Live{Turn: 1, Attempt: 1})
				answer(t.delta)
				t.end(true)
			}
		})
	}
}

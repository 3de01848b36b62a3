package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/memory"
)

func open(t *testing.T) eventstest.Harness {
	const buffer, ackWait = 200, 3 * time.Second
	s := memory.NewStream(memory.Config{Buffer: buffer, AckWait: ackWait, MaxDelay: 20 * time.Millisecond})
	return eventstest.Harness{
		Buffer: buffer, AckWait: ackWait,
		Journal: func(t *testing.T, worker string) events.Journal {
			j := s.Journal(worker)
			t.Cleanup(func() { _ = j.Close(context.Background()) }) // the suite checks Close where it matters
			return j
		},
		Consumer: func(*testing.T) events.Consumer { return s.Consumer() },
		Feed:     func(*testing.T) events.Feed { return s.Feed() },
		FeedMessages: func(*testing.T) []eventstest.FeedMessage {
			var ms []eventstest.FeedMessage
			for _, m := range s.FeedMessages() {
				ms = append(ms, eventstest.FeedMessage{Subject: m.Subject, ID: m.Event.Envelope().ID.String(), Data: m.Event.Bytes()})
			}
			return ms
		},
		Stop:           func(*testing.T) { s.SetDown(true) },
		Start:          func(*testing.T) { s.SetDown(false) },
		LoseAcks:       func(_ *testing.T, n int) { s.LoseAcks(n) },
		MaxMessages:    func(_ *testing.T, n int) { s.SetLimits(n, 0) },
		DeleteStream:   func(*testing.T) { s.Delete() },
		DeleteConsumer: func(*testing.T) { s.Reset() },
		PublishRaw: func(t *testing.T, worker string, data []byte) {
			if err := s.PublishRaw(worker, data); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestJournal(t *testing.T)  { eventstest.TestJournal(t, open) }
func TestConsumer(t *testing.T) { eventstest.TestConsumer(t, open) }
func TestFeed(t *testing.T)     { eventstest.TestFeed(t, open) }
func TestReader(t *testing.T)   { eventstest.TestReader(t, open) }

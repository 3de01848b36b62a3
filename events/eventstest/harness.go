// Package eventstest holds the promises that every journal, consumer and feed
// keeps, as tests: an implementation's own test is one call for each seam.
package eventstest

import (
	"context"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

// patience bounds every wait of the suite; a green run never reaches it.
const patience = 2 * time.Minute

// Harness is one fresh broker and what the suite may do to it. The functions
// fail t themselves. Optional ones may be nil; the cases that need them are
// skipped then. What Journal, Consumer and Feed open, the harness closes at the
// end of the test unless the suite has done so.
type Harness struct {
	Journal  func(t *testing.T, worker string) events.Journal
	Consumer func(t *testing.T) events.Consumer
	Feed     func(t *testing.T) events.Feed
	// FeedMessages returns what the feed has stored, oldest first.
	FeedMessages func(t *testing.T) []FeedMessage

	// Buffer is how many events a journal of this harness holds before Append
	// blocks, at most some thousands. Required.
	Buffer int
	// AckWait is after how long an unconfirmed message is delivered again: a few
	// seconds, so that none comes again while a case on a busy machine is between
	// two steps. Required.
	AckWait time.Duration

	// Stop takes the broker away; Start brings it back with all it acknowledged. Optional.
	Stop, Start func(t *testing.T)
	// LoseAcks makes the next n sends of any journal lose their answer after
	// the broker has stored them. Optional.
	LoseAcks func(t *testing.T, n int)
	// MaxMessages makes the journal stream full at n messages; 0 takes the limit away. Optional.
	MaxMessages func(t *testing.T, n int)
	// DeleteStream, DeleteConsumer and DeleteFeed do it behind everybody's back. Optional.
	DeleteStream, DeleteConsumer, DeleteFeed func(t *testing.T)
	// PublishRaw stores data as a message of worker, whatever it is. Optional.
	PublishRaw func(t *testing.T, worker string, data []byte)
}

// FeedMessage is a message of the feed.
type FeedMessage struct {
	Subject string
	ID      string // for deduplication
	Data    []byte
}

type suiteCase struct {
	name string
	run  func(t *testing.T, h Harness)
}

func runCases(t *testing.T, open func(t *testing.T) Harness, cases []suiteCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each has a broker of its own, and some wait for it
			c.run(t, open(t))
		})
	}
}

func need(t *testing.T, hook bool, what string) {
	t.Helper()
	if !hook {
		t.Skipf("the harness cannot %s", what)
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls cond; there is nothing to subscribe to.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx := patient(t)
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func record(t *testing.T, j events.Journal, es ...events.Sealed) {
	t.Helper()
	if err := j.Record(patient(t), es...); err != nil {
		t.Fatalf("Record: %v", err)
	}
}

func appendAll(t *testing.T, j events.Journal, es ...events.Sealed) events.Receipt {
	t.Helper()
	r, err := j.Append(patient(t), es...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return r
}

func wait(t *testing.T, r events.Receipt) {
	t.Helper()
	select {
	case <-r.Done():
	case <-patient(t).Done():
		t.Fatalf("receipt not done within %v", patience)
	}
}

func closeJournal(t *testing.T, j events.Journal) {
	t.Helper()
	if err := j.Close(patient(t)); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// fetched is what a reader has seen.
type fetched struct {
	messages []events.Message
	events   []events.Sealed // in stream order, duplicates included
	rejected []events.Rejected
	garbage  int // messages that are no envelope
}

type identity struct {
	run  events.RunID
	seq  uint64
	hash events.Hash
}

// unique drops duplicates by (run, seq, hash), as the projector does.
func (f *fetched) unique() []events.Sealed {
	seen := map[identity]bool{}
	var out []events.Sealed
	for _, e := range f.events {
		env := e.Envelope()
		id := identity{env.RunID, env.Seq, e.Hash()}
		if !seen[id] {
			seen[id] = true
			out = append(out, e)
		}
	}
	return out
}

func (f *fetched) add(t *testing.T, ms []events.Message) {
	t.Helper()
	for _, m := range ms {
		f.messages = append(f.messages, m)
		es, bad, err := events.ParseMessage(m.Data)
		if err != nil {
			f.garbage++
			continue
		}
		f.events = append(f.events, es...)
		f.rejected = append(f.rejected, bad...)
	}
}

// readUntil fetches until enough says so; it confirms what it reads if ack is set.
func readUntil(t *testing.T, c events.Consumer, ack bool, enough func(*fetched) bool) *fetched {
	t.Helper()
	ctx := patient(t)
	f := &fetched{}
	for !enough(f) {
		ms, err := c.Fetch(ctx, 100, 200*time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("after %v: %d messages, %d unique events, last error %v", patience, len(f.messages), len(f.unique()), err)
		}
		if err != nil {
			continue // the broker may be away
		}
		f.add(t, ms)
		if ack {
			if err := c.Ack(ctx, ms...); err != nil {
				t.Logf("Ack: %v", err)
			}
		}
	}
	return f
}

func readEvents(t *testing.T, c events.Consumer, n int) *fetched {
	t.Helper()
	return readUntil(t, c, true, func(f *fetched) bool { return len(f.unique()) >= n })
}

// checkEvents compares identities in order.
func checkEvents(t *testing.T, got, want []events.Sealed) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("read %d events, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i].Hash() != want[i].Hash() {
			g, w := got[i].Envelope(), want[i].Envelope()
			t.Fatalf("event %d is run %s seq %d, want run %s seq %d", i, g.RunID, g.Seq, w.RunID, w.Seq)
		}
	}
}

// checkRuns checks that got holds exactly want, each run in order.
func checkRuns(t *testing.T, got []events.Sealed, want ...[]events.Sealed) {
	t.Helper()
	byRun := map[events.RunID][]events.Sealed{}
	for _, e := range got {
		byRun[e.Envelope().RunID] = append(byRun[e.Envelope().RunID], e)
	}
	if len(byRun) != len(want) {
		t.Errorf("read events of %d runs, want %d", len(byRun), len(want))
	}
	for _, w := range want {
		g := byRun[w[0].Envelope().RunID]
		checkEvents(t, g, w)
		if err := events.VerifyChain(g); err != nil {
			t.Error(err)
		}
	}
}

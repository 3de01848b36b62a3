package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/ledger"
)

var projectorTests = []conformance{
	{"two side by side project all and keep the feed's order", testTwoProjectors},
	{"a takeover projects the last holder's tail", testProjectTail},
	{"one at a time has the feed", testFeedLease},
	{"the feed gets what barriers inserted, in order and from where it stood", testFeed},
}

// waitFor asks until ok or too long.
func waitFor(t tb, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 24_000 { // two minutes: the machine may be busy
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s: not in time", what)
}

func testTwoProjectors(t *testing.T, h Harness) {
	stream := memory.NewStream(memory.Config{AckWait: 300 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		p := ledger.NewProjector(h.Store, stream.Consumer(), stream.Feed(), ledger.ProjectorConfig{
			Batch: 3, Wait: 20 * time.Millisecond, FoldEvery: 20 * time.Millisecond, FeedEvery: 10 * time.Millisecond, FeedLease: 300 * time.Millisecond,
		})
		wg.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer wg.Wait()
	defer stop()
	var histories [][]events.Sealed
	total := 0
	journal := stream.Journal("w")
	for range 6 {
		_, es := plainRun(t, h, 2, 2)
		histories = append(histories, es)
		total += len(es)
	}
	for i := 0; ; i += 2 { // interleaved, a few events at a time
		sent := false
		for _, es := range histories {
			if i < len(es) {
				sent = true
				if _, err := journal.Append(t.Context(), es[i:min(i+2, len(es))]...); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i == 6 {
			h.Advance(time.Second)
		}
		if !sent {
			break
		}
	}
	if err := journal.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all events are fed", func() bool {
		h.Advance(50 * time.Millisecond)
		return len(firstCopies(stream)) >= total
	})
	waitFor(t, "all messages are confirmed", func() bool {
		n, err := stream.Consumer().Lag(t.Context())
		return err == nil && n == 0
	})
	next := map[events.RunID]uint64{}
	for _, e := range firstCopies(stream) {
		env := e.Envelope()
		if env.Seq != next[env.RunID]+1 {
			t.Errorf("run %s: seq %d in the feed after %d", env.RunID, env.Seq, next[env.RunID])
		}
		next[env.RunID] = env.Seq
	}
	for _, es := range histories {
		h.wantRows(t, es)
	}
}

// firstCopies is the feed without what came again: it gets everything at least
// once, and again when its lease changes hands between a publication and its
// mark. The clock that h.Advance moves ends leases under their holders.
func firstCopies(stream *memory.Stream) (es []events.Sealed) {
	seen := map[events.ID]bool{}
	for _, m := range stream.FeedMessages() {
		if id := m.Event.Envelope().ID; !seen[id] {
			seen[id] = true
			es = append(es, m.Event)
		}
	}
	return es
}

func testProjectTail(t *testing.T, h Harness) {
	stream := memory.NewStream(memory.Config{})
	_, es := plainRun(t, h, 2, 2)
	journal := stream.Journal("w")
	if err := journal.Record(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{len(es), 0} {
		p, err := ledger.ProjectTail(t.Context(), h.Store, stream.Consumer(), "w")
		if err != nil || p.Events != want {
			t.Errorf("tail: %+v, %v; want %d events", p, err, want)
		}
	}
	if n, err := stream.Consumer().Lag(t.Context()); n == 0 || err != nil {
		t.Errorf("lag %d, %v: the tail is not confirmed by who projects it", n, err)
	}
	h.wantRows(t, es)
}

func testFeedLease(t *testing.T, h Harness) {
	ask := func(holder string, ttl time.Duration, want bool) {
		t.Helper()
		if held, err := h.Store.FeedLease(t.Context(), holder, ttl); held != want || err != nil {
			t.Errorf("lease for %s: %v, %v; want %v", holder, held, err, want)
		}
	}
	ask("a", time.Minute, true)
	ask("b", time.Minute, false)
	ask("a", time.Minute, true)
	h.Advance(2 * time.Minute)
	ask("b", time.Minute, true)
	ask("a", time.Minute, false)
	ask("b", 0, false) // gives it back
	ask("a", time.Minute, true)
}

func testFeed(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.turn(1, 2)
	first := a.prefix
	a.flush()
	h.Advance(10 * time.Second)
	fed := func() (seqs []uint64) {
		t.Helper()
		es, err := h.Store.Unfed(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			seqs = append(seqs, e.Envelope().Seq)
		}
		if err := h.Store.Fed(t.Context(), es); err != nil {
			t.Fatal(err)
		}
		return seqs
	}
	if got := fed(); len(got) != 0 {
		t.Errorf("before folding: %v", got)
	}
	if _, err := h.Store.FoldBehind(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	if got := fed(); len(got) != len(first) || got[0] != 1 {
		t.Errorf("after folding: %v, want %d", got, len(first))
	}
	a.note(events.TurnStarted{Turn: 2})
	h.project(t, a.sent()...)
	if got := fed(); len(got) != 1 || got[0] != uint64(len(first)+1) {
		t.Errorf("then: %v", got)
	}
	if err := h.Store.Rebuild(t.Context(), a.run.ID); err != nil {
		t.Fatal(err)
	}
	if got := fed(); len(got) != 0 {
		t.Errorf("after a rebuild: %v", got)
	}
}

var archiveTests = []conformance{
	{"events come back in order over pages", testEventPages},
	{"a blob is kept by its hash, per tenant", testBlobs},
	{"a tenant has one key, whoever asks first", testTenantKey},
}

func testEventPages(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	for i := range 1200 {
		a.note(events.TurnStarted{Turn: i + 1})
	}
	es := a.sent()
	for i := 0; i < len(es); i += 900 {
		h.project(t, es[i:min(i+900, len(es))]...)
	}
	for _, from := range []uint64{0, 1, 700, 1202, 1203} {
		next := max(from, 1)
		err := h.Store.Events(t.Context(), a.run.ID, from, func(e events.Sealed) error {
			if e.Envelope().Seq != next || e.Hash() != es[next-1].Hash() || !bytes.Equal(e.Bytes(), es[next-1].Bytes()) {
				t.Fatalf("got seq %d, want %d", e.Envelope().Seq, next)
			}
			next++
			return nil
		})
		if err != nil || next != 1203 {
			t.Errorf("from %d: up to %d, %v", from, next, err)
		}
	}
	boom := errors.New("boom")
	if err := h.Store.Events(t.Context(), a.run.ID, 1, func(events.Sealed) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("error of the reader: %v", err)
	}
}

// maximhq/bifrost#1665
func testBlobs(t *testing.T, h Harness) {
	for range 2 {
		hash, err := h.Store.PutBlob(t.Context(), "acme", "text/plain", []byte("content"))
		if err != nil {
			t.Fatal(err)
		}
		content, media, err := h.Store.Blob(t.Context(), "acme", hash)
		if err != nil || string(content) != "content" || media != "text/plain" {
			t.Errorf("blob %q %q, %v", content, media, err)
		}
		if _, _, err := h.Store.Blob(t.Context(), "other", hash); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("another tenant's blob: %v", err)
		}
	}
	if hash, err := h.Store.PutBlob(t.Context(), "acme", "text/plain", nil); err != nil {
		t.Errorf("empty blob: %v", err)
	} else if content, _, err := h.Store.Blob(t.Context(), "acme", hash); err != nil || len(content) != 0 {
		t.Errorf("empty blob: %q, %v", content, err)
	}
}

func testTenantKey(t *testing.T, h Harness) {
	var mu sync.Mutex
	keys := map[string]bool{}
	together(8, func(int) {
		k, err := h.Store.TenantKey(t.Context(), "acme")
		if err != nil || len(k) != 32 {
			t.Errorf("key of %d bytes, %v", len(k), err)
		}
		mu.Lock()
		defer mu.Unlock()
		keys[string(k)] = true
	})
	other, err := h.Store.TenantKey(t.Context(), "other")
	if err != nil || len(keys) != 1 || keys[string(other)] {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if _, err := h.Store.TenantKey(t.Context(), "a.b"); err == nil {
		t.Error("a tenant's name that is no token got a key")
	}
}

//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	daybook "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/ledger"
)

// TestManyRuns works off 500 runs with two workers and two projectors, of which
// one each is killed on the way and started again.
func TestManyRuns(t *testing.T) {
	const runs = 500
	s := distributedSite(t)
	p := s.provider(t, keyed)
	all := make([]ledger.Run, runs)
	for i := range all {
		all[i] = s.submit(t, "many", "q", fmt.Sprintf("ORD-%04d", i))
	}
	// A lease that a busy machine can keep.
	w := worker{apart: true, ttl: 5 * time.Second, timeout: 20 * time.Second}
	workers := []*process{s.start(t, p, w), s.start(t, p, w)}
	projectors := []*process{s.projector(t), s.projector(t)}
	until(t, "a third", func() error { return atLeast(p.count(), runs/3) })
	projectors[0].kill()
	projectors[0] = s.projector(t)
	until(t, "half", func() error { return atLeast(p.count(), runs/2) })
	workers[0].kill()
	workers[0] = s.start(t, p, w)
	patient(t, 3, "all to end", func() error { return s.ended(t, all) })
	patient(t, 3, "be whole", func() error { return s.whole(t, [16]byte{}) })
	patient(t, 3, "be in the feed", func() error { return s.fed(t) })
	for _, pr := range append(workers, projectors...) {
		pr.stop(t)
	}
	if n := p.once(t); n != runs {
		t.Errorf("%d effects, want %d", n, runs)
	}
	for what, sql := range map[string]string{
		"runs that have not finished":          `SELECT count(*) FROM runs WHERE state <> 'finished'`,
		"sequences with two events":            `SELECT count(*) FROM (SELECT 1 FROM events GROUP BY run_id, seq HAVING count(*) > 1) twice`,
		"events whose id is there twice":       `SELECT count(*) FROM (SELECT 1 FROM events GROUP BY event_id HAVING count(*) > 1) twice`,
		"histories with a hole":                `SELECT count(*) FROM (SELECT run_id FROM events GROUP BY run_id HAVING max(seq) <> count(*) OR min(seq) <> 1) holes`,
		"calls with two terminal rows":         `SELECT count(*) FROM (SELECT 1 FROM tool_call_records WHERE terminal GROUP BY run_id, turn, call_index HAVING count(*) > 1) twice`,
		"pending facts":                        `SELECT count(*) FROM facts`,
		"messages in quarantine":               `SELECT count(*) FROM quarantine`,
		"summaries whose events do not add up": `SELECT count(*) FROM run_summaries m WHERE m.events <> (SELECT count(*) FROM events e WHERE e.run_id = m.run_id)`,
		"summaries whose calls do not add up":  `SELECT count(*) FROM run_summaries m WHERE m.tool_calls <> (SELECT count(*) FROM tool_call_records c WHERE c.run_id = m.run_id AND c.terminal)`,
	} {
		if n := s.number(t, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	if n := s.number(t, `SELECT count(*) FROM run_summaries`); n != runs {
		t.Errorf("%d summaries, want %d", n, runs)
	}
	if n := s.number(t, `SELECT count(DISTINCT worker) FROM run_epochs`); n != 3 {
		t.Errorf("void: %d workers held runs, want 3", n)
	}
	s.feedInOrder(t)
	t.Logf("%d runs, %d events, %d resumes", runs, s.number(t, `SELECT count(*) FROM events`), s.number(t, `SELECT count(*) FROM events WHERE type = 'run_resumed'`))
}

func atLeast(got, want int) error {
	if got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

// patient is until with more patience.
func patient(t testing.TB, times int, what string, f func() error) {
	t.Helper()
	if err := poll(time.Duration(times)*patience, f); err != nil {
		t.Fatalf("%s: not within %d times %s: %v", what, times, patience, err)
	}
}

// feedInOrder reads the whole feed: per run every event is there, and the first
// copies come in order.
func (s *site) feedInOrder(t *testing.T) {
	t.Helper()
	js := s.jetstream(t)
	c, err := js.OrderedConsumer(t.Context(), daybook.FeedStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.Stream(t.Context(), daybook.FeedStream)
	if err != nil {
		t.Fatal(err)
	}
	total := info.CachedInfo().State.Msgs
	last := map[string]uint64{}
	copies := 0
	for n := uint64(0); n < total; {
		batch, err := c.Fetch(int(min(1000, total-n))) // one that asks for more than there is waits for it
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			n++
			run := m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]
			seq, err := strconv.ParseUint(m.Headers().Get("ce-sequence"), 10, 64)
			switch {
			case err != nil:
				t.Fatalf("message on %s has the sequence %q", m.Subject(), m.Headers().Get("ce-sequence"))
			case seq == last[run]+1:
				last[run] = seq
			case seq <= last[run]:
				copies++ // at least once
			default:
				t.Fatalf("feed of run %s goes from %d to %d", run, last[run], seq)
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	var fed uint64
	for _, n := range last {
		fed += n
	}
	if want := s.number(t, `SELECT count(*) FROM events`); int64(fed) != want { //nolint:gosec // a count of events
		t.Errorf("the feed has %d events, the archive %d", fed, want)
	}
	t.Logf("feed: %d events in order, %d copies", fed, copies)
}

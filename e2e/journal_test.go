//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	daybook "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/ledger"
)

// journalRuns is how many runs each journal case works off.
const journalRuns = 24

// TestJournalLoss takes a part of the journal away that was acknowledged, or all
// of it: the runs go on, and nothing happens twice.
// RELIABILITY rows 2, 11.
func TestJournalLoss(t *testing.T) {
	losses := map[string]func(t *testing.T, s *site, old string){
		"tail": func(t *testing.T, s *site, old string) {
			empty(t, s.nats.StoreDir())
			if out, err := exec.Command("cp", "-a", old+"/.", s.nats.StoreDir()).CombinedOutput(); err != nil {
				t.Fatalf("put the copy back: %v: %s", err, out)
			}
		},
		"everything": func(t *testing.T, s *site, _ string) { empty(t, s.nats.StoreDir()) },
	}
	for what, lose := range losses {
		for _, restart := range []bool{false, true} {
			name := what + " while a worker works"
			if restart {
				name = what + " between two workers"
			}
			t.Run(name, func(t *testing.T) { journalLoss(t, restart, lose) })
		}
	}
}

func journalLoss(t *testing.T, restart bool, lose func(t *testing.T, s *site, old string)) {
	s := distributedSite(t)
	p := s.provider(t, keyed)
	w := s.start(t, p, worker{ttl: 3 * time.Second})
	runs := make([]ledger.Run, journalRuns)
	for i := range journalRuns / 3 {
		runs[i] = s.submit(t, "loss", "q", fmt.Sprintf("ORD-%04d", i))
	}
	until(t, "the first runs to end", func() error { return s.ended(t, runs[:journalRuns/3]) })
	// An older copy of the store, taken while the server does not run.
	old := t.TempDir()
	s.nats.Stop()
	if out, err := exec.Command("cp", "-a", s.nats.StoreDir()+"/.", old).CombinedOutput(); err != nil {
		t.Fatalf("copy the store: %v: %s", err, out)
	}
	s.nats.Start()
	for i := journalRuns / 3; i < journalRuns; i++ {
		runs[i] = s.submit(t, "loss", "q", fmt.Sprintf("ORD-%04d", i))
	}
	until(t, "be in the middle of it", func() error {
		if n := p.count(); n < journalRuns/2 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	before := s.stored(t)
	if restart {
		w.kill()
	}
	s.nats.Kill()
	lose(t, s, old)
	// The worker stands still until the rest is counted: it would add to it.
	if !restart {
		if err := w.freeze(); err != nil {
			t.Fatal(err)
		}
	}
	s.nats.Start()
	after := s.stored(t)
	w.signal(syscall.SIGCONT)
	if after >= before {
		t.Fatalf("void: the journal held %d messages before and %d after, nothing was lost", before, after)
	}
	if restart {
		w = s.start(t, p, worker{})
	}
	until(t, "all runs to end", func() error { return s.ended(t, runs) })
	until(t, "be whole", func() error { return s.whole(t, [16]byte{}) })
	until(t, "be in the feed", func() error { return s.fed(t) })
	w.stop(t)
	if n := p.once(t); n != journalRuns {
		t.Errorf("%d effects, want %d", n, journalRuns)
	}
	if n := s.number(t, `SELECT count(*) FROM (SELECT 1 FROM events GROUP BY run_id, seq HAVING count(*) > 1) twice`); n != 0 {
		t.Errorf("%d sequences have two events", n)
	}
	if n := s.number(t, `SELECT count(*) FROM quarantine`); n != 0 {
		t.Errorf("%d messages are in quarantine", n)
	}
	js := s.jetstream(t)
	for _, stream := range []string{daybook.JournalStream, daybook.FeedStream} {
		if _, err := js.Stream(t.Context(), stream); err != nil {
			t.Errorf("stream %s was not made again: %v", stream, err)
		}
	}
	if _, err := js.Consumer(t.Context(), daybook.JournalStream, daybook.Projector); err != nil {
		t.Errorf("the projector's consumer was not made again: %v", err)
	}
	t.Logf("the journal went from %d to %d messages; %d runs ended, %d resumes", before, after, journalRuns, s.number(t, `SELECT count(*) FROM events WHERE type = 'run_resumed'`))
}

// ended says which run has not finished.
func (s *site) ended(t testing.TB, runs []ledger.Run) error {
	for _, r := range runs {
		if err := s.resting(t, r.ID, false); err != nil {
			return err
		}
	}
	return nil
}

// jetstream is a connection of the test's own.
func (s *site) jetstream(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// stored is how many messages the journal ever took, by what is there now.
func (s *site) stored(t testing.TB) uint64 {
	t.Helper()
	stream, err := s.jetstream(t).Stream(t.Context(), daybook.JournalStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

func empty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	daybook "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/testenv/powercut"
	"github.com/daybookhq/daybook/ledger"
)

// queueRefunds queues n refunds.
func (s *site) queueRefunds(t testing.TB, tenant string, n int) []ledger.Run {
	t.Helper()
	all := make([]ledger.Run, n)
	for i := range all {
		all[i] = s.submit(t, tenant, "q", fmt.Sprintf("ORD-%04d", i))
	}
	return all
}

// healed waits until all runs have ended by themselves, and holds the record
// against the provider's log: each refund happened once, and was told so, the
// record is whole and in order, and so is the feed. poison is how much of the
// journal must be in quarantine; negative does not matter.
func (s *site) healed(t *testing.T, p *provider, all []ledger.Run, poison int64) {
	t.Helper()
	s.healedBut(t, p, all, poison, 0)
}

// healedBut is healed for a site where a person said of some refunds that they
// did not happen: their runs have ended in another way.
func (s *site) healedBut(t *testing.T, p *provider, all []ledger.Run, poison int64, refused int) {
	t.Helper()
	until(t, "all runs to end", func() error { return s.ended(t, all) })
	until(t, "no fact to be left", func() error { return s.none(t, "pending facts", `SELECT count(*) FROM facts`) })
	until(t, "be whole", func() error { return s.whole(t, [16]byte{}) })
	until(t, "be folded and fed", func() error { // a projector may just have been started
		return s.none(t, "runs that are not folded or fed", `SELECT count(*) FROM runs r LEFT JOIN run_folds f ON f.run_id = r.id
			WHERE f.run_id IS NULL OR f.top_seq = 0 OR f.folded_seq <> f.top_seq OR f.fed_seq <> f.top_seq`)
	})
	// What a last barrier brought is folded a moment later.
	until(t, "summaries to add up", func() error {
		return s.none(t, "summaries whose events do not", `SELECT count(*) FROM run_summaries m WHERE m.events <> (SELECT count(*) FROM events e WHERE e.run_id = m.run_id)`)
	})
	until(t, "be in the feed", func() error { return s.fed(t) })
	if n := p.once(t); n != len(all)-refused {
		t.Errorf("%d effects, want %d", n, len(all)-refused)
	}
	if n := s.number(t, `SELECT count(*) FROM effects WHERE state = 'applied'`); n != int64(len(all)-refused) {
		t.Errorf("%d effects are applied, want %d", n, len(all)-refused)
	}
	if n := s.number(t, `SELECT count(*) FROM runs WHERE state = 'finished' AND stopped_by = 'finish'`); n < int64(len(all)-refused) {
		t.Errorf("%d runs have finished, want %d", n, len(all)-refused)
	}
	for what, sql := range map[string]string{
		"failed runs":                    `SELECT count(*) FROM runs WHERE state = 'failed'`,
		"sequences with two events":      `SELECT count(*) FROM (SELECT 1 FROM events GROUP BY run_id, seq HAVING count(*) > 1) twice`,
		"events whose id is there twice": `SELECT count(*) FROM (SELECT 1 FROM events GROUP BY event_id HAVING count(*) > 1) twice`,
		"histories with a hole":          `SELECT count(*) FROM (SELECT run_id FROM events GROUP BY run_id HAVING max(seq) <> count(*) OR min(seq) <> 1) holes`,
		"calls with two terminal rows":   `SELECT count(*) FROM (SELECT 1 FROM tool_call_records WHERE terminal GROUP BY run_id, turn, call_index HAVING count(*) > 1) twice`,
	} {
		if err := s.none(t, what, sql); err != nil {
			t.Error(err)
		}
	}
	if n := s.number(t, `SELECT count(*) FROM quarantine`); poison >= 0 && n != poison {
		t.Errorf("%d values are in quarantine, want %d", n, poison)
	}
	js := s.jetstream(t)
	if _, err := js.Consumer(t.Context(), daybook.JournalStream, daybook.Projector); err != nil {
		t.Errorf("the projector's consumer: %v", err)
	}
	s.feedInOrder(t)
}

// none says how much of something there is that must not be there.
func (s *site) none(t testing.TB, what, sql string) error {
	t.Helper()
	if n := s.number(t, sql); n != 0 {
		return fmt.Errorf("%d %s", n, what)
	}
	return nil
}

// openDir is a directory that other accounts get to, such as PostgreSQL's.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "daybook-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // servers and disks have gone before
	return dir
}

// smallDisk is a disk of some size that can be filled.
func smallDisk(t *testing.T, megabytes int64) *powercut.Disk {
	t.Helper()
	d, err := powercut.New(openDir(t), "disk", megabytes)
	if errors.Is(err, powercut.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// redelivered is how many messages of the journal were delivered again.
func redelivered(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	c, err := js.Consumer(t.Context(), daybook.JournalStream, daybook.Projector)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), daybook.JournalStream)
	if err != nil {
		t.Fatal(err)
	}
	i := c.CachedInfo()
	return i.Delivered.Consumer - min(i.Delivered.Consumer, s.CachedInfo().State.LastSeq)
}

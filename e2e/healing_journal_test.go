//go:build daybook_faults

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	daybook "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/testenv"
)

// brokenRuns is how many runs each case of a broken journal works off.
const brokenRuns = 24

// TestBrokenJournal: RELIABILITY row 11. It breaks the journal in ways that a disk, an operator or a
// restored copy does, while runs are in flight and nothing of it has been
// projected: what the server hands out is what was written or it is set apart,
// barriers have carried the rest, and the record is whole.
func TestBrokenJournal(t *testing.T) {
	stopped := func(f func(t *testing.T, s *site, old string)) func(*testing.T, *site, string) {
		return func(t *testing.T, s *site, old string) {
			s.nats.Stop()
			f(t, s, old)
			if err := s.nats.TryStart(); err != nil {
				// docs/operations.md says what a person does then.
				t.Logf("the server does not get over it; its blocks are set aside: %v", err)
				empty(t, filepath.Join(streamDir(s.nats.StoreDir()), "msgs"))
				s.nats.Start()
			}
		}
	}
	cases := map[string]struct {
		projects bool // while the runs are in flight
		hurt     func(t *testing.T, s *site, old string)
	}{
		"a bit flipped in the middle of a block": {hurt: stopped(func(t *testing.T, s *site, _ string) {
			eachBlock(t, s, func(b []byte) []byte { b[len(b)/2] ^= 0x10; return b })
		})},
		"bits flipped all over a block": {hurt: stopped(func(t *testing.T, s *site, _ string) {
			eachBlock(t, s, func(b []byte) []byte {
				for i := 700; i < len(b); i += 4099 {
					b[i] ^= 1
				}
				return b
			})
		})},
		"a block cut in half": {hurt: stopped(func(t *testing.T, s *site, _ string) {
			eachBlock(t, s, func(b []byte) []byte { return b[:len(b)/2] })
		})},
		"an older stream under a consumer that knows more": {projects: true, hurt: stopped(func(t *testing.T, s *site, old string) {
			msgs := filepath.Join(streamDir(s.nats.StoreDir()), "msgs")
			empty(t, msgs)
			cp(t, filepath.Join(streamDir(old), "msgs")+"/.", msgs)
		})},
		"the stream deleted": {projects: true, hurt: func(t *testing.T, s *site, _ string) {
			if err := s.jetstream(t).DeleteStream(t.Context(), daybook.JournalStream); err != nil {
				t.Fatal(err)
			}
		}},
		"the stream purged": {hurt: func(t *testing.T, s *site, _ string) {
			stream, err := s.jetstream(t).Stream(t.Context(), daybook.JournalStream)
			if err == nil {
				err = stream.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := distributedSite(t)
			p := s.provider(t, keyed)
			p.set(func(p *provider) { p.delay = 100 * time.Millisecond })
			w := s.start(t, p, worker{apart: !c.projects, ttl: 5 * time.Second})
			all := s.queueRefunds(t, "broken", brokenRuns)
			until(t, "a third", func() error { return atLeast(p.count(), brokenRuns/3) })
			old := t.TempDir()
			s.nats.Stop()
			cp(t, s.nats.StoreDir()+"/.", old)
			s.nats.Start()
			until(t, "two thirds", func() error { return atLeast(p.count(), 2*brokenRuns/3) })
			before := s.stored(t)
			if before == 0 {
				t.Fatal("void: there is nothing to break")
			}
			c.hurt(t, s, old)
			after := s.stored(t)
			pr := s.projector(t)
			s.healed(t, p, all, -1)
			if w.ended() || pr.ended() {
				t.Errorf("worker ended: %v, projector: %v", w.ended(), pr.ended())
			}
			w.stop(t)
			pr.stop(t)
			t.Logf("the journal stood at %d before and %d after; %d values in quarantine, %d resumes", before, after,
				s.number(t, `SELECT count(*) FROM quarantine`), s.number(t, `SELECT count(*) FROM events WHERE type = 'run_resumed'`))
		})
	}
}

// streamDir is where a server keeps the journal.
func streamDir(store string) string {
	return filepath.Join(store, "jetstream", "$G", "streams", daybook.JournalStream)
}

// eachBlock changes the files that a stopped server keeps the journal in.
func eachBlock(t *testing.T, s *site, f func([]byte) []byte) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(strings.ReplaceAll(streamDir(s.nats.StoreDir()), "$", `\$`), "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("void: the journal has no blocks: %v", err)
	}
	for _, path := range blocks {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStormAndPoison lets every message be delivered again and again, to three
// slow projectors and one in a worker, while somebody else publishes rubbish
// into the journal: each row is there once, the feed has no holes, what is no
// event is in quarantine with an alarm, and no projector stops.
// hatchet-dev/hatchet#2803: poison leaves the queue and the others go on.
func TestStormAndPoison(t *testing.T) {
	const runs = 60
	s := distributedSite(t)
	p := s.provider(t, keyed)
	slow := []string{"DAYBOOK_FAULTS=projector.before_commit=delay:1500ms@p0.3"}
	var projectors []*process
	for i := range 3 {
		log := filepath.Join(s.logs, fmt.Sprintf("storm-%d.log", i))
		projectors = append(projectors, start(t, log, slow, binary(t, "cmd/runner"), append([]string{"projector"}, s.flags()...)...))
	}
	js := s.jetstream(t)
	var cons jetstream.Consumer
	until(t, "the consumer to be there", func() (err error) {
		cons, err = js.Consumer(t.Context(), daybook.JournalStream, daybook.Projector)
		return err
	})
	cfg := cons.CachedInfo().Config
	cfg.AckWait = time.Second
	if _, err := js.UpdateConsumer(t.Context(), daybook.JournalStream, cfg); err != nil {
		t.Fatal(err)
	}
	all := s.queueRefunds(t, "storm", runs)
	w := s.start(t, p, worker{ttl: 5 * time.Second}) // projects, too
	until(t, "a third", func() error { return atLeast(p.count(), runs/3) })
	poison := s.poison(t, js)
	if c, err := js.Consumer(t.Context(), daybook.JournalStream, daybook.Projector); err != nil || c.CachedInfo().Config.AckWait != time.Second {
		t.Fatalf("void: somebody has changed the consumer back: %v", err)
	}
	until(t, "the poison to be in quarantine", func() error {
		if n := s.number(t, `SELECT count(*) FROM quarantine`); n < poison {
			return fmt.Errorf("%d of %d", n, poison)
		}
		return nil
	})
	s.healed(t, p, all, poison)
	if n := redelivered(t, js); n == 0 {
		t.Error("void: nothing was delivered twice")
	} else {
		t.Logf("%d messages were delivered again", n)
	}
	alarms := 0
	for _, pr := range append(projectors, w) {
		if pr.ended() {
			t.Errorf("it ended: %v\n%s", pr.err, pr.tail())
		}
		pr.stop(t)
		alarms += strings.Count(tail(pr.log, 1<<24), "level=ERROR msg=quarantined")
	}
	if alarms < int(poison) {
		t.Errorf("%d alarms for %d poisonous values", alarms, poison)
	}
}

// poison publishes what is no event, or none that may be in the record, and
// returns how much of it must be in quarantine.
func (s *site) poison(t *testing.T, js jetstream.JetStream) int64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), daybook.JournalStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), stream.CachedInfo().State.FirstSeq)
	if err != nil {
		t.Fatal(err)
	}
	var envelope []struct {
		Hash  string          `json:"hash"`
		Event json.RawMessage `json:"event"`
	}
	if err := json.Unmarshal(m.Data, &envelope); err != nil {
		t.Fatal(err)
	}
	one := func(hash string, event []byte) []byte {
		return []byte(`[{"hash":"` + hash + `","event":` + string(event) + `}]`)
	}
	genuine := envelope[0]
	changed := bytes.Replace(genuine.Event, []byte(`"epoch":1`), []byte(`"epoch":7`), 1)
	if bytes.Equal(changed, genuine.Event) {
		t.Fatal("void: the event is of another epoch")
	}
	forged := sha256.Sum256(changed)
	rubbish := [][]byte{
		[]byte("no JSON at all"),
		[]byte(`{"of":"another protocol"}`),
		[]byte(`[{"hash":"00"}]`),
		one(strings.Repeat("0", 64), genuine.Event),    // another hash
		one(genuine.Hash, changed),                     // another event
		one(hex.EncodeToString(forged[:]), changed),    // an epoch that was never given
		bytes.Repeat([]byte("x"), 1000<<10),            // as large as the server takes
		bytes.Repeat([]byte("["), 20_000),              // deeper than any event
		slices.Concat([]byte(`[`), make([]byte, 1000)), // zeros, as a torn block has
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, b := range rubbish {
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "daybook.journal.somebody_else", Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	// What is harmless: nothing, an envelope of nothing, and a genuine message that comes again.
	for _, b := range [][]byte{[]byte(`[]`), m.Data} {
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "daybook.journal.somebody_else", Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	return int64(len(rubbish))
}

// TestProjectorOfAnotherLedger starts a projector of another, empty database on
// the same journal, by mistake: it is held back and takes no message that the
// right one needs, or what it took is filled in.
func TestProjectorOfAnotherLedger(t *testing.T) {
	const runs = 24
	s := distributedSite(t)
	p := s.provider(t, keyed)
	w := s.start(t, p, worker{apart: true, ttl: 5 * time.Second})
	all := s.queueRefunds(t, "ours", runs)
	until(t, "be in the middle of it", func() error { return atLeast(p.count(), runs/3) })
	other := distributedWith(t, testenv.Postgres(t), s.nats)
	wrong := other.projector(t)
	until(t, "be held back", func() error { return wrong.says("went back in time") })
	pr := s.projector(t)
	s.healed(t, p, all, 0)
	if n := other.number(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("the other ledger has %d events", n)
	}
	if wrong.ended() {
		t.Errorf("it ended: %v", wrong.err)
	}
	for _, proc := range []*process{w, pr, wrong} {
		proc.stop(t)
	}
}

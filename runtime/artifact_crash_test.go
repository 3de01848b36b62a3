package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
)

// transcript is what a model would read of a run, and what was made of it: bytes
// that are the same for the same run.
func (w *world) transcript(id events.RunID) string {
	w.t.Helper()
	h := loops.NewHistory(id)
	var outcome events.Payload
	for _, e := range w.history(id) {
		if err := h.Apply(e); err != nil {
			w.t.Fatal(err)
		}
		if events.Terminal(e.Type) {
			outcome = e.Data
		}
	}
	vs, err := w.store.Artifacts(context.Background(), ledger.ArtifactFilter{Run: id})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range vs { // what a crash may change
		vs[i].Run, vs[i].Seq, vs[i].At = events.RunID{}, 0, time.Time{}
	}
	b, err := json.Marshal([]any{h.Messages(), outcome, vs})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// The worker is killed at every event of a run that is revised twice, before it
// and after it; another one goes on. The transcript, the versions and the end are
// the bytes of the run that nobody disturbed. PR-08, PR-10: whatever happens, a
// turn has one verdict, and the loop goes on from that.
func TestRevisedRunIsKilledAtEveryEvent(t *testing.T) {
	w := newWorld(t, &drafts{})
	undisturbed := func(options string) (string, int) {
		w.reviser(options, validators(wants("draft 3")))
		first := w.start()
		r := w.wait(w.submit("write").ID, false)
		first.stop(t)
		w.caughtUp()
		return w.transcript(r.ID), len(w.history(r.ID))
	}
	for _, options := range []string{`{"validators":["v"]}`, `{"validators":["v"],"max_revisions":1}`} {
		want, n := undisturbed(options)
		for _, after := range []bool{false, true} {
			for at := 1; at <= n; at++ {
				id := w.killedAt(options, at, after)
				w.caughtUp()
				if d := cmp.Diff(want, w.transcript(id)); d != "" {
					t.Fatalf("killed at event %d of %d (after it: %t):\n%s\n%s", at, n, after, d, w.story(id))
				}
				turns := map[int]int{}
				for _, e := range w.history(id) {
					if p, ok := e.Data.(events.ArtifactValidationFinished); ok {
						turns[p.Turn]++
					}
				}
				for turn, verdicts := range turns {
					if verdicts != 1 {
						t.Errorf("killed at event %d: turn %d has %d verdicts", at, turn, verdicts)
					}
				}
			}
		}
	}
	w.whole()
}

// killedAt runs a run whose first worker dies at an event of its own.
func (w *world) killedAt(options string, at int, after bool) events.RunID {
	w.t.Helper()
	w.reviser(options, validators(wants("draft 3")))
	return w.heir(w.dies(at, after, func() events.RunID { return w.submit("write").ID }, nil))
}

func (w *world) caughtUp() {
	w.t.Helper()
	w.until("projection caught up", func() bool {
		n, err := w.store.FoldBehind(context.Background(), 0, 100)
		return err == nil && n == 0
	})
}

// A verdict that is recorded is never computed again, and what the repairer asked
// for is read in the record: both say something else each time they are asked.
func TestRecordedVerdictsStand(t *testing.T) {
	w := newWorld(t, &drafts{})
	var checks, repairs atomic.Int64
	var mu sync.Mutex
	var asked []string
	c := revise.Callbacks{
		Validators: map[string]revise.Validator{"v": func(_ context.Context, at revise.Context, _ any) (revise.Verdict, error) {
			return revise.Verdict{OK: at.Revision == 2, Issues: []events.ArtifactIssue{{Message: fmt.Sprintf("check %d", checks.Add(1))}}}, nil
		}},
		Repairers: map[string]revise.Repairer{"r": func(_ context.Context, _ revise.Context, value any, refused revise.Verdict) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprintf("%v: %s", value, refused.Issues[0].Message))
			return fmt.Sprintf("repair %d", repairs.Add(1)), nil
		}},
	}
	for at := 3; at <= 14; at++ {
		w.reviser(`{"validators":["v"],"repairer":"r"}`, c)
		id := w.heir(w.dies(at, true, func() events.RunID { return w.submit("write").ID }, nil))
		verdict, said := "", []string{}
		for _, e := range w.history(id) {
			switch p := e.Data.(type) {
			case events.ArtifactValidationFinished:
				verdict = p.Issues[0].Message
			case events.ArtifactRevisionStarted:
				said = append(said, p.Input)
				mu.Lock()
				if !slices.Contains(asked, fmt.Sprintf("draft %d: %s", p.Turn, verdict)) {
					t.Errorf("killed at %d: the repairer was never asked about %q; it was asked %q", at, verdict, asked)
				}
				mu.Unlock()
			}
		}
		h := loops.NewHistory(id)
		for _, e := range w.history(id) {
			if err := h.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		var told []string
		for _, m := range h.Messages() {
			if strings.HasPrefix(m.Text, "repair ") {
				told = append(told, m.Text)
			}
		}
		if len(said) != 2 || !slices.Equal(said, told) {
			t.Errorf("killed at %d: recorded %q, the model read %q\n%s", at, said, told, w.story(id))
		}
	}
	w.whole()
}

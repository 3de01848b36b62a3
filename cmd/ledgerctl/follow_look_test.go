package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// openFiller is a filler of an empty ledger, and an app that looks at it through a window
// of two runs and writes JSON lines.
func openFiller(t *testing.T) (*filler, *app, *strings.Builder) {
	t.Helper()
	f := &filler{ctx: t.Context(), seal: redact.New(redact.Config{}), now: began}
	now := func() time.Time { return f.now }
	f.ids = events.NewIDs(now, rand.NewChaCha8([32]byte{7}))
	var err error
	f.st, err = sqlite.Open(f.ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Now: now, Store: sqlstore.Config{Redactor: f.seal, IDs: f.ids}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.st.Close(); err != nil || f.err != nil {
			t.Error(err, f.err)
		}
	})
	if _, err := f.st.Migrate(f.ctx); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	a := newApp(strings.NewReader(""), &out, io.Discard, now)
	a.window, a.output = 2, formatJSON
	return f, a, &out
}

func (f *filler) fold(t *testing.T) {
	t.Helper()
	f.now = f.now.Add(time.Minute)
	if _, err := f.st.FoldBehind(f.ctx, 0, 100); err != nil || f.err != nil {
		t.Fatal(err, f.err)
	}
}

// lines are what was printed since the last time, by jq-like keys joined with a space.
func lines(t *testing.T, out *strings.Builder, keys ...string) (got []string) {
	t.Helper()
	for line := range strings.Lines(out.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var words []string
		for _, k := range keys {
			s, _ := v[k].(string)
			words = append(words, s)
		}
		got = append(got, strings.Join(words, " "))
	}
	out.Reset()
	return got
}

// callAndFinish is a run that calls its tool and ends.
func (h *holder) callAndFinish() {
	h.readonly(events.CallID{Turn: 1})
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: json.RawMessage(`"done"`), Turns: 1}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent})
}

// TestFollowCallsOfOlderRuns: a run that is older than the newest, whose calls are followed
// because it has not ended, does its work and ends between two looks; of another the last
// events are folded only later. Their calls are printed, once, and then they are forgotten.
func TestFollowCallsOfOlderRuns(t *testing.T) {
	f, a, out := openFiller(t)
	var older []*holder
	for _, q := range []string{"a", "b", "c"} {
		h := f.take(f.submit(ledger.Submission{Queue: q}), "w1", 10*time.Hour)
		h.turn(1, nil, "check_refund")
		h.flush()
		older = append(older, h)
	}
	for range 3 {
		f.submit(ledger.Submission{Queue: "new"})
	}
	f.fold(t)
	w, err := a.callFollower(f.ctx, f.st, callsFlags{page: page{limit: 10}})
	if err != nil {
		t.Fatal(err)
	}
	look := func(when string, want ...string) {
		t.Helper()
		if more, err := w.look(f.ctx); err != nil || !more {
			t.Fatal(more, err)
		}
		if got := lines(t, out, "run", "status"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	look("at first")
	older[0].callAndFinish()
	f.fold(t)
	older[1].callAndFinish() // and nothing folds it yet
	look("one has ended", older[0].run.ID.String()+" finished")
	look("nothing happens")
	f.fold(t)
	look("the other is folded", older[1].run.ID.String()+" finished")

	// More runs than are looked at come and end between two looks.
	var want []string
	for range 5 {
		h := f.take(f.submit(ledger.Submission{Queue: "crowd"}), "w1", 10*time.Hour)
		h.turn(1, nil, "check_refund")
		h.callAndFinish()
		want = append(want, h.run.ID.String()+" finished")
	}
	older[2].callAndFinish()
	f.fold(t)
	look("a crowd", slices.Insert(want, 0, older[2].run.ID.String()+" finished")...)
	look("nothing happens any more")
	if len(w.folded) != 5 { // three wait, and the window
		t.Errorf("%d runs are looked at", len(w.folded))
	}
}

// TestFollowCallsWithinBounds: --since and --until hold for what comes later, too.
func TestFollowCallsWithinBounds(t *testing.T) {
	f, a, out := openFiller(t)
	a.window = followWindow
	var all []*holder
	for _, q := range []string{"a", "b", "c"} {
		h := f.take(f.submit(ledger.Submission{Queue: q}), "w1", 10*time.Hour)
		h.turn(1, nil, "check_refund")
		h.flush()
		all = append(all, h)
	}
	f.fold(t)
	bounds := callsFlags{page: page{limit: 10}, from: firstRun(all[1].run.CreatedAt), before: firstRun(all[2].run.CreatedAt)}
	one := bounds
	one.filter.Run = all[0].run.ID
	for _, tt := range []struct {
		name string
		f    callsFlags
		more bool
		want []string
	}{
		{"of all", bounds, true, []string{all[1].run.ID.String() + " finished"}},
		{"of a run that is out of bounds", one, false, nil},
	} {
		w, err := a.callFollower(f.ctx, f.st, tt.f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.look(f.ctx); err != nil {
			t.Fatal(err)
		}
		if tt.more {
			for _, h := range all {
				h.callAndFinish()
			}
			f.fold(t)
		}
		if more, err := w.look(f.ctx); err != nil || more != tt.more {
			t.Errorf("%s: %t, %v", tt.name, more, err)
		}
		if got := lines(t, out, "run", "status"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFollowRunsThatComeToPass: a run that does not pass when it is first seen is printed
// once it does, though it stands as before; also again, after it did not.
func TestFollowRunsThatComeToPass(t *testing.T) {
	f, a, out := openFiller(t)
	h := f.take(f.submit(ledger.Submission{}), "w1", 10*time.Hour)
	h.flush()
	f.fold(t)
	for _, tt := range []struct{ tool, filter string }{{filter: "totals.turns == 1"}, {tool: "check_refund"}} {
		t.Run(tt.tool+tt.filter, func(t *testing.T) {
			if tt.filter != "" {
				p, err := newPicker(tt.filter)
				if err != nil {
					t.Fatal(err)
				}
				a.shape.pick = p
				t.Cleanup(func() { a.shape.pick = nil })
			}
			w, err := a.runFollower(f.ctx, f.st, runsFlags{tool: tt.tool, page: page{limit: 10}})
			if err != nil {
				t.Fatal(err)
			}
			look := func(when string, want ...string) {
				t.Helper()
				if _, err := w.look(); err != nil {
					t.Fatal(err)
				}
				if got := lines(t, out, "run", "state"); !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", when, got, want)
				}
			}
			look("at first")
			if tt.filter != "" {
				h.turn(1, nil, "check_refund")
			} else {
				h.readonly(events.CallID{Turn: 1})
			}
			h.flush()
			f.fold(t)
			look("it passes", h.run.ID.String()+" running")
			look("nothing happens")
		})
	}
}

package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// No store has a secret of a conversation, snapshots and summaries included.
func TestSecretsOfASession(t *testing.T) {
	const canary = "plum-canary-by-the-quay-77"
	m := &companion{say: func(said string, step int) (model.Response, error) {
		if step == 1 {
			return model.Response{Text: "answer to " + said + " with " + canary, StopReason: "end_turn"}, nil
		}
		return model.Response{}, nil
	}}
	w := newWorld(t, m, must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) {
			return "the key is " + canary + strings.Repeat(" x", 200), nil
		})))
	if err := w.red.Register("canary", canary); err != nil {
		t.Fatal(err)
	}
	w.compacted(events.Compaction{At: 60, Keep: 1, With: events.CompactedBySummary, Window: 2500})
	k := w.start()
	snapshots := 0
	for i := range 8 {
		r := w.wait(w.continued("s", fmt.Sprintf("message %d: %s", i, canary)).ID, false)
		if r.State != ledger.Finished {
			t.Fatalf("%s %s", r.State, r.Error)
		}
		for _, e := range w.history(r.ID) {
			if c, ok := e.Data.(events.TranscriptCompacted); ok && !c.Snapshot.IsZero() {
				snapshots++
			}
		}
	}
	k.stop(t)
	w.whole()
	if snapshots < 2 {
		t.Errorf("%d snapshots", snapshots)
	}
	for _, suffix := range []string{"", "-wal"} {
		if b, err := os.ReadFile(w.path + suffix); err == nil && bytes.Contains(b, []byte(canary)) {
			t.Errorf("the secret is in ledger.db%s", suffix)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.asked {
		for _, msg := range r.Messages {
			if strings.Contains(fmt.Sprint(msg), canary) {
				t.Fatal("a later run was shown the secret")
			}
		}
	}
}

// counting counts what is read of the runs before.
type counting struct {
	runtime.HistorySource
	bytes *int
}

func (c counting) Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error {
	return c.HistorySource.Events(ctx, run, from, func(e events.Sealed) error {
		*c.bytes += len(e.Bytes())
		return f(e)
	})
}

func (c counting) Blob(ctx context.Context, tenant string, h events.Hash) ([]byte, string, error) {
	b, typ, err := c.HistorySource.Blob(ctx, tenant, h)
	*c.bytes += len(b)
	return b, typ, err
}

// A run at the end of a long session stores no more than one at its beginning; what it
// reads grows with the transcript that it is shown, and with compaction not at all.
func TestRunOfALongSessionStoresAndReadsNoMore(t *testing.T) {
	const runs = 50
	for name, c := range map[string]*events.Compaction{"whole": nil, "compacted": {At: 60, Keep: 2, With: events.CompactedBySummary, Window: 6000}} {
		t.Run(name, func(t *testing.T) {
			w := newLoneWorld(t, new(companion), lookout(tools.Own))
			if c != nil {
				w.compacted(*c)
			}
			k := w.start()
			var stored, read, shown [runs]int
			for i := range runs {
				r := w.wait(w.continued("s", fmt.Sprint("message ", i)).ID, false)
				if r.State != ledger.Finished {
					t.Fatalf("run %d: %s %s", i, r.State, r.Error)
				}
				for _, e := range w.history(r.ID) {
					b, err := json.Marshal(e.Data)
					if err != nil {
						t.Fatal(err)
					}
					stored[i] += len(b)
					if c, ok := e.Data.(events.TranscriptCompacted); ok {
						b, _, err := w.store.Blob(t.Context(), r.Tenant, c.Snapshot)
						if err != nil {
							t.Fatal(err)
						}
						stored[i] += len(b)
					}
				}
				h := loops.NewHistory(r.ID)
				if err := runtime.Inherit(t.Context(), counting{w.store, &read[i]}, r, h); err != nil {
					t.Fatal(err)
				}
				for _, msg := range h.Messages() {
					b, _ := json.Marshal(msg)
					shown[i] += len(b)
				}
			}
			k.stop(t)
			sum := func(ns []int) (n int) {
				for _, x := range ns {
					n += x
				}
				return n / len(ns)
			}
			for i := 0; i < runs; i += 10 {
				t.Logf("runs %d to %d: one stores %d bytes, and reads %d to be shown %d", i+1, i+10, sum(stored[i:i+10]), sum(read[i:i+10]), sum(shown[i:i+10]))
			}
			// A snapshot has a bounded part of the calls that were compacted, which fills first.
			if sum(stored[40:]) > sum(stored[20:30])*12/10 {
				t.Errorf("the last runs store %d bytes, earlier ones %d", sum(stored[40:]), sum(stored[20:30]))
			}
			if c != nil && sum(read[40:]) > sum(read[20:30])*12/10 {
				t.Errorf("the last runs read %d bytes, earlier ones %d", sum(read[40:]), sum(read[20:30]))
			}
			if c == nil && sum(read[40:]) > 12*sum(shown[40:]) {
				t.Errorf("the last runs read %d bytes to be shown %d", sum(read[40:]), sum(shown[40:]))
			}
		})
	}
}

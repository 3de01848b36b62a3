package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/queue"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// postgresWorld is a world whose ledger is a PostgreSQL database. Its clock stands by.
func postgresWorld(t *testing.T, m model.Model, ts ...tools.Tool) *world {
	t.Helper()
	w := &world{t: t, ttl: 15 * time.Second, red: redact.New(redact.Config{}), stream: memory.NewStream(memory.Config{}), waker: new(queue.Local), model: m}
	w.vault = redact.NewVault(w.red)
	w.tools = append([]tools.Tool{builtin.Finish()}, ts...)
	w.limits = events.Limits{MaxTurns: 8}
	open := func(ctx context.Context, dsn string) (*sqlstore.Store, error) {
		return postgres.Open(ctx, postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: w.red, Grace: 50 * time.Millisecond, MaxCrashes: -1}})
	}
	dsn := testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), func(dsn string) error {
		st, err := open(context.Background(), dsn)
		if err != nil {
			return err
		}
		defer func() { _ = st.Close() }()
		_, err = st.Migrate(context.Background())
		return err
	})
	var err error
	if w.store, err = open(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	w.begin()
	return w
}

// Several people talk at once, to several workers over PostgreSQL: each session is one
// conversation, in the order in which it was submitted.
func TestSessionsOverPostgres(t *testing.T) {
	const people, each = 4, 5
	m := new(companion)
	w := postgresWorld(t, m, lookout(tools.Own))
	w.compacted(events.Compaction{At: 60, Keep: 1, With: events.CompactedBySummary, Window: 4000})
	for range 3 {
		w.start()
	}
	ids := make([][]events.RunID, people)
	var all sync.WaitGroup
	for p := range people {
		all.Go(func() {
			for i := range each {
				ids[p] = append(ids[p], w.continued(fmt.Sprint("s", p), fmt.Sprintf("p%d says %d", p, i)).ID)
			}
		})
	}
	all.Wait()
	compactions := 0
	for p, runs := range ids {
		var before ledger.Run
		for i, id := range runs {
			r := w.wait(id, false)
			if r.State != ledger.Finished || string(r.Result) != fmt.Sprintf("%q", fmt.Sprintf("answer to p%d says %d", p, i)) {
				t.Fatalf("%s %s %s\n%s", r.State, r.Result, r.Error, w.story(id))
			}
			if r.Continues.Run != before.ID || r.StartedAt.Before(before.EndedAt) {
				t.Errorf("run %d of %d goes on from %s, want %s", i, p, r.Continues.Run, before.ID)
			}
			before = r
		}
		h := w.told(before.ID)
		compactions += h.Compactions()
		for _, msg := range h.Messages() {
			for q := range people {
				if q != p && slices.Contains([]string{fmt.Sprintf("p%d says 0", q), fmt.Sprintf("p%d says 4", q)}, msg.Text) {
					t.Errorf("session %d has %q", p, msg.Text)
				}
			}
		}
	}
	if compactions == 0 {
		t.Error("nothing was compacted")
	}
	w.whole()
}

// A worker of the release before does not know what a session is: it leaves their runs alone.
func TestWorkerOfBeforeLeavesSessionsAlone(t *testing.T) {
	w := newWorld(t, new(companion), looker())
	id := w.continued("s", "one").ID
	ask := ledger.ClaimRequest{Worker: "old", TTL: time.Minute, Limit: 5, Capabilities: []string{runtime.Capability("tester")}}
	if cs, err := w.store.Claim(t.Context(), ask); err != nil || len(cs) != 0 {
		t.Fatalf("%d claims, %v", len(cs), err)
	}
	ask.Capabilities = append(ask.Capabilities, runtime.SessionCapability)
	if cs, err := w.store.Claim(t.Context(), ask); err != nil || len(cs) != 1 || cs[0].Run.ID != id {
		t.Fatalf("%d claims, %v", len(cs), err)
	}
}

//go:build daybook_faults

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/runtime"
)

// schedulePoints are visited by TestScheduleFailpoints: there is no run yet
// that the other visits could be about.
var schedulePoints = []string{"schedule.before_commit", "schedule.after_commit"}

// schedule makes one that has been due since the year began.
func (s *site) schedule(t testing.TB) ledger.ScheduleID {
	t.Helper()
	c := runtime.NewClient(s.store, s.red, nil)
	if s.dir != "" { // made a year ago
		st, err := sqlite.Open(t.Context(), sqlite.Config{
			Path: filepath.Join(s.dir, "ledger.db"), Store: storeConfig(s.red), Now: func() time.Time { return time.Now().AddDate(-1, 0, 0) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		c = runtime.NewClient(st, s.red, nil)
	}
	state, err := c.PutSchedule(t.Context(), runtime.Schedule{
		Name: "yearly", Cron: "@yearly",
		Run: runtime.Submit{Agent: "refunds", Owner: "support", Input: map[string]string{"order_id": "ORD-1001", "amount": "49.90", "currency": "EUR", "note": "The lamp arrived with a broken shade."}},
	}, "tester")
	if err != nil {
		t.Fatal(err)
	}
	if s.dir == "" {
		conn, err := pgx.Connect(t.Context(), s.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), `UPDATE schedules SET next_at = date_trunc('year', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'`); err != nil {
			t.Fatal(err)
		}
	}
	return state.ID()
}

// TestScheduleFailpoints: RELIABILITY row 25 (ours). It kills a worker inside and
// right behind the transaction that fires a schedule, and lets another one go on:
// the fire makes one run.
func TestScheduleFailpoints(t *testing.T) {
	for _, at := range places {
		for _, point := range schedulePoints {
			t.Run(at.name+"/"+point, func(t *testing.T) {
				s := at.open(t)
				p := s.provider(t, opaque)
				id := s.schedule(t)
				runs := func() []ledger.Summary {
					rs, err := s.store.Summaries(t.Context(), ledger.RunFilter{})
					if err != nil {
						t.Fatal(err)
					}
					return rs
				}
				counts := filepath.Join(s.logs, "counts")
				mortal := s.start(t, p, worker{faults: point + "=kill@1", counts: counts})
				until(t, "be killed", func() error {
					if !mortal.ended() {
						return fmt.Errorf("still alive")
					}
					return nil
				})
				c, err := fault.Counts(counts)
				if err != nil || !mortal.killed() || c[point].Fired != 1 {
					t.Fatalf("void: killed %v, %s fired %d times, %v:\n%s", mortal.killed(), point, c[point].Fired, err, mortal.tail())
				}
				if committed := strings.Contains(point, ".after_"); len(runs()) == 1 != committed {
					t.Errorf("killed at %s: %d runs", point, len(runs()))
				}
				second := s.start(t, p, worker{})
				until(t, "the run of the fire to end", func() error {
					rs := runs()
					if len(rs) != 1 {
						return fmt.Errorf("%d runs", len(rs))
					}
					return s.resting(t, rs[0].ID, false)
				})
				until(t, "be whole", func() error { return s.whole(t, [16]byte{}) })
				second.stop(t)
				rs := runs()
				if n := p.once(t); n != 1 || len(rs) != 1 {
					t.Fatalf("%d effects of %d runs, want 1 of 1", n, len(rs))
				}
				r := rs[0]
				cs, err := s.store.Schedules(t.Context(), ledger.ScheduleFilter{})
				if err != nil || len(cs) != 1 || cs[0].LastRun != r.ID || cs[0].NextFire.Before(time.Now()) || !ledger.FireOf(r.Run).Equal(cs[0].LastFire) || r.ClientKey != id.FireKey(cs[0].LastFire) {
					t.Errorf("run %s with key %s, schedule %+v, %v", r.ID, r.ClientKey, cs, err)
				}
			})
		}
	}
}

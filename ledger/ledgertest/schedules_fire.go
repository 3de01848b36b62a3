package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

func testFireTogether(t *testing.T, h Harness) {
	var ids []ledger.ScheduleID
	var next time.Time
	for range 5 {
		s := schedule(t, func(s *ledger.Schedule) { s.Missed = ledger.MissedAll })
		next = h.put(t, s).NextFire
		ids = append(ids, s.ID())
	}
	h.advanceTo(t, next.Add(3*time.Minute+time.Second))
	var mu sync.Mutex
	made := 0
	together(8, func(int) {
		fs, err := h.Store.FireDue(t.Context(), 0)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, f := range fs {
			if made += len(f.Runs); f.Err != nil {
				t.Errorf("they were in each other's way: %v", f.Err)
			}
		}
	})
	if made != 20 {
		t.Errorf("%d runs told of, want 20", made)
	}
	for _, id := range ids {
		if fires := h.firesOf(t, id); len(fires) != 4 || len(slices.CompactFunc(slices.Clone(fires), time.Time.Equal)) != 4 {
			t.Errorf("fires of %s: %v", id, fires)
		}
	}
}

// brittle is a database that a process loses in the middle of a write.
type brittle struct {
	sqlstore.DB
	crash func(commit func() error) error
}

func (d brittle) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.crash(func() error { return d.DB.Write(ctx, f) })
}

var errCrash = errors.New("the process has died")

// undo runs a write and takes it back at the end.
type undo struct{ sqlstore.DB }

func (d undo) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		return errors.Join(f(ctx, tx), fmt.Errorf("%w: %w", errCrash, ledger.ErrUnavailable))
	})
}

func testFireCrash(t *testing.T, h Harness) {
	on := func(db sqlstore.DB) *sqlstore.Store {
		return sqlstore.New(db, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	}
	s := schedule(t, func(s *ledger.Schedule) { s.Missed = ledger.MissedAll })
	next := h.put(t, s).NextFire
	h.advanceTo(t, next.Add(2*time.Minute+time.Second))
	if fs, err := on(undo{h.DB}).FireDue(t.Context(), 0); !errors.Is(err, errCrash) || len(fs) != 0 {
		t.Fatalf("crash before the commit: %+v %v", fs, err)
	}
	if fires := h.firesOf(t, s.ID()); len(fires) != 0 || !h.schedule(t, s.ID()).NextFire.Equal(next) {
		t.Fatalf("after a rollback: %v", fires)
	}
	lost := brittle{h.DB, func(commit func() error) error {
		return errors.Join(commit(), fmt.Errorf("%w: %w", errCrash, ledger.ErrUnavailable))
	}}
	if fs, err := on(lost).FireDue(t.Context(), 0); !errors.Is(err, errCrash) || len(fs) != 0 {
		t.Fatalf("answer lost: %+v %v", fs, err)
	}
	if f := h.fire(t, s.ID()); f.Name != "" {
		t.Errorf("fired again: %+v", f)
	}
	if fires := h.firesOf(t, s.ID()); len(fires) != 3 {
		t.Errorf("fires: %v", fires)
	}
}

func testFireBackInTime(t *testing.T, h Harness) {
	s := schedule(t, func(s *ledger.Schedule) { s.Missed = ledger.MissedAll })
	next := h.put(t, s).NextFire
	h.advanceTo(t, next.Add(time.Minute+time.Second))
	before := h.fire(t, s.ID())
	s.Run.InputMAC = []byte("another input")
	h.put(t, s)
	h.sql(t, `UPDATE schedules SET next_at = $2, last_at = NULL, last_run = NULL WHERE tenant = $1`, s.Run.Tenant, next)
	after := h.fire(t, s.ID())
	if d := cmp.Diff(before, after); d != "" || len(h.firesOf(t, s.ID())) != 2 {
		t.Errorf("%v, %s", h.firesOf(t, s.ID()), d)
	}
}

func testFireRolledBack(t *testing.T, h Harness) {
	s := schedule(t)
	next := h.put(t, s).NextFire
	h.advanceTo(t, next.Add(time.Second))
	h.sql(t, `INSERT INTO rollbacks (one, reason, found_at) VALUES (1, 'restored', $1)`, next)
	if fs, err := h.Store.FireDue(t.Context(), 0); !errors.Is(err, ledger.ErrRolledBack) || len(h.firesOf(t, s.ID())) != 0 {
		t.Errorf("fired: %+v %v", fs, err)
	}
	h.sql(t, `DELETE FROM rollbacks`)
	h.Advance(2 * time.Second)
	if f := h.fire(t, s.ID()); len(f.Runs) != 1 {
		t.Errorf("afterwards: %+v", f)
	}
}

// testFiresProperty fires a schedule after outages of any length, and compares
// the runs with the rule, said again in other words.
func testFiresProperty(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedule(rt, func(s *ledger.Schedule) {
			s.Cron = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "30 * * * *", "15,45 1-3 * * *", "@daily", "0 9 * * 1-5"}).Draw(rt, "cron")
			s.TimeZone = rapid.SampledFrom([]string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"}).Draw(rt, "zone")
			s.Missed = rapid.SampledFrom([]ledger.MissedRule{ledger.MissedOnce, ledger.MissedSkip, ledger.MissedAll}).Draw(rt, "missed")
			s.Overlap = ledger.OverlapAllow
			s.CatchUp = rapid.IntRange(1, 6).Draw(rt, "catch up")
		})
		spec, err := ledger.ParseCron(s.Cron, s.TimeZone)
		if err != nil {
			rt.Fatal(err)
		}
		made := h.put(rt, s)
		since := made.CreatedAt
		var want []time.Time
		skipped := 0
		for range rapid.IntRange(1, 4).Draw(rt, "outages") {
			gap := time.Duration(rapid.IntRange(1, 120).Draw(rt, "gap")) * rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 20 * time.Minute}).Draw(rt, "unit")
			h.Advance(gap)
			early := h.now(rt)
			if rapid.Bool().Draw(rt, "together") {
				together(3, func(int) {
					if _, err := h.Store.FireDue(rt.Context(), 0); err != nil {
						rt.Error(err)
					}
				})
			} else {
				h.fire(rt, s.ID())
			}
			late := h.now(rt)
			var due []time.Time
			for f := spec.Next(since); !f.After(late); f = spec.Next(f) {
				if f.After(early) || f.Add(ledger.FireGrace).After(early) && !f.Add(ledger.FireGrace).After(late) {
					rt.Skip("the clock was between two answers")
				}
				due = append(due, f)
			}
			var runs []time.Time
			for i, f := range due {
				switch s.Missed {
				case ledger.MissedOnce:
					if i == len(due)-1 {
						runs = append(runs, f)
					}
				case ledger.MissedSkip:
					if late.Sub(f) <= ledger.FireGrace {
						runs = append(runs, f)
					}
				case ledger.MissedAll:
					if len(due)-i <= s.CatchUp {
						runs = append(runs, f)
					}
				}
			}
			want, skipped, since = append(want, runs...), skipped+len(due)-len(runs), late
		}
		got := h.firesOf(rt, s.ID())
		c := h.schedule(rt, s.ID())
		if !slices.EqualFunc(got, want, time.Time.Equal) || c.Skipped != int64(skipped) || !c.NextFire.Equal(spec.Next(since)) {
			rt.Errorf("%s %s, missed %s up to %d: runs of\n%v, want\n%v; skipped %d, want %d; next %s", s.Cron, s.TimeZone, s.Missed, s.CatchUp, got, want, c.Skipped, skipped, c.NextFire)
		}
		if err := h.Store.DeleteSchedule(rt.Context(), s.ID(), "ann", "done"); err != nil {
			rt.Fatal(err)
		}
	})
}

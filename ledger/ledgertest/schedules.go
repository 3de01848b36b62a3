package ledgertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

var scheduleTests = []conformance{
	{"a schedule comes back whole, and who made and changed it", testScheduleComesBack},
	{"what could not fire is refused", testScheduleRefused},
	{"a fire makes one run, which names schedule and fire", testFire},
	{"missed fires: once, skip, all", testMissed},
	{"a fire that is a little late is not missed", testLateIsNotMissed},
	{"a run that has not ended: skip, allow", testOverlap},
	{"a schedule that cannot fire holds up no other, and says why", testCannotFire},
	{"a client's run under the key of a fire is not taken for it", testForeignFireKey},
	{"a paused schedule fires nothing and makes up for nothing", testPausedSchedule},
	{"a deleted schedule fires nothing", testDeletedSchedule},
	{"many fire at once, and there is one run for each fire", testFireTogether},
	{"a crash before the commit, an answer lost after it", testFireCrash},
	{"a row that went back in time makes no second run", testFireBackInTime},
	{"nothing fires while the database is older than its journal", testFireRolledBack},
	{"runs are what the missed rule says, over any outages", testFiresProperty},
}

// schedule is one that fires every minute, of a tenant of its own.
func schedule(t tb, with ...func(*ledger.Schedule)) ledger.Schedule {
	t.Helper()
	s := ledger.Schedule{Name: "nightly", Cron: "* * * * *", Run: submission(t)}
	s.Run.Tenant, s.Run.ClientKey = s.Run.Queue, ""
	for _, f := range with {
		f(&s)
	}
	return s
}

func (h Harness) put(t tb, s ledger.Schedule) ledger.ScheduleState {
	t.Helper()
	c, err := h.Store.PutSchedule(t.Context(), s, "ann")
	if err != nil {
		t.Fatalf("put schedule: %v", err)
	}
	return c
}

func (h Harness) schedule(t tb, id ledger.ScheduleID) ledger.ScheduleState {
	t.Helper()
	cs, err := h.Store.Schedules(t.Context(), ledger.ScheduleFilter{Tenant: id.Tenant, Name: id.Name})
	if err != nil || len(cs) != 1 {
		t.Fatalf("schedule %s: %d, %v", id, len(cs), err)
	}
	return cs[0]
}

func (h Harness) now(t tb) (now time.Time) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) (err error) {
		now, err = tx.Now(ctx)
		return err
	})
	if err != nil {
		t.Fatalf("read the clock: %v", err)
	}
	return now
}

// advanceTo moves the clock to a moment that has not come.
func (h Harness) advanceTo(t tb, at time.Time) { t.Helper(); h.Advance(at.Sub(h.now(t))) }

// fire fires what is due of one schedule.
func (h Harness) fire(t tb, id ledger.ScheduleID) (f ledger.Fired) {
	t.Helper()
	fs, err := h.Store.FireDue(t.Context(), 0)
	if err != nil {
		t.Fatalf("fire: %v", err)
	}
	for _, one := range fs {
		if one.ScheduleID == id {
			f = one
		}
	}
	return f
}

// firesOf lists the fires that have a run, once for each run.
func (h Harness) firesOf(t tb, id ledger.ScheduleID) (fires []time.Time) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		rows, err := tx.Query(ctx, `SELECT client_key, schedule FROM runs WHERE tenant = $1 ORDER BY client_key`, id.Tenant)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r ledger.Run
			if err := rows.Scan(&r.ClientKey, &r.Schedule); err != nil {
				return err
			}
			fires = append(fires, ledger.FireOf(r))
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("read runs: %v", err)
	}
	return fires
}

// finishAll ends the runs of a tenant, as far as schedules see it.
func (h Harness) finishAll(t tb, id ledger.ScheduleID) {
	t.Helper()
	h.sql(t, `UPDATE runs SET state = 'finished', ended_at = created_at WHERE tenant = $1`, id.Tenant)
}

func testScheduleComesBack(t *testing.T, h Harness) {
	budget := events.PicoUSD(7)
	s := schedule(t, func(s *ledger.Schedule) {
		s.Cron, s.TimeZone, s.Missed, s.CatchUp = "30 2 * * *", "Europe/Berlin", ledger.MissedAll, 9
		s.Run.Owner, s.Run.Requires, s.Run.Priority, s.Run.ConcurrencyKey, s.Run.MaxAttempts, s.Run.Budget = "o", []string{"agent/clerk"}, 3, "k", 4, &budget
	})
	got := h.put(t, s)
	spec, err := ledger.ParseCron(s.Cron, s.TimeZone)
	if err != nil {
		t.Fatal(err)
	}
	if !got.NextFire.Equal(spec.Next(h.now(t))) || got.CreatedBy != "ann" || got.UpdatedBy != "ann" || got.CreatedAt.IsZero() {
		t.Errorf("made: %+v", got)
	}
	s.Overlap = ledger.OverlapAllow // the default with all
	read := h.schedule(t, s.ID())
	if d := cmp.Diff(s, read.Schedule, cmp.Comparer(func(a, b redact.JSON) bool { return string(a.Bytes()) == string(b.Bytes()) })); d != "" {
		t.Error(d)
	}
	h.sql(t, `UPDATE schedules SET error = 'x', error_at = next_at WHERE tenant = $1`, s.Run.Tenant)
	s.Run.Agent = "other"
	changed, err := h.Store.PutSchedule(t.Context(), s, "bob")
	if err != nil || !changed.NextFire.Equal(got.NextFire) || changed.CreatedBy != "ann" || changed.UpdatedBy != "bob" || changed.Run.Agent != "other" || changed.Error != "" || !changed.ErrorAt.IsZero() {
		t.Errorf("changed: %+v %v", changed, err)
	}
	s.Cron = "31 2 * * *"
	if moved := h.put(t, s); !moved.NextFire.Equal(got.NextFire.Add(time.Minute)) {
		t.Errorf("with another time: next fire %s", moved.NextFire)
	}
	acts, err := h.Store.Acts(t.Context(), "schedule", s.ID().String(), 0)
	if err != nil || len(acts) != 3 || acts[2].Verb != "make" || acts[1].Verb != "change" || !strings.HasPrefix(acts[1].By, "bob") {
		t.Errorf("acts: %+v %v", acts, err)
	}
	first := h.put(t, schedule(t, func(o *ledger.Schedule) { o.Run.Tenant, o.Name = s.Run.Tenant, "a-first" }))
	cs, err := h.Store.Schedules(t.Context(), ledger.ScheduleFilter{Tenant: s.Run.Tenant, Limit: 1})
	if err != nil || len(cs) != 1 || cs[0].Name != first.Name {
		t.Fatalf("first page: %+v %v", cs, err)
	}
	if cs, err = h.Store.Schedules(t.Context(), ledger.ScheduleFilter{Tenant: s.Run.Tenant, After: cs[0].ID()}); err != nil || len(cs) != 1 || cs[0].Name != s.Name {
		t.Errorf("second page: %+v %v", cs, err)
	}
}

func testScheduleRefused(t *testing.T, h Harness) {
	for want, spoil := range map[string]func(*ledger.Schedule){
		"64 letters":                     func(s *ledger.Schedule) { s.Name = "a b" },
		"want five fields":               func(s *ledger.Schedule) { s.Cron = "often" },
		"IANA database":                  func(s *ledger.Schedule) { s.TimeZone = "Berlin" },
		"once, skip or all":              func(s *ledger.Schedule) { s.Missed = "never" },
		"1 to 1000":                      func(s *ledger.Schedule) { s.CatchUp = 1001 },
		"skip or allow":                  func(s *ledger.Schedule) { s.Overlap = "queue" },
		"would make one run":             func(s *ledger.Schedule) { s.Missed, s.Overlap = ledger.MissedAll, ledger.OverlapSkip },
		"belong to one run":              func(s *ledger.Schedule) { s.Run.ClientKey = "k" },
		"no agent":                       func(s *ledger.Schedule) { s.Run.Agent = "" },
		"no input":                       func(s *ledger.Schedule) { s.Run.Input = redact.JSON{} },
		"no budget that is not negative": func(s *ledger.Schedule) { s.Run.Budget = new(events.PicoUSD); *s.Run.Budget = -1 },
	} {
		s := schedule(t, spoil)
		if _, err := h.Store.PutSchedule(t.Context(), s, "ann"); err == nil || errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := h.Store.PutSchedule(t.Context(), schedule(t), ""); err == nil {
		t.Error("nobody made a schedule")
	}
	if n := h.count(t, `SELECT count(*) FROM schedules`) + h.count(t, `SELECT count(*) FROM operator_acts`); n != 0 {
		t.Errorf("%d rows of what was refused", n)
	}
}

func testFire(t *testing.T, h Harness) {
	budget := events.PicoUSD(7)
	s := schedule(t, func(s *ledger.Schedule) {
		s.Run.Owner, s.Run.Requires, s.Run.Priority, s.Run.Budget = "o", []string{"agent/clerk"}, 3, &budget
	})
	c := h.put(t, s)
	if f := h.fire(t, s.ID()); f.Name != "" || !c.NextFire.After(c.CreatedAt) {
		t.Fatalf("before it is due: %+v", f)
	}
	h.advanceTo(t, c.NextFire.Add(time.Second))
	f := h.fire(t, s.ID())
	if len(f.Runs) != 1 || !f.Runs[0].Fire.Equal(c.NextFire) || f.Skipped != 0 || f.Queue != s.Run.Queue || f.Err != nil {
		t.Fatalf("fired: %+v", f)
	}
	r := h.state(t, f.Runs[0].Run)
	want := ledger.Run{
		ID: r.ID, Root: r.ID, Tenant: s.Run.Tenant, Queue: s.Run.Queue, Agent: "clerk", Owner: "o", Input: s.Run.Input.Bytes(), Requires: s.Run.Requires,
		ClientKey: "schedule/nightly@" + c.NextFire.Format(time.RFC3339), Schedule: "nightly", Priority: 3, State: ledger.Queued, Attempt: 1,
		Trace: r.Trace, CreatedAt: r.CreatedAt, DueAt: r.CreatedAt,
	}
	if d := cmp.Diff(want, r); d != "" || len(r.Trace) != 55 || !ledger.FireOf(r).Equal(c.NextFire) {
		t.Errorf("trace %q, fire %s, %s", r.Trace, ledger.FireOf(r), d)
	}
	if n := h.count(t, `SELECT count(*) FROM budgets WHERE kind = 'run' AND name = $1 AND limit_pico = 7`, r.ID.String()); n != 1 {
		t.Errorf("%d budgets of the run", n)
	}
	after := h.schedule(t, s.ID())
	if !after.LastFire.Equal(c.NextFire) || after.LastRun != r.ID || !after.NextFire.Equal(c.NextFire.Add(time.Minute)) || after.Skipped != 0 {
		t.Errorf("after the fire: %+v", after)
	}
	if f := h.fire(t, s.ID()); f.Name != "" {
		t.Errorf("fired again: %+v", f)
	}
	if got := ledger.FireOf(ledger.Run{Schedule: "nightly", ClientKey: r.ClientKey + "#attempt-2"}); !got.Equal(c.NextFire) {
		t.Errorf("fire of a retry: %s", got)
	}
	if got := ledger.FireOf(ledger.Run{Schedule: "other", ClientKey: r.ClientKey}); !got.IsZero() {
		t.Errorf("fire of another schedule's: %s", got)
	}
}

func testMissed(t *testing.T, h Harness) {
	for _, tt := range []struct {
		rule    ledger.MissedRule
		catchUp int
		fires   []int // of 1 to 3
		skipped int
	}{
		{ledger.MissedOnce, 0, []int{3}, 2},
		{ledger.MissedSkip, 0, nil, 3},
		{ledger.MissedAll, 0, []int{1, 2, 3}, 0},
		{ledger.MissedAll, 2, []int{2, 3}, 1},
	} {
		s := schedule(t, func(s *ledger.Schedule) { s.Missed, s.CatchUp = tt.rule, tt.catchUp })
		first := h.put(t, s).NextFire
		h.advanceTo(t, first.Add(2*time.Minute+ledger.FireGrace+5*time.Second))
		f := h.fire(t, s.ID())
		var want []time.Time
		for _, n := range tt.fires {
			want = append(want, first.Add(time.Duration(n-1)*time.Minute))
		}
		if got := h.firesOf(t, s.ID()); !slices.EqualFunc(got, want, time.Time.Equal) || f.Skipped != tt.skipped || (f.Why != "") != (tt.skipped > 0) {
			t.Errorf("%s: runs of %v, want %v; %+v", tt.rule, got, want, f)
		}
		c := h.schedule(t, s.ID())
		if c.Skipped != int64(tt.skipped) || c.SkippedWhy != f.Why || !c.NextFire.Equal(first.Add(3*time.Minute)) {
			t.Errorf("%s: %+v", tt.rule, c)
		}
		if err := h.Store.DeleteSchedule(t.Context(), s.ID(), "ann", "done"); err != nil {
			t.Fatal(err)
		}
	}
}

func testLateIsNotMissed(t *testing.T, h Harness) {
	s := schedule(t, func(s *ledger.Schedule) { s.Missed = ledger.MissedSkip })
	first := h.put(t, s).NextFire
	h.advanceTo(t, first.Add(time.Minute+ledger.FireGrace-10*time.Second))
	f := h.fire(t, s.ID())
	if len(f.Runs) != 1 || !f.Runs[0].Fire.Equal(first.Add(time.Minute)) || f.Skipped != 1 {
		t.Errorf("one missed, one a little late: %+v", f)
	}
}

func testOverlap(t *testing.T, h Harness) {
	skip := schedule(t)
	allow := schedule(t, func(s *ledger.Schedule) { s.Overlap = ledger.OverlapAllow })
	next := h.put(t, skip).NextFire
	h.put(t, allow)
	for range 3 {
		h.advanceTo(t, next.Add(2*time.Second))
		if _, err := h.Store.FireDue(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		next = next.Add(time.Minute)
	}
	if a, b := len(h.firesOf(t, skip.ID())), len(h.firesOf(t, allow.ID())); a != 1 || b != 3 {
		t.Fatalf("%d runs with skip, %d with allow; want 1 and 3", a, b)
	}
	c := h.schedule(t, skip.ID())
	if c.Skipped != 2 || !strings.Contains(c.SkippedWhy, c.LastRun.String()) || !strings.Contains(c.SkippedWhy, "queued") {
		t.Errorf("skipped: %+v", c)
	}
	h.finishAll(t, skip.ID())
	h.advanceTo(t, next.Add(2*time.Second))
	if f := h.fire(t, skip.ID()); len(f.Runs) != 1 {
		t.Errorf("after the run had ended: %+v", f)
	}
}

func testForeignFireKey(t *testing.T, h Harness) {
	s := schedule(t)
	next := h.put(t, s).NextFire
	theirs := submitWith(t, h, func(in *ledger.Submission) { in.Tenant, in.ClientKey = s.Run.Tenant, s.ID().FireKey(next) })
	h.advanceTo(t, next.Add(time.Second))
	if f := h.fire(t, s.ID()); f.Err == nil || len(f.Runs) != 0 {
		t.Errorf("fired: %+v", f)
	}
	if c := h.schedule(t, s.ID()); !strings.Contains(c.Error, theirs.ID.String()) || !c.LastRun.IsZero() {
		t.Errorf("it does not say which run is in its way: %+v", c)
	}
}

func testCannotFire(t *testing.T, h Harness) {
	s := schedule(t)
	bad, lost := schedule(t), schedule(t)
	next := h.put(t, bad).NextFire
	h.put(t, lost)
	h.put(t, s)
	h.sql(t, `UPDATE schedules SET timezone = 'Nowhere/City' WHERE tenant = $1`, bad.Run.Tenant)
	h.sql(t, `UPDATE schedules SET agent = '' WHERE tenant = $1`, lost.Run.Tenant)
	h.advanceTo(t, next.Add(time.Second))
	fs, err := h.Store.FireDue(t.Context(), 0)
	if err != nil || len(fs) != 3 {
		t.Fatalf("fired: %+v %v", fs, err)
	}
	for _, f := range fs {
		if good := f.ScheduleID == s.ID(); good != (f.Err == nil) || good != (len(f.Runs) == 1) {
			t.Errorf("fired: %+v", f)
		}
	}
	c := h.schedule(t, bad.ID())
	if !strings.Contains(c.Error, "Nowhere/City") || c.ErrorAt.IsZero() || !c.NextFire.Equal(next) {
		t.Errorf("what cannot fire: %+v", c)
	}
	if c := h.schedule(t, lost.ID()); !strings.Contains(c.Error, "no agent") {
		t.Errorf("what is refused: %+v", c)
	}
	if f := h.fire(t, bad.ID()); f.Name != "" {
		t.Errorf("tried again at once: %+v", f)
	}
	h.Advance(ledger.FireAgain)
	if f := h.fire(t, bad.ID()); f.Err == nil {
		t.Errorf("not tried again: %+v", f)
	}
	h.sql(t, `UPDATE schedules SET timezone = 'UTC' WHERE tenant = $1`, bad.Run.Tenant)
	if c := h.put(t, bad); c.Error != "" || !c.NextFire.Equal(next) {
		t.Errorf("put right: %+v", c)
	}
	if f := h.fire(t, bad.ID()); len(f.Runs) != 1 || f.Skipped != 1 {
		t.Errorf("what was due stays due: %+v", f)
	}
}

func testPausedSchedule(t *testing.T, h Harness) {
	s := schedule(t, func(s *ledger.Schedule) { s.Missed = ledger.MissedAll })
	next := h.put(t, s).NextFire
	p, done, err := h.Store.PauseSchedule(t.Context(), s.ID(), "ann", "holidays")
	if err != nil || !done || p.By != "ann" {
		t.Fatalf("pause: %+v %v %v", p, done, err)
	}
	if p, done, err := h.Store.PauseSchedule(t.Context(), s.ID(), "bob", "me too"); err != nil || done || p.Reason != "holidays" {
		t.Errorf("second pause: %+v %v %v; the first stands", p, done, err)
	}
	h.advanceTo(t, next.Add(10*time.Minute+time.Second))
	if f := h.fire(t, s.ID()); f.Name != "" {
		t.Errorf("fired while paused: %+v", f)
	}
	if c := h.put(t, s); c.Paused.By != "ann" {
		t.Errorf("a change ended the pause: %+v", c)
	}
	c, err := h.Store.ResumeSchedule(t.Context(), s.ID(), "bob", "back")
	if err != nil || !c.Paused.At.IsZero() || !c.NextFire.Equal(next.Add(11*time.Minute)) {
		t.Errorf("resumed: %+v %v", c, err)
	}
	if f := h.fire(t, s.ID()); f.Name != "" {
		t.Errorf("made up for a pause: %+v", f)
	}
	h.advanceTo(t, c.NextFire.Add(time.Second))
	if f := h.fire(t, s.ID()); len(f.Runs) != 1 {
		t.Errorf("after the resume: %+v", f)
	}
	if _, err := h.Store.ResumeSchedule(t.Context(), s.ID(), "bob", "again"); !errors.Is(err, ledger.ErrNotPaused) {
		t.Errorf("resume of what is not paused: %v", err)
	}
	none := ledger.ScheduleID{Tenant: s.Run.Tenant, Name: "none"}
	_, _, perr := h.Store.PauseSchedule(t.Context(), none, "ann", "x")
	_, rerr := h.Store.ResumeSchedule(t.Context(), none, "ann", "x")
	derr := h.Store.DeleteSchedule(t.Context(), none, "ann", "x")
	for _, err := range []error{perr, rerr, derr} {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("of no schedule: %v", err)
		}
	}
	if _, _, err := h.Store.PauseSchedule(t.Context(), s.ID(), "ann", ""); err == nil {
		t.Error("paused without a reason")
	}
}

func testDeletedSchedule(t *testing.T, h Harness) {
	s := schedule(t)
	next := h.put(t, s).NextFire
	h.advanceTo(t, next.Add(time.Second))
	run := h.fire(t, s.ID()).Runs[0].Run
	if err := h.Store.DeleteSchedule(t.Context(), s.ID(), "ann", "no longer needed"); err != nil {
		t.Fatal(err)
	}
	h.Advance(time.Hour)
	if f := h.fire(t, s.ID()); f.Name != "" || h.state(t, run).State != ledger.Queued {
		t.Errorf("after the deletion: %+v", f)
	}
	acts, err := h.Store.Acts(t.Context(), "schedule", s.ID().String(), 0)
	if err != nil || len(acts) != 2 || acts[0].Verb != "delete" || acts[0].Detail != "no longer needed" {
		t.Errorf("acts: %+v %v", acts, err)
	}
}

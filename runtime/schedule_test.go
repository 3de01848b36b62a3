package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
)

// put makes an hourly schedule, so that the clock of a busy machine does not
// come to a fire that the test has not asked for.
func (w *world) put(name string, with func(*runtime.Schedule)) ledger.ScheduleState {
	w.t.Helper()
	s := runtime.Schedule{Name: name, Cron: "0 * * * *", Run: runtime.Submit{Agent: "tester", Input: "go"}}
	if with != nil {
		with(&s)
	}
	c, err := w.client().PutSchedule(w.t.Context(), s, "ann")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) schedule(id ledger.ScheduleID) ledger.ScheduleState {
	w.t.Helper()
	cs, err := w.client().Schedules(w.t.Context(), ledger.ScheduleFilter{Tenant: id.Tenant, Name: id.Name})
	if err != nil || len(cs) != 1 {
		w.t.Fatalf("schedule %s: %d, %v", id, len(cs), err)
	}
	return cs[0]
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) }

// runsOf lists the runs of a schedule, oldest first.
func (w *world) runsOf(name string) (rs []ledger.Run) {
	w.t.Helper()
	all, err := w.store.Summaries(context.Background(), ledger.RunFilter{Limit: 200})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range slices.Backward(all) {
		if s.Schedule == name {
			rs = append(rs, s.Run)
		}
	}
	return rs
}

func TestScheduleMakesARunThatFinishes(t *testing.T) {
	w := newWorld(t, scripted.Script(finish))
	due := w.put("nightly", func(s *runtime.Schedule) { s.Run.Owner, s.Run.Priority = "u-1", 3 })
	w.start()
	w.advance(due.NextFire.Sub(w.now()))
	w.until("the schedule fires", func() bool { return !w.schedule(due.ID()).LastRun.IsZero() })
	r := w.wait(w.schedule(due.ID()).LastRun, false)
	if r.State != ledger.Finished || r.Schedule != "nightly" || !ledger.FireOf(r).Equal(due.NextFire) || r.Owner != "u-1" {
		t.Errorf("run = %+v", r)
	}
	if q := last[events.RunQueued](w, r.ID); q.Schedule != "nightly" || q.ClientKey != due.ID().FireKey(due.NextFire) {
		t.Errorf("queued = %+v", q)
	}
	w.whole()
}

// A worker is down over three fires.
func TestMissedFires(t *testing.T) {
	w := newWorld(t, scripted.Script(finish, finish, finish, finish))
	want := map[ledger.MissedRule]int{ledger.MissedOnce: 1, ledger.MissedSkip: 0, ledger.MissedAll: 3}
	var first time.Time
	for rule := range want {
		first = w.put(string(rule), func(s *runtime.Schedule) { s.Missed = rule }).NextFire
	}
	w.start().stop(t) // it was there, and nothing was due
	w.advance(first.Add(2*time.Hour + time.Minute).Sub(w.now()))
	w.start()
	for rule, n := range want {
		w.until("the schedule moves on", func() bool {
			return w.schedule(ledger.ScheduleID{Tenant: "default", Name: string(rule)}).NextFire.Equal(first.Add(3 * time.Hour))
		})
		rs := w.runsOf(string(rule))
		if len(rs) != n {
			t.Errorf("missed %s: %d runs, want %d", rule, len(rs), n)
		}
		for i, r := range rs {
			if r = w.wait(r.ID, false); r.State != ledger.Finished || !ledger.FireOf(r).Equal(first.Add(time.Duration(3-n+i)*time.Hour)) {
				t.Errorf("missed %s, run %d: %s of %s", rule, i, r.State, ledger.FireOf(r))
			}
		}
	}
	w.whole()
}

func TestPutScheduleSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t, scripted.Script(finish))
	for want, spoil := range map[string]func(*runtime.Schedule){
		"want five fields":    func(s *runtime.Schedule) { s.Cron = "hourly" },
		"agent is empty":      func(s *runtime.Schedule) { s.Run.Agent = "" },
		"input is missing":    func(s *runtime.Schedule) { s.Run.Input = nil },
		"store large values":  func(s *runtime.Schedule) { s.Run.Input = strings.Repeat("x", events.MaxDataBytes) },
		"belong to one run":   func(s *runtime.Schedule) { s.Run.ClientKey = "k" },
		`tenant "a.b"`:        func(s *runtime.Schedule) { s.Run.Tenant = "a.b" },
		"want 0 (as the agen": func(s *runtime.Schedule) { s.Run.MaxAttempts = -1 },
	} {
		s := runtime.Schedule{Name: "n", Cron: "@hourly", Run: runtime.Submit{Agent: "tester", Input: "go"}}
		spoil(&s)
		_, err := w.client().PutSchedule(t.Context(), s, "ann")
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, runtime.ErrInvalidSubmit) && !errors.Is(err, ledger.ErrInvalidSchedule) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// clockwork is a ledger of schedules alone, that says when it was asked.
type clockwork struct {
	runtime.Ledger
	mu     sync.Mutex
	asked  []time.Duration
	began  time.Time
	answer func(n int) ([]ledger.Fired, error)
}

func (c *clockwork) Claim(context.Context, ledger.ClaimRequest) ([]ledger.Claim, error) {
	return nil, nil
}

func (c *clockwork) FireDue(context.Context, int) ([]ledger.Fired, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, time.Since(c.began))
	return c.answer(len(c.asked))
}

// wakes notes which queues were woken.
type wakes struct{ queues []string }

func (w *wakes) Wake(queue string)                             { w.queues = append(w.queues, queue) }
func (*wakes) Hints([]string) (<-chan struct{}, func(), error) { return nil, func() {}, nil }

// TestWhenSchedulesAreLookedAt: with every sweep, later while the database is
// away, and not any more once the worker ends.
func TestWhenSchedulesAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away: hunter2-hunter2")
		c := &clockwork{began: time.Now(), answer: func(n int) ([]ledger.Fired, error) {
			one := ledger.Fired{ScheduleID: ledger.ScheduleID{Tenant: "acme", Name: "nightly"}, Queue: "q", Runs: []ledger.FiredRun{{}}}
			switch n {
			case 2:
				return []ledger.Fired{one, {ScheduleID: one.ScheduleID, Queue: "other", Err: away}}, nil
			case 3, 4, 5:
				return nil, away
			}
			return nil, nil
		}}
		red := redact.New(redact.Config{})
		if err := red.Register("password", "hunter2-hunter2"); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		hints := new(wakes)
		w, err := runtime.NewWorker(runtime.Config{
			Name: "w", Ledger: c, Journal: struct{ events.Journal }{}, CatchUp: func(context.Context, string) error { return nil }, Redactor: red,
			Agents: []*agents.Agent{{Name: "a", Model: "m", Loop: "singleshot"}}, Models: map[string]model.Model{"m": scripted.Script(finish)},
			Waker: hints, Sweep: 100 * time.Millisecond, Random: func() float64 { return 0 }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(1100 * time.Millisecond)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// Away at 200 ms: again after 100 ms (no less than a sweep), 100 ms, 200 ms; then with each sweep.
		want := []time.Duration{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}
		for i := range want {
			want[i] *= 100 * time.Millisecond
		}
		if d := cmp.Diff(want[:10], c.asked[:10]); d != "" || len(c.asked) > len(want) {
			t.Error(d, len(c.asked))
		}
		if !slices.Equal(hints.queues, []string{"q"}) {
			t.Errorf("woken: %q", hints.queues)
		}
		if s := log.String(); strings.Contains(s, "hunter2") || !strings.Contains(s, "cannot fire") || !strings.Contains(s, "schedule=acme/nightly") {
			t.Errorf("log: %s", s)
		}
	})
}

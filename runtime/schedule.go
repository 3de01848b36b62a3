package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// Schedule submits a run at the times of a cron expression. Name, Cron, and of
// Run Agent and Input are required.
type Schedule struct {
	// Name is the tenant's own: 1 to 64 letters, digits, dots, - and _.
	Name string
	// Cron has five fields or is @daily and the like, on the clocks of TimeZone, a
	// name of the IANA database; default UTC. See [ledger.Cron] for what happens
	// where the clocks change.
	Cron, TimeZone string
	// Missed says what becomes of fires that nobody made in time; default once.
	Missed ledger.MissedRule
	// CatchUp is how many fires missed all makes up for at most; default 100.
	CatchUp int
	// Overlap says what a fire does while a run of an earlier one has not ended;
	// default skip, and with missed all allow.
	Overlap ledger.OverlapRule
	// Run is what each fire submits. ClientKey, SessionID, DueAt, Deadline, Trace,
	// Loop, Prompt, NoLayers and Skills belong to one run and stay empty.
	Run Submit
}

// PutSchedule makes a schedule or changes the one of that name. Workers fire it;
// each fire makes at most one run. by is the authenticated caller. Errors:
// [ErrInvalidSubmit], [ledger.ErrInvalidSchedule], [ledger.ErrUnavailable].
func (c *Client) PutSchedule(ctx context.Context, s Schedule, by string) (ledger.ScheduleState, error) {
	in := s.Run
	def(&in.Tenant, "default")
	def(&in.Queue, "default")
	made := ledger.Schedule{
		Name: s.Name, Cron: s.Cron, TimeZone: s.TimeZone, Missed: s.Missed, CatchUp: s.CatchUp, Overlap: s.Overlap,
		Run: ledger.Submission{ClientKey: in.ClientKey, SessionID: in.SessionID, DueAt: in.DueAt, Deadline: in.Deadline, Trace: in.Trace},
	}
	if _, err := made.Check(); err != nil {
		return ledger.ScheduleState{}, err
	}
	in.ClientKey = made.ID().FireKey(time.Time{}) // each fire has its own
	if !in.Loop.IsZero() {
		return ledger.ScheduleState{}, fmt.Errorf("%w: loop: runs of a schedule work by their agent's; give it to the agent", ErrInvalidSubmit)
	}
	if !in.asked().isZero() {
		return ledger.ScheduleState{}, fmt.Errorf("%w: prompt, layers and skills: runs of a schedule have their agent's; give them to the agent", ErrInvalidSubmit)
	}
	if err := in.check(); err != nil {
		return ledger.ScheduleState{}, err
	}
	var err error
	if made.Run, err = c.submission(ctx, in); err != nil {
		return ledger.ScheduleState{}, err
	}
	made.Run.ClientKey = ""
	return c.ledger.PutSchedule(ctx, made, by)
}

// Schedules lists schedules by tenant and name.
func (c *Client) Schedules(ctx context.Context, f ledger.ScheduleFilter) ([]ledger.ScheduleState, error) {
	return c.ledger.Schedules(ctx, f)
}

// PauseSchedule stops the fires of a schedule; its runs go on. done is false if
// it was paused before; that pause stands. Error: [ledger.ErrNotFound].
func (c *Client) PauseSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) (p ledger.Pause, done bool, err error) {
	return c.ledger.PauseSchedule(ctx, id, by, reason)
}

// ResumeSchedule lets a paused schedule fire again; what it would have fired
// meanwhile is not made up for. Errors: [ledger.ErrNotFound], [ledger.ErrNotPaused].
func (c *Client) ResumeSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) (ledger.ScheduleState, error) {
	return c.ledger.ResumeSchedule(ctx, id, by, reason)
}

// DeleteSchedule ends a schedule; its runs go on. Error: [ledger.ErrNotFound].
func (c *Client) DeleteSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) error {
	return c.ledger.DeleteSchedule(ctx, id, by, reason)
}

// fires fires the schedules that are due, until ctx ends. Every worker does: the
// database sees to it that each fire makes one run.
func (w *Worker) fires(ctx context.Context) {
	failures := 0
	for wait := time.Duration(0); sleep(ctx, wait) == nil; {
		fired, err := w.cfg.Ledger.FireDue(ctx, 0)
		for _, f := range fired {
			w.fired(f)
		}
		if wait = w.cfg.Sweep; err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		wait = max(wait, backoff(failures, w.cfg.Random))
		w.log.Warn("cannot fire schedules, trying again", "in", wait, "error", w.cfg.Redactor.Error(err))
	}
}

// fired tells what came of a schedule, and the workers that it made work.
func (w *Worker) fired(f ledger.Fired) {
	log := w.log.With("schedule", f.ScheduleID.String())
	for _, r := range f.Runs {
		log.Info("schedule fired", "fire", r.Fire, "run", r.Run)
	}
	if f.Skipped > 0 {
		log.Warn("fires of a schedule made no run of their own", "fires", f.Skipped, "why", f.Why)
	}
	if f.Err != nil {
		log.Error("a schedule cannot fire; it is tried again", "in", ledger.FireAgain, "error", w.cfg.Redactor.Error(f.Err))
	}
	if len(f.Runs) > 0 && w.cfg.Waker != nil {
		w.cfg.Waker.Wake(f.Queue)
	}
}

package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
)

// backoff is the wait before the database is asked again: 50 ms, doubling to
// 1 s, less up to a half at random so that workers don't come back together.
func backoff(attempt int, random func() float64) time.Duration {
	d := min(50*time.Millisecond<<min(attempt-1, 5), time.Second)
	return d - time.Duration(random()*float64(d/2))
}

// transient reports whether trying again may help.
func transient(err error) bool {
	return !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrSchema) &&
		!errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrHash)
}

// work is the life of a session: open, step until the run parks or ends, leave.
func (s *session) work() {
	defer s.local.stop()
	defer s.closeLoop()
	go s.pump()
	err := s.guard(func() error { return s.steps() })
	if err != nil {
		cause := err
		err = s.guard(func() error { return s.unworkable(s.ctx, cause) })
	}
	if cause := context.Cause(s.ctx); err != nil && errors.Is(err, context.Canceled) && cause != nil {
		err = cause // why the context ended says more than that it did
	}
	s.stop(nil)
	<-s.pumpDone
	switch {
	case err == nil:
		s.w.lapses.held()
	case errors.Is(err, ledger.ErrFenced), errors.Is(err, errLeaseLost):
		s.w.lapses.lapsed(s.w.cfg.Now(), s.w.cfg.Random)
		s.log.Info("left the run to another worker", "reason", s.w.cfg.Redactor.Error(err))
	case errors.Is(err, errShutdown):
		s.log.Info("cut off at shutdown; the run is taken over when its lease ends")
	default:
		s.log.Error("run left as it is; it is taken over when its lease ends", "error", s.w.cfg.Redactor.Error(err))
	}
}

// guard turns a panic into an error: one broken run does not take the worker along.
func (s *session) guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while working on run %s: %v", s.run.ID, v)
			s.log.Error("panic", "value", s.w.cfg.Redactor.String(fmt.Sprint(v)), "stack", s.w.cfg.Redactor.String(string(debug.Stack())))
		}
	}()
	return f()
}

// errLeft says that the session gave the run back: parked, ended or handed over.
var errLeft = errors.New("left")

func (s *session) steps() error {
	ctx := s.ctx
	if err := s.open(ctx); err != nil {
		return err
	}
	if s.claim.Kind == ledger.ClaimSettle {
		return s.settle(ctx)
	}
	if d := s.deadline(); !d.IsZero() {
		t := time.AfterFunc(d.Sub(s.w.cfg.Now()), func() { s.stop(errDeadline) })
		defer t.Stop()
	}
	bound := false
	for {
		err := s.adoptPending(true)
		if err == nil {
			bound, err = s.next(ctx, bound)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLeft):
			return nil
		}
		if cause := context.Cause(s.ctx); cause != nil {
			// The session's own end matters more than what it broke underneath.
			if errors.Is(cause, errCancelled) || errors.Is(cause, errDeadline) {
				return s.endEarly(cause)
			}
			return cause
		}
		if errors.Is(err, ledger.ErrFactsPending) {
			if err := s.flush(ctx); err != nil {
				return err
			}
			continue
		}
		return err
	}
}

// deadline is the run's own, else the one that its agent gives every run; zero for none.
func (s *session) deadline() time.Time {
	if !s.run.Deadline.IsZero() {
		return s.run.Deadline
	}
	a := s.w.agents[s.run.Agent]
	return a.Deadline(s.run.CreatedAt)
}

// next does one step.
func (s *session) next(ctx context.Context, bound bool) (bool, error) {
	if t, ended := s.hist.Terminal(); ended {
		return bound, s.finish(ctx, t)
	}
	if err := ctx.Err(); err != nil {
		return bound, context.Cause(ctx)
	}
	if s.run.State == ledger.Cancelling || s.cancelRequested() {
		return bound, s.recordCancelled(ctx)
	}
	if s.unfit != nil {
		return bound, s.end(ctx, *s.unfit)
	}
	if lacks := s.w.lacks(s.run.Requires); lacks != "" {
		// It was taken for the facts that came in, which any worker may number.
		return bound, s.park(ctx, events.RunParked{Reason: events.ParkNoCapableWorker, Detail: "needs a worker with " + lacks}, 0)
	}
	if h := s.heldBack(); !h.At.IsZero() {
		return bound, s.parkHeld(ctx, h)
	}
	if !bound {
		if err := s.bind(ctx); err != nil {
			return false, err
		}
		if _, ended := s.hist.Terminal(); ended {
			return false, nil // before its first turn
		}
	}
	if s.handingOver() {
		return true, s.park(ctx, events.RunParked{Reason: events.ParkHandover, Detail: "worker " + s.w.cfg.Name + " shut down"}, 0)
	}
	if done, err := s.settleDoubts(ctx); !done || err != nil {
		return true, err
	}
	if done, err := s.tellSettled(ctx); !done || err != nil {
		return true, err
	}
	if done, err := s.awaitHandedOff(ctx); !done || err != nil {
		return true, err
	}
	step, err := s.decide(ctx)
	switch diverged := (*loops.DivergedError)(nil); {
	case err != nil && ctx.Err() != nil:
		return true, context.Cause(ctx)
	case errors.As(err, &diverged):
		s.log.Error("the code of the run's script is not the one that made its history", "error", s.w.cfg.Redactor.Error(err))
		return true, s.park(ctx, events.RunParked{Reason: events.ParkDiverged, Detail: cut(s.w.cfg.Redactor.Error(err).Error(), maxDetail)}, divergedRecheck)
	case err != nil:
		return true, s.end(ctx, events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: "loop", Message: err.Error()}, Turns: s.hist.Turns()})
	}
	switch step := step.(type) {
	case loops.CallModel:
		return true, s.callModel(ctx, step)
	case loops.CallTools:
		return true, s.callTools(ctx, step)
	case loops.Plan:
		return true, s.plan(ctx, step)
	case loops.CheckArtifact:
		return true, s.checkArtifact(ctx, step)
	case loops.ReviseArtifact:
		return true, s.reviseArtifact(ctx, step)
	case loops.AcceptArtifact:
		return true, s.Record(ctx, step.Artifact)
	case loops.RejectArtifact:
		return true, s.Record(ctx, step.Artifact)
	case loops.Await:
		return true, s.await(ctx, step)
	case loops.Stop:
		if step.By == events.StoppedByCancelled {
			return true, s.recordCancelled(ctx)
		}
		return true, s.end(ctx, s.fitting(ctx, stopEvent(step, s.hist.Turns())))
	default:
		return true, s.end(ctx, events.RunFailed{
			StoppedBy: events.StoppedByError, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: "unknown_step", Message: fmt.Sprintf("loop %q asked for a step %T that this runtime cannot perform", s.loop.Name(), step)},
		})
	}
}

// decide asks the loop; a panicking loop is a failed run, not a failed worker. The
// code of a script runs meanwhile, which nobody may record under.
func (s *session) decide(ctx context.Context) (step loops.Step, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("loop %q panicked: %v", s.loop.Name(), v)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.decider != nil {
		return s.decider.Next(ctx, s.hist)
	}
	return s.loop.Next(s.hist)
}

func stopEvent(st loops.Stop, turns int) events.Payload {
	if st.Err != nil {
		return events.RunFailed{StoppedBy: st.By, Error: *st.Err, Turns: turns}
	}
	return events.RunFinished{StoppedBy: st.By, Output: st.Output, DeclinedBecause: st.DeclinedBecause, Turns: turns}
}

// cancelRequested reports whether a heartbeat or the history says so: a barrier
// that is refused because of it can be well ahead of the next heartbeat.
func (s *session) cancelRequested() bool {
	s.mu.Lock()
	asked := s.hist.CancelRequested() != nil
	s.mu.Unlock()
	s.in.Lock()
	defer s.in.Unlock()
	return asked || s.cancelReq != nil
}

// end appends a terminal event; the next step finishes the run.
func (s *session) end(ctx context.Context, p events.Payload) error {
	err := s.Record(ctx, p)
	if errors.Is(err, events.ErrTooLarge) {
		// The answer stands in the transcript; the end of the run does not need it twice.
		err = s.Record(ctx, events.RunFailed{
			StoppedBy: events.StoppedByError, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: "output_too_large", Message: err.Error()},
		})
	}
	fault.Point("finish.after_record")
	return err
}

// endEarly ends a run whose session was stopped by a cancel or the deadline.
// The lease is still held, so it works under a context of its own.
func (s *session) endEarly(cause error) error {
	ctx, stop := context.WithDeadlineCause(s.w.life, s.local.end(), errLeaseLost)
	defer stop()
	if _, ended := s.hist.Terminal(); !ended {
		var err error
		if errors.Is(cause, errDeadline) {
			err = s.end(ctx, events.RunFailed{
				StoppedBy: events.StoppedByDeadline, Turns: s.hist.Turns(),
				Error: events.ErrorInfo{Kind: "deadline", Message: "the run's deadline " + s.deadline().UTC().Format(time.RFC3339) + " passed"},
			})
		} else {
			err = s.recordCancelled(ctx)
		}
		if err != nil {
			return err
		}
	}
	t, _ := s.hist.Terminal()
	if err := s.finish(ctx, t); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

func (s *session) recordCancelled(ctx context.Context) error {
	by, reason := s.run.CancelBy, s.run.CancelReason
	s.in.Lock()
	if s.cancelReq != nil {
		by, reason = s.cancelReq.CancelBy, s.cancelReq.CancelReason
	}
	s.in.Unlock()
	// The operator's fact goes first: it is why the run ends.
	if err := s.adoptPending(true); err != nil {
		return err
	}
	s.mu.Lock()
	if c := s.hist.CancelRequested(); c != nil {
		by, reason = c.By, c.Detail
	}
	s.mu.Unlock()
	return s.Record(ctx, events.RunCancelled{By: by, Reason: reason, Turns: s.hist.Turns()})
}

// finish carries a terminal event into the runs row; doing it again changes nothing.
func (s *session) finish(ctx context.Context, t events.Type) error {
	end := ledger.Ending{State: ledger.Finished}
	switch e := s.terminal.(type) {
	case events.RunFinished:
		end.StoppedBy, end.Result = e.StoppedBy, e.Output
		if row := (ledger.Run{StoppedBy: e.StoppedBy, Result: e.Output}); row.DeclinedBecause() != e.DeclinedBecause {
			end.Result = declinedResult(e)
		}
	case events.RunFailed:
		end.State, end.StoppedBy, end.Error = ledger.Failed, e.StoppedBy, e.Error.Message
		end.Retry = s.retryPolicy()
	case events.RunCancelled:
		end.State, end.StoppedBy = ledger.Cancelled, events.StoppedByCancelled
	default:
		return fmt.Errorf("finish run %s: %s is not a terminal event", s.run.ID, t)
	}
	var err error
	if end.Answer, err = s.answer(ctx, end); err != nil {
		return fmt.Errorf("finish run %s: %w", s.run.ID, err)
	}
	end.Own = s.taintedBy() == ""
	err = s.barrier(ctx, "finish", func(p ledger.Prefix) error { return s.w.cfg.Ledger.Finish(ctx, s.lease, p, end) })
	if err != nil {
		return fmt.Errorf("finish run %s: %w", s.run.ID, err)
	}
	fault.Point("finish.after_commit")
	s.log.Info("run ended", "state", string(end.State), "stopped_by", string(end.StoppedBy))
	return errLeft
}

// declinedResult is a result that [ledger.Run.DeclinedBecause] reads the reason from.
func declinedResult(e events.RunFinished) json.RawMessage {
	b, _ := json.Marshal(struct { // text and JSON always encode
		Because string          `json:"declined_because"`
		Output  json.RawMessage `json:"output,omitempty"`
	}{e.DeclinedBecause, e.Output})
	return b
}

// settle appends facts behind the end of a run.
func (s *session) settle(ctx context.Context) error {
	if _, ended := s.hist.Terminal(); !ended {
		return fmt.Errorf("settle run %s: its history has no terminal event", s.run.ID)
	}
	fault.Point("settle.after_record")
	if err := s.flush(ctx); err != nil {
		return err
	}
	return s.barrier(ctx, "release", func(p ledger.Prefix) error { return s.w.cfg.Ledger.Release(ctx, s.lease, p) })
}

// park records what the run waits for and gives it back.
func (s *session) park(ctx context.Context, p events.RunParked, after time.Duration) error {
	return s.parkFor(ctx, p, after, ledger.Parking{})
}

// parkFor is park for something that the event does not name by an op key.
func (s *session) parkFor(ctx context.Context, p events.RunParked, after time.Duration, what ledger.Parking) error {
	if d := s.deadline(); !d.IsZero() && p.Reason != events.ParkHandover && (p.Reason != events.ParkNoCapableWorker || after > 0) {
		// A run that waits is ended in time too.
		if left := max(d.Sub(s.w.cfg.Now()), time.Millisecond); after <= 0 || left < after {
			after = left
		}
	}
	if after > 0 {
		if until := events.Timestamp(s.w.cfg.Now().Add(after)); p.Until.IsZero() || until.Before(p.Until) {
			p.Until = until
		}
	}
	if err := s.Record(ctx, p); err != nil {
		return err
	}
	what.Reason, what.Detail, what.OpKey, what.After = p.Reason, p.Detail, p.OpKey, after
	what.Held = p.Reason == events.ParkPaused && p.Call == nil
	err := s.barrier(ctx, "park", func(pre ledger.Prefix) error { return s.w.cfg.Ledger.Park(ctx, s.lease, pre, what) })
	if errors.Is(err, ledger.ErrFactsPending) {
		// What the run would wait for has come already: go on instead.
		if ferr := s.flush(ctx); ferr != nil {
			return ferr
		}
		return s.Record(ctx, events.RunUnparked{Reason: p.Reason, Detail: "came in while parking", OpKey: p.OpKey})
	}
	if err != nil {
		return fmt.Errorf("park run %s: %w", s.run.ID, err)
	}
	s.log.Info("run parked", "reason", string(p.Reason), "detail", s.w.cfg.Redactor.String(p.Detail))
	return errLeft
}

func (s *session) await(ctx context.Context, a loops.Await) error {
	var after time.Duration
	if !a.Until.IsZero() {
		after = max(a.Until.Sub(s.w.cfg.Now()), time.Millisecond)
	}
	return s.park(ctx, events.RunParked{Reason: a.Reason, Detail: a.Detail}, after)
}

// unworkable parks a run that this worker cannot go on with, so that it is
// neither lost nor spun on, and anybody can see why it stands still. The error
// is returned if the run cannot be parked: then it is taken over in time.
func (s *session) unworkable(ctx context.Context, err error) error {
	s.mu.Lock()
	seq := s.hist.Seq()
	_, ended := s.hist.Terminal()
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil, errors.Is(err, ledger.ErrFenced), errors.Is(err, events.ErrJournalClosed), errors.Is(err, errFact):
		return err
	case !s.ready.Load() && (errors.Is(err, errUnworkable) || errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrHash)):
		// Its history cannot be read, so nothing may be appended to it.
		return s.unreadable(ctx, err)
	case !s.ready.Load(), seq == 0:
		return err
	case ended: // nothing but facts follows a terminal event
		return err
	}
	s.log.Error("cannot continue the run here", "error", s.w.cfg.Redactor.Error(err))
	if perr := s.park(ctx, events.RunParked{Reason: events.ParkNoCapableWorker, Detail: cut(s.w.cfg.Redactor.Error(err).Error(), maxDetail)}, time.Minute); !errors.Is(perr, errLeft) {
		return errors.Join(err, perr)
	}
	return nil
}

// maxDetail bounds what an error adds to an event. It is redacted before it is
// cut: half a secret is nothing that a redactor knows.
const maxDetail = 4 << 10

// unreadable notes in the run's row that this build cannot read its history:
// the run is tried again later and later, and everybody can see why.
func (s *session) unreadable(ctx context.Context, err error) error {
	s.log.Error("cannot read the run's history; it is tried again later, by whoever can", "error", s.w.cfg.Redactor.Error(err))
	merr := s.retry(ctx, "mark as unreadable", func() error {
		return s.w.cfg.Ledger.MarkUnreadable(ctx, s.lease, cut(s.w.cfg.Redactor.Error(err).Error(), maxDetail))
	})
	if merr != nil {
		return errors.Join(err, merr)
	}
	return nil
}

package sqlstore

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
)

// runColumns are what scanRun reads, of table runs under the name r.
const runColumns = `r.id, r.root_id, r.parent_id, r.tenant, r.queue, r.agent, r.owner, r.session_id, r.client_key, r.input,
	r.requires, r.priority, r.trace, r.created_at, r.due_at, r.deadline_at, r.state, r.park_reason, r.park_detail, r.park_key,
	r.wake_at, r.parked_at, r.epoch, r.worker, r.lease_until, r.cancel_by, r.cancel_reason, r.stopped_by, r.result, r.error, r.ended_at,
	r.concurrency_key, r.started_at, r.attempt, r.max_attempts, r.retry_of, r.successor, r.dead_at, r.held_by, r.held_reason, r.held_at,
	r.schedule, r.fork_of, r.fork_seq, r.fork_effects, r.cancel_at, r.unreadable, r.loop, r.guard, r.prompt,
	r.session_place, r.behind_at, r.continues_run, r.continues_seq, r.continues_hash`

// scanRun reads runColumns and then extra.
func scanRun(row Row, extra ...any) (r ledger.Run, err error) {
	dest := append([]any{
		&r.ID, &r.Root, &r.Parent, &r.Tenant, &r.Queue, &r.Agent, &r.Owner, &r.SessionID, &r.ClientKey, &r.Input,
		&r.Requires, &r.Priority, &r.Trace, &r.CreatedAt, &r.DueAt, &r.Deadline, &r.State, &r.ParkReason, &r.ParkDetail, &r.ParkKey,
		&r.WakeAt, &r.ParkedAt, &r.Epoch, &r.Worker, &r.LeaseUntil, &r.CancelBy, &r.CancelReason, &r.StoppedBy, &r.Result, &r.Error, &r.EndedAt,
		&r.ConcurrencyKey, &r.StartedAt, &r.Attempt, &r.MaxAttempts, &r.RetryOf, &r.Successor, &r.DeadAt, &r.HeldBy, &r.HeldReason, &r.HeldAt,
		&r.Schedule, &r.ForkOf, &r.ForkSeq, &r.ForkEffects, &r.CancelAt, &r.Unreadable, &r.Loop, &r.Guard, &r.Prompt,
		&r.SessionPlace, &r.BehindAt, &r.Continues.Run, &r.Continues.Seq, &r.Continues.Hash,
	}, extra...)
	err = row.Scan(dest...)
	return r, err
}

// lockRun locks a run's row and returns it, or ledger.ErrNotFound.
func lockRun(ctx context.Context, tx Tx, id events.RunID) (ledger.Run, error) {
	r, err := scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1 FOR NO KEY UPDATE`, id))
	if err != nil {
		return ledger.Run{}, runError("lock", id, err)
	}
	return r, nil
}

func runError(verb string, id events.RunID, err error) error {
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	return fmt.Errorf("%s run %s: %w", verb, id, err)
}

// Run implements ledger.Runs.
func (s *Store) Run(ctx context.Context, id events.RunID) (run ledger.Run, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		run, err = scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, id))
		if err != nil {
			return runError("read", id, err)
		}
		return nil
	})
	if err != nil {
		return ledger.Run{}, err
	}
	return run, nil
}

// Submit implements ledger.Runs.
func (s *Store) Submit(ctx context.Context, in ledger.Submission) (run ledger.Run, existed bool, err error) {
	if err := checkSubmission(in); err != nil {
		return ledger.Run{}, false, err
	}
	id := in.ID
	if id.IsZero() {
		id = s.cfg.IDs.Run()
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		run, existed, err = s.submitted(ctx, tx, id, in, "submit")
		return err
	})
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("submit run with client key %q: %w", in.ClientKey, err)
	}
	if in.Budget != nil {
		s.budgets.noticed()
	}
	return run, existed, nil
}

func checkSubmission(in ledger.Submission) error {
	var missing string
	switch {
	case in.Tenant == "":
		missing = "tenant"
	case in.Queue == "":
		missing = "queue"
	case in.Agent == "":
		missing = "agent"
	case in.ClientKey == "":
		missing = "client key"
	case in.Input.IsZero():
		missing = "input"
	case in.Continue && in.SessionID == "":
		missing = "session to continue"
	case len(in.InputMAC) == 0:
		missing = "input MAC"
	case in.Budget != nil && *in.Budget < 0:
		missing = "budget that is not negative"
	default:
		return nil
	}
	return fmt.Errorf("submit run with client key %q: no %s", in.ClientKey, missing)
}

// submitted is submit, with the budget that the run is given by by.
func (s *Store) submitted(ctx context.Context, tx Tx, id events.RunID, in ledger.Submission, by string) (ledger.Run, bool, error) {
	run, existed, err := submit(ctx, tx, id, in)
	if err != nil || existed || in.Budget == nil {
		return run, existed, err
	}
	return run, false, s.makeRunBudget(ctx, tx, run, *in.Budget, by, run.CreatedAt)
}

func submit(ctx context.Context, tx Tx, id events.RunID, in ledger.Submission) (ledger.Run, bool, error) {
	if in.Continue { // what was accepted stays accepted, whatever became of the session
		if run, err := sameKey(ctx, tx, in); !errors.Is(err, ErrNoRows) {
			return run, err == nil, err
		}
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return ledger.Run{}, false, err
	}
	due, root, requires := in.DueAt, in.Root, in.Requires
	if due.IsZero() {
		due = now
	}
	if root.IsZero() {
		root = id
	}
	if requires == nil {
		requires = []string{}
	}
	var at place
	if in.Continue {
		if at, err = nextPlace(ctx, tx, in, now); err != nil {
			return ledger.Run{}, false, err
		}
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO runs (id, tenant, queue, agent, owner, session_id, root_id, parent_id, client_key, input_mac, input,
			requires, priority, trace, created_at, due_at, deadline_at, state, concurrency_key, max_attempts, schedule, loop, guard, prompt,
			session_place, behind_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'queued', $18, $19, $20, $21, $22, $23, $24, $25)
		ON CONFLICT (tenant, client_key) DO NOTHING`,
		id, in.Tenant, in.Queue, in.Agent, in.Owner, in.SessionID, root, in.Parent, in.ClientKey, in.InputMAC, rawJSON(in.Input.Bytes()),
		requires, in.Priority, in.Trace, now, events.Timestamp(due), stamp(in.Deadline),
		in.ConcurrencyKey, max(in.MaxAttempts, 0), in.Schedule, rawJSON(in.Loop.Bytes()), rawJSON(in.Guard.Bytes()), rawJSON(in.Prompt.Bytes()), at.number, at.behind)
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("insert: %w", err)
	}
	if n > 0 && in.Continue {
		if err := at.take(ctx, tx, in, now); err != nil {
			return ledger.Run{}, false, err
		}
	}
	run, err := sameKey(ctx, tx, in)
	return run, n == 0 && err == nil, err
}

// sameKey is the run that has a submission's client key, which must have its input.
func sameKey(ctx context.Context, tx Tx, in ledger.Submission) (ledger.Run, error) {
	var mac []byte
	run, err := scanRun(tx.QueryRow(ctx,
		`SELECT `+runColumns+`, r.input_mac FROM runs r WHERE r.tenant = $1 AND r.client_key = $2`, in.Tenant, in.ClientKey), &mac)
	if err != nil {
		return ledger.Run{}, fmt.Errorf("read back: %w", err)
	}
	if !hmac.Equal(mac, in.InputMAC) && !bug.On(bug.DuplicateKey) {
		return ledger.Run{}, fmt.Errorf("run %s: %w", run.ID, ledger.ErrClientKeyConflict)
	}
	return run, nil
}

// stamp cuts t to what is stored; the zero time stays zero.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return events.Timestamp(t)
}

// Cancel implements ledger.Runs.
func (s *Store) Cancel(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error) {
	return s.operate(ctx, "cancel", id, by, reason, func(ctx context.Context, tx Tx, run *ledger.Run, op operation) error {
		if run.State == ledger.Cancelling {
			return nil // asked for already; the first request stands
		}
		if err := s.cancelLocked(ctx, tx, *run, op); err != nil {
			return err
		}
		if err := s.cancelDescendants(ctx, tx, *run, op); err != nil {
			return err
		}
		var err error
		*run, err = scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, id))
		return err
	})
}

// cancelLocked moves a locked run that has not ended to cancelling.
func (s *Store) cancelLocked(ctx context.Context, tx Tx, run ledger.Run, op operation) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	err = one(tx.Exec(ctx, `
		UPDATE runs SET state = 'cancelling', cancel_by = $2, cancel_reason = $3, cancel_at = $6,
			park_reason = '', park_detail = '', park_key = NULL, wake_at = NULL, parked_at = NULL, not_before = NULL,
			held_at = NULL, held_by = '', held_reason = ''
		WHERE id = $1 AND state = $4 AND epoch = $5`, run.ID, op.by, op.reason, run.State, run.Epoch, now))
	if err != nil {
		return err
	}
	return s.acted(ctx, tx, run, "cancel", op)
}

func rawJSON(b []byte) json.RawMessage { return b }

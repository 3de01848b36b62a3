package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Bounds of the wait before a run is tried again, kept here whatever an agent
// says: no loop of failures spins.
const (
	leastRetryWait   = time.Second
	mostRetryWait    = 24 * time.Hour
	defaultRetryWait = 5 * time.Second
	defaultRetryMost = 15 * time.Minute
)

// retryWait is the wait before the attempt after the given one.
func retryWait(r ledger.Retry, attempt int) time.Duration {
	first, most := r.Backoff, r.MaxBackoff
	if first <= 0 {
		first = defaultRetryWait
	}
	if most <= 0 {
		most = max(defaultRetryMost, first)
	}
	first, most = max(first, leastRetryWait), min(max(most, leastRetryWait), mostRetryWait)
	wait := first
	for range attempt - 1 {
		if wait >= most/2 {
			return most
		}
		wait *= 2
	}
	return min(wait, most)
}

// tryAgain decides in the transaction that ends a run what follows from how it
// ended: a further attempt as a new run, or, for a failed run that nothing tries
// again, the time from which it is dead.
func (s *Store) tryAgain(ctx context.Context, tx Tx, h holder, end ledger.Ending) (retried events.RunID, dead time.Time, err error) {
	run := h.run
	if end.State != ledger.Failed {
		return events.RunID{}, time.Time{}, nil
	}
	most := run.MaxAttempts
	if most == 0 {
		most = end.Retry.MaxAttempts
	}
	due := events.Timestamp(h.now.Add(retryWait(end.Retry, run.Attempt)))
	switch {
	case end.StoppedBy != events.StoppedByError, run.Attempt >= most, run.State == ledger.Cancelling,
		!run.Deadline.IsZero() && !due.Before(run.Deadline):
		return events.RunID{}, h.now, nil
	}
	retried, err = s.nextAttempt(ctx, tx, run, most, h.now, due)
	return retried, time.Time{}, err
}

// nextAttempt queues a run that tries a locked one again, from the beginning
// and in the same lineage: what took effect is replayed. That of a fork begins
// with the same inherited history, and does with effects what the fork does; that of
// a session's run has the same place in it and goes on from the same event.
func (s *Store) nextAttempt(ctx context.Context, tx Tx, run ledger.Run, most int, now, due time.Time) (events.RunID, error) {
	id := s.cfg.IDs.Run()
	for _, key := range attemptKeys(run, id) {
		n, err := tx.Exec(ctx, `
			INSERT INTO runs (id, tenant, queue, agent, owner, session_id, root_id, parent_id, client_key, input_mac, input,
				requires, priority, trace, created_at, due_at, deadline_at, state, concurrency_key, attempt, max_attempts, retry_of, schedule,
				fork_of, fork_seq, fork_effects, loop, guard, prompt, session_place, continues_run, continues_seq, continues_hash)
			SELECT $1, r.tenant, r.queue, r.agent, r.owner, r.session_id, r.root_id, r.parent_id, $2, r.input_mac, r.input,
				r.requires, r.priority, r.trace, $3, $4, r.deadline_at, 'queued', r.concurrency_key, r.attempt + 1, $5, r.id, r.schedule,
				r.fork_of, r.fork_seq, r.fork_effects, r.loop, r.guard, r.prompt, r.session_place, r.continues_run, r.continues_seq, r.continues_hash
			FROM runs r WHERE r.id = $6
			ON CONFLICT (tenant, client_key) DO NOTHING`,
			id, key, now, due, most, run.ID)
		if err != nil {
			return events.RunID{}, fmt.Errorf("queue attempt %d: %w", run.Attempt+1, err)
		}
		if n == 1 {
			return id, away(fault.Err("retry.before_commit"))
		}
	}
	return events.RunID{}, fmt.Errorf("queue attempt %d: its client keys are taken", run.Attempt+1)
}

// attemptKeys are client keys for the attempt after run, the second in case a
// client uses the first itself.
func attemptKeys(run ledger.Run, id events.RunID) []string {
	suffix := func(n int) string { return fmt.Sprintf("#attempt-%d", n) }
	key := strings.TrimSuffix(run.ClientKey, suffix(run.Attempt)) + suffix(run.Attempt+1)
	return []string{key, key + "-" + id.String()}
}

// Dead implements ledger.DeadLetters.
func (s *Store) Dead(ctx context.Context, f ledger.DeadFilter) ([]ledger.Run, error) {
	c := &condition{sql: `r.dead_at IS NOT NULL`}
	for column, v := range map[string]string{"r.tenant": f.Tenant, "r.queue": f.Queue, "r.agent": f.Agent} {
		if v != "" {
			c.sql += ` AND ` + column + ` = ` + c.at(v)
		}
	}
	if !f.Before.IsZero() {
		c.sql += ` AND r.id < ` + c.at(f.Before)
	}
	c.sql += ` ORDER BY r.id DESC LIMIT ` + c.at(listed(f.Limit))
	return s.listRuns(ctx, "dead runs", `SELECT `+runColumns+` FROM runs r WHERE `+c.sql, c.args...)
}

// Requeue implements ledger.DeadLetters.
func (s *Store) Requeue(ctx context.Context, id events.RunID, attempts int, by, reason string) (run ledger.Run, err error) {
	fail := func(err error) (ledger.Run, error) {
		return ledger.Run{}, fmt.Errorf("requeue run %s: %w", id, err)
	}
	if by == "" || reason == "" {
		return fail(errors.New("who and why are required"))
	}
	if attempts < 0 {
		return fail(fmt.Errorf("%d attempts: want 1 or more", attempts))
	}
	by, reason = s.cfg.Redactor.String(by), s.cfg.Redactor.String(reason)
	fact := s.cfg.IDs.Event()
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		old, err := lockRun(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case !old.Successor.IsZero():
			return fmt.Errorf("run %s tries it again already: %w", old.Successor, ledger.ErrNotDead)
		case old.DeadAt.IsZero():
			return fmt.Errorf("it is %s: %w", old.State, ledger.ErrNotDead)
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		next, err := s.nextAttempt(ctx, tx, old, old.Attempt+max(attempts, 1), now, now)
		if err != nil {
			return err
		}
		// Whoever asks for it means it to go on: the deadline was the dead run's.
		if _, err := tx.Exec(ctx, `UPDATE runs SET deadline_at = NULL WHERE id = $1`, next); err != nil {
			return err
		}
		if err := returnToSession(ctx, tx, old, next, now); err != nil {
			return err
		}
		if err := one(tx.Exec(ctx, `UPDATE runs SET successor = $2, dead_at = NULL WHERE id = $1 AND successor IS NULL AND dead_at IS NOT NULL`, id, next)); err != nil {
			return err
		}
		detail := fmt.Sprintf("%s (as run %s)", reason, next)
		if _, _, err := s.addFact(ctx, tx, id, fact, events.OperatorActed{Verb: "requeue", By: by, Detail: detail}, old.Trace); err != nil {
			return err
		}
		if run, err = scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, next)); err != nil {
			return err
		}
		return away(fault.Err("requeue.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("requeue.after_commit"))
	}
	if err != nil {
		return fail(err)
	}
	return run, nil
}

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// How long an ended run is left alone after a claim that appended none of its
// facts: it doubles from the first to the last.
const (
	firstBackoff = 5 * time.Second
	lastBackoff  = 10 * time.Minute
)

// candidate is a run that a claim has locked, as it was.
type candidate struct {
	run     ledger.Run
	clean   bool
	idle    int
	crashes int
}

// Claim implements ledger.Runs.
func (s *Store) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	if r.Worker == "" || r.TTL <= 0 {
		return nil, fmt.Errorf("claim runs: worker %q and TTL %s are required", r.Worker, r.TTL)
	}
	r.Limit = max(r.Limit, 1)
	var claims []ledger.Claim
	err := s.comparing(ctx, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
			claims = nil
			picked, had, err := s.pick(ctx, tx, r)
			if err != nil || len(picked) == 0 {
				return err
			}
			if claims, err = s.take(ctx, tx, r, picked); err != nil {
				return err
			}
			// Last, since whoever claims for the same tenant waits for it.
			if err := had.record(ctx, tx); err != nil {
				return err
			}
			return fault.Err("claim.before_commit")
		})
	})
	if err == nil {
		if err = fault.Err("claim.after_commit"); err != nil {
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("claim runs for worker %q: %w", r.Worker, err)
	}
	return claims, nil
}

// take gives locked runs to a worker: step (a) of a takeover, and for a clean
// run all there is to it.
func (s *Store) take(ctx context.Context, tx Tx, r ledger.ClaimRequest, picked []candidate) ([]ledger.Claim, error) {
	now, err := tx.Now(ctx) // after the row locks
	if err != nil {
		return nil, err
	}
	claims := make([]ledger.Claim, len(picked))
	ids := make([]events.RunID, len(picked))
	for i, c := range picked {
		ids[i] = c.run.ID
	}
	if err := makeFolds(ctx, tx, ids); err != nil {
		return nil, err
	}
	for i, c := range picked {
		if claims[i], err = s.takeRun(ctx, tx, r, c, now); err != nil {
			return nil, fmt.Errorf("run %s: %w", c.run.ID, err)
		}
	}
	if err := unsettle(ctx, tx, ids); err != nil {
		return nil, err
	}
	// Most runs have neither; the rows of all of them are locked, so none comes in.
	started, err := runsWith(ctx, tx, `effects WHERE state = 'started' AND `, ids)
	if err != nil {
		return nil, fmt.Errorf("look for started effects: %w", err)
	}
	for i, c := range picked { // effects after all folds
		if !started[c.run.ID] {
			continue
		}
		if err := s.doubtAbandoned(ctx, tx, claims[i].Run, r.OwnTokens, now); err != nil {
			return nil, fmt.Errorf("run %s: %w", c.run.ID, err)
		}
	}
	for _, c := range picked {
		if c.run.State == ledger.Parked && !c.run.WakeAt.IsZero() && !c.run.WakeAt.After(now) {
			fired := events.TimerFired{Due: c.run.WakeAt}
			if _, _, err := s.addFact(ctx, tx, c.run.ID, s.cfg.IDs.Event(), fired, c.run.Trace); err != nil {
				return nil, err
			}
		}
	}
	pending, err := runsWith(ctx, tx, `facts WHERE `, ids)
	if err != nil {
		return nil, fmt.Errorf("look for facts: %w", err)
	}
	for i, c := range picked {
		if pending[c.run.ID] {
			if claims[i].Facts, err = pendingFacts(ctx, tx, c.run.ID); err != nil {
				return nil, err
			}
		}
	}
	return claims, nil
}

// makeFolds makes the folds of runs that have none, in the order of their ids.
func makeFolds(ctx context.Context, tx Tx, ids []events.RunID) error {
	return tx.Later(ctx, "make folds", `
		INSERT INTO run_folds (run_id) SELECT r.id FROM runs r
		WHERE `+tx.InIDs("r.id", 1)+` AND NOT EXISTS (SELECT 1 FROM run_folds f WHERE f.run_id = r.id)
		ORDER BY r.id ON CONFLICT DO NOTHING`, ids)
}

// runsWith returns which of the runs have a row in a table.
func runsWith(ctx context.Context, tx Tx, table string, ids []events.RunID) (map[events.RunID]bool, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT run_id FROM `+table+tx.InIDs("run_id", 1), ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := map[events.RunID]bool{}
	for rows.Next() {
		var id events.RunID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		have[id] = true
	}
	return have, rows.Err()
}

func (s *Store) takeRun(ctx context.Context, tx Tx, r ledger.ClaimRequest, c candidate, now time.Time) (ledger.Claim, error) {
	run := c.run
	last, err := lastWriter(ctx, tx, run)
	if err != nil {
		return ledger.Claim{}, err
	}
	was := run.State
	idle, notBefore := 0, time.Time{}
	if was.Ended() {
		// It counts as idle until Release says otherwise, which a crash never does.
		idle, notBefore = c.idle+1, now.Add(backoff(c.idle))
	} else if was != ledger.Cancelling {
		run.State = ledger.Running
	}
	if run.StartedAt.IsZero() {
		if run.SessionPlace > 0 {
			if run.Continues, err = continues(ctx, tx, run); err != nil {
				return ledger.Claim{}, err
			}
		}
		run.StartedAt = now
	}
	crashes := 0
	if was == ledger.Running { // until its history shows an outcome, this counts as one more
		crashes = c.crashes + 1
	}
	if run.Unreadable != "" {
		idle = c.idle // so far; MarkUnreadable counts on
	}
	run.Epoch++
	run.Worker, run.LeaseUntil = r.Worker, events.Timestamp(now.Add(r.TTL))
	run.ParkReason, run.ParkDetail, run.ParkKey, run.WakeAt, run.ParkedAt = "", "", events.Hash{}, time.Time{}, time.Time{}
	n, err := tx.Exec(ctx, `
		UPDATE runs SET state = $4, epoch = $5, worker = $6, lease_until = $7, clean = false, not_before = $8, idle_claims = $9,
			park_reason = '', park_detail = '', park_key = NULL, wake_at = NULL, parked_at = NULL, started_at = $10, crashes = $11,
			continues_run = $12, continues_seq = $13, continues_hash = $14
		WHERE id = $1 AND state = $2 AND epoch = $3`,
		run.ID, was, c.run.Epoch, run.State, run.Epoch, run.Worker, run.LeaseUntil, notBefore, idle, run.StartedAt, crashes,
		run.Continues.Run, run.Continues.Seq, run.Continues.Hash)
	if err != nil {
		return ledger.Claim{}, fmt.Errorf("take: %w", err)
	}
	if n != 1 {
		return ledger.Claim{}, fmt.Errorf("take: its row changed while it was locked: state %s, epoch %d", was, c.run.Epoch)
	}
	out := ledger.Claim{
		Run: run, Kind: ledger.ClaimTakeover, LastWorker: last,
		Lease: ledger.Lease{RunID: run.ID, Epoch: run.Epoch, Worker: r.Worker, TTL: r.TTL, Remaining: run.LeaseUntil.Sub(now)},
	}
	if !c.clean {
		return out, nil
	}
	if out.Base, err = s.writeBase(ctx, tx, out.Lease, now); err != nil {
		return ledger.Claim{}, err
	}
	switch {
	case was.Ended():
		out.Kind = ledger.ClaimSettle
	case out.Base.Seq == 0:
		out.Kind = ledger.ClaimFresh
	default:
		out.Kind = ledger.ClaimResume
	}
	return out, nil
}

func backoff(idle int) time.Duration {
	if idle > 10 {
		return lastBackoff
	}
	return min(firstBackoff<<idle, lastBackoff)
}

// lastWriter is the worker whose journal may hold the run's latest events: the
// last one that got a base. A holder that died before it had one wrote nothing,
// and the tail of the one before it still counts.
func lastWriter(ctx context.Context, tx Tx, run ledger.Run) (worker string, err error) {
	if run.Epoch == 0 {
		return "", nil
	}
	err = tx.QueryRow(ctx, `SELECT worker FROM run_epochs WHERE run_id = $1 ORDER BY epoch DESC LIMIT 1`, run.ID).Scan(&worker)
	if errors.Is(err, ErrNoRows) {
		return "", nil // reconciling raised an epoch that nobody had held
	}
	if err != nil {
		return "", fmt.Errorf("read last epoch: %w", err)
	}
	return worker, nil
}

// doubtAbandoned moves attempts of older epochs that nobody will report on to
// in doubt. The provider absorbs a repetition of keyed and fenced ones, so those
// stay started as long as the run may repeat them, and those that were handed
// off as long as it waits for them.
func (s *Store) doubtAbandoned(ctx context.Context, tx Tx, run ledger.Run, own []events.ID, now time.Time) error {
	q := `
		SELECT e.op_key FROM effects e JOIN effect_attempts a ON a.op_key = e.op_key AND a.attempt = e.attempts
		WHERE e.run_id = $1 AND e.state = 'started' AND a.epoch < $2 AND a.outcome = ''`
	if !run.State.Ended() && run.State != ledger.Cancelling {
		q += ` AND e.recovery NOT IN ('keyed', 'fenced') AND a.handed_off_at IS NULL`
	}
	rows, err := tx.Query(ctx, q+` ORDER BY e.op_key`, run.ID, run.Epoch)
	if err != nil {
		return fmt.Errorf("read started effects: %w", err)
	}
	defer rows.Close()
	var keys []events.Hash
	for rows.Next() {
		var k events.Hash
		if err := rows.Scan(&k); err != nil {
			return fmt.Errorf("read started effects: %w", err)
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read started effects: %w", err)
	}
	rows.Close()
	for _, k := range keys {
		e, err := lockEffect(ctx, tx, k)
		if err != nil {
			return err
		}
		as, err := readAttempts(ctx, tx, k)
		if err != nil {
			return err
		}
		a := as.latest()
		// An End may have come between the reading and the lock.
		if e.State != events.EffectStarted || a.Run != run.ID || a.Outcome != "" || slices.Contains(own, a.Token) {
			continue
		}
		if _, err := s.doubt(ctx, tx, &e, a, "takeover", "", now); err != nil {
			return err
		}
	}
	return nil
}

package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// handoffColumns are what scanHandoff reads, of table handoffs under the name h.
const handoffColumns = `h.token, h.run_id, h.turn, h.call_index, h.call_attempt, h.tool, h.reason, h.op_key, h.child_id, h.signal,
	h.trust, h.trace, h.expires_as, h.until, h.state, h.outcome_digest, h.created_at, h.completed_at, h.completed_by`

// handoffRow is a row of handoffs.
type handoffRow struct {
	ledger.Handoff
	digest events.Hash
}

func scanHandoff(row Row) (h handoffRow, err error) {
	var expires *string
	err = row.Scan(&h.Token, &h.Run, &h.Call.Turn, &h.Call.Index, &h.CallAttempt, &h.Tool, &h.Reason, &h.OpKey, &h.Child, &h.Signal,
		&h.Trust, &h.Trace, &expires, &h.Until, &h.State, &h.digest, &h.CreatedAt, &h.CompletedAt, &h.CompletedBy)
	if expires != nil {
		h.ExpiresAs = *expires
	}
	return h, err
}

// readHandoffs runs a query that selects handoffColumns.
func readHandoffs(ctx context.Context, tx Tx, q string, args ...any) ([]handoffRow, error) {
	rows, err := tx.Query(ctx, `SELECT `+handoffColumns+` FROM handoffs h WHERE `+q, args...)
	if err != nil {
		return nil, fmt.Errorf("read hand-offs: %w", err)
	}
	defer rows.Close()
	var hs []handoffRow
	for rows.Next() {
		h, err := scanHandoff(rows)
		if err != nil {
			return nil, fmt.Errorf("read hand-offs: %w", err)
		}
		hs = append(hs, h)
	}
	return hs, rows.Err()
}

// lockHandoff locks a hand-off; ok is false when there is none. It is the last
// lock that a transaction takes, after runs and effects.
func lockHandoff(ctx context.Context, tx Tx, token events.ID) (h handoffRow, ok bool, err error) {
	hs, err := readHandoffs(ctx, tx, `h.token = $1 FOR UPDATE`, token)
	if err != nil || len(hs) == 0 {
		return handoffRow{}, false, err
	}
	return hs[0], true, nil
}

// Handoffs implements ledger.Handoffs.
func (s *Store) Handoffs(ctx context.Context, f ledger.HandoffFilter) ([]ledger.Handoff, error) {
	c := condition{sql: `h.turn > 0`}
	if !f.Run.IsZero() {
		c.sql += fmt.Sprintf(` AND h.run_id = $%d`, c.arg(f.Run))
	}
	if f.Tenant != "" {
		c.sql += fmt.Sprintf(` AND h.run_id IN (SELECT r.id FROM runs r WHERE r.tenant = $%d)`, c.arg(f.Tenant))
	}
	if !f.After.IsZero() {
		c.sql += fmt.Sprintf(` AND h.token > $%d`, c.arg(f.After))
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	var out []ledger.Handoff
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		c := c
		if len(f.States) > 0 {
			states := make([]string, len(f.States))
			for i, st := range f.States {
				states[i] = string(st)
			}
			c.sql += ` AND ` + tx.In("h.state", c.arg(states))
		}
		hs, err := readHandoffs(ctx, tx, c.sql+fmt.Sprintf(` ORDER BY h.token LIMIT $%d`, c.arg(f.Limit)), c.args...)
		out = make([]ledger.Handoff, len(hs))
		for i, h := range hs {
			out[i] = h.Handoff
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// HandOff implements ledger.Handoffs.
func (s *Store) HandOff(ctx context.Context, l ledger.Lease, p ledger.Prefix, h ledger.Handoff) (facts []events.Fact, err error) {
	h, err = normalHandoff(l, h)
	if err != nil {
		return nil, err
	}
	err = s.barrier(ctx, "hand off "+h.Call.String()+" of", l, p, nil, func(ctx context.Context, tx Tx, at holder) (refusal, err error) {
		if at.run.State.Ended() {
			return ledger.ErrEnded, nil
		}
		if err := s.register(ctx, tx, h, at.now); err != nil {
			return nil, err
		}
		if facts, err = pendingFacts(ctx, tx, l.RunID); err != nil {
			return nil, err
		}
		return nil, away(fault.Err("handoff.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("handoff.after_commit"))
	}
	if err != nil {
		return nil, err
	}
	return facts, nil
}

// normalHandoff fills in what is left out and refuses what no caller may mean.
func normalHandoff(l ledger.Lease, h ledger.Handoff) (ledger.Handoff, error) {
	h.Run = l.RunID
	if h.Reason == "" {
		h.Reason = events.ParkAsyncTool
	}
	h.CallAttempt = max(h.CallAttempt, 1)
	var fault string
	switch {
	case h.Token.IsZero() || h.Tool == "" || h.Call.Turn < 1 || h.Call.Index < 0:
		fault = "token, tool and call are required"
	case h.Reason != events.ParkAsyncTool && h.Reason != events.ParkTimer && h.Reason != events.ParkSignal && h.Reason != events.ParkChild:
		fault = fmt.Sprintf("reason %q: want async_tool, timer, signal or child", h.Reason)
	case !h.OpKey.IsZero() && (h.For <= 0 || h.ExpiresAs != ""):
		fault = "a destructive call needs a time after which it is in doubt, and its expiry is no result"
	case h.Reason == events.ParkTimer && h.For <= 0:
		fault = "a timer needs a time"
	case (h.Reason == events.ParkSignal) == (h.Signal == ""):
		fault = "reason signal, and no other, needs the name of a signal"
	default:
		return h, nil
	}
	return h, fmt.Errorf("hand off %s of run %s: %s", h.Call, l.RunID, fault)
}

// register inserts an open hand-off of a locked run, once. An effect that is
// decided already needs none.
func (s *Store) register(ctx context.Context, tx Tx, h ledger.Handoff, now time.Time) error {
	var until time.Time
	if h.For > 0 {
		until = events.Timestamp(now.Add(h.For))
	}
	if !h.OpKey.IsZero() {
		if under, err := handAttempt(ctx, tx, h, until, now); err != nil || !under {
			return err
		}
	}
	var expires *string
	if h.ExpiresAs != "" {
		e := s.cfg.Redactor.String(h.ExpiresAs)
		expires = &e
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO handoffs (token, run_id, turn, call_index, call_attempt, tool, reason, op_key, child_id, signal, trust, trace, expires_as,
			until, state, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'open', $15) ON CONFLICT (token) DO NOTHING`,
		h.Token, h.Run, h.Call.Turn, h.Call.Index, h.CallAttempt, h.Tool, h.Reason, h.OpKey, h.Child, h.Signal, h.Trust, h.Trace, expires,
		until, now)
	if err != nil {
		return fmt.Errorf("insert hand-off %s: %w", h.Token, err)
	}
	if n == 0 || h.Signal == "" {
		return nil
	}
	return s.takeSignal(ctx, tx, h, now)
}

// handAttempt notes on the attempt of an effect that its outcome comes from
// outside. under is false when the effect is not under way any more.
func handAttempt(ctx context.Context, tx Tx, h ledger.Handoff, until, now time.Time) (under bool, err error) {
	e, err := lockEffect(ctx, tx, h.OpKey)
	if err != nil {
		return false, err
	}
	a, ok, err := attemptByToken(ctx, tx, h.Token)
	if err != nil {
		return false, err
	}
	if !ok || a.opKey != h.OpKey || a.Run != h.Run {
		return false, fmt.Errorf("hand-off %s is no attempt of effect %s: %w", h.Token, h.OpKey, ledger.ErrNotFound)
	}
	if e.State != events.EffectStarted || a.Number != e.Attempts || a.ended() {
		return false, nil
	}
	if a.handedOff() {
		return true, nil
	}
	deadline := a.Deadline
	if until.After(deadline) {
		deadline = until // until then somebody may act
	}
	_, err = tx.Exec(ctx, `UPDATE effect_attempts SET handed_off_at = $2, handed_until = $3, deadline = $4 WHERE token = $1`,
		h.Token, now, until, deadline)
	if err != nil {
		return false, fmt.Errorf("hand off attempt %s: %w", h.Token, err)
	}
	return true, nil
}

// Expire implements ledger.Handoffs.
func (s *Store) Expire(ctx context.Context, l ledger.Lease, p ledger.Prefix) (facts []events.Fact, err error) {
	err = s.barrier(ctx, "expire hand-offs of", l, p, nil, func(ctx context.Context, tx Tx, at holder) (refusal, err error) {
		// The clock went on while the prefix was inserted; what is due by now may go too.
		due, err := readHandoffs(ctx, tx, `h.run_id = $1 AND h.state = 'open' AND h.until <= $2 ORDER BY h.token`, l.RunID, at.now)
		if err != nil {
			return nil, err
		}
		for _, h := range due {
			if err := s.expire(ctx, tx, h, "timeout", "nobody completed it by "+h.Until.Format(time.RFC3339), at.now); err != nil {
				return nil, err
			}
		}
		facts, err = pendingFacts(ctx, tx, l.RunID)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return facts, nil
}

// expire closes an open hand-off of a locked run, unless somebody is faster.
func (s *Store) expire(ctx context.Context, tx Tx, h handoffRow, cause, why string, now time.Time) error {
	if !h.OpKey.IsZero() {
		a, ok, err := attemptByToken(ctx, tx, h.Token)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("hand-off %s: its attempt is gone: %w", h.Token, ledger.ErrNotFound)
		}
		out := ledger.Outcome{Token: h.Token, Kind: ledger.Unclear, Cause: cause, Error: events.ErrorInfo{Kind: cause, Message: why}}
		if _, err := s.settle(ctx, tx, a, out, now); err != nil {
			return err
		}
		_, err = closeHandoff(ctx, tx, h, ledger.HandoffExpired, "", events.Hash{}, now)
		return err
	}
	closed, err := closeHandoff(ctx, tx, h, ledger.HandoffExpired, "", events.Hash{}, now)
	if err != nil || !closed {
		return err
	}
	c := ledger.Completion{Token: h.Token, Kind: ledger.NotApplied, Error: events.ErrorInfo{Kind: cause, Message: why}}
	if h.ExpiresAs != "" && cause == "timeout" {
		c = ledger.Completion{Token: h.Token, Kind: ledger.Applied, Result: events.ToolResult{Output: h.ExpiresAs}}
	}
	return s.tellCall(ctx, tx, h, c, now)
}

// closeHandoff moves an open hand-off, or one that expired, to a final state.
// closed is false when it has one that stands.
func closeHandoff(ctx context.Context, tx Tx, h handoffRow, state ledger.HandoffState, by string, digest events.Hash, now time.Time) (closed bool, err error) {
	q := `UPDATE handoffs SET state = $2, completed_at = $3, completed_by = $4, outcome_digest = $5 WHERE token = $1 AND state = 'open'`
	if state == ledger.HandoffCompleted && !h.OpKey.IsZero() { // late evidence counts
		q = `UPDATE handoffs SET state = $2, completed_at = $3, completed_by = $4, outcome_digest = $5 WHERE token = $1 AND state IN ('open', 'expired')`
	}
	n, err := tx.Exec(ctx, q, h.Token, state, now, by, digest)
	if err != nil {
		return false, fmt.Errorf("close hand-off %s: %w", h.Token, err)
	}
	return n == 1, nil
}

// tellCall inserts the outcome of a call without an effect.
func (s *Store) tellCall(ctx context.Context, tx Tx, h handoffRow, c ledger.Completion, now time.Time) error {
	r := c.Result
	r.Trust = h.Trust
	done := &events.Completion{Token: h.Token, By: c.By}
	ms := max(now.Sub(h.CreatedAt).Milliseconds(), 0)
	var p events.Payload
	if c.Kind == ledger.Applied {
		r.Status, r.Error = "completed", ""
		p = events.ToolExecutionFinished{
			Call: h.Call, Attempt: h.CallAttempt, Tool: h.Tool, Result: r, Completion: done, LatencyMS: ms, At: now,
		}
	} else {
		r.Status, r.Error = "failed", c.Error.Message
		p = events.ToolExecutionError{
			Call: h.Call, Attempt: h.CallAttempt, Tool: h.Tool, Result: r, Error: c.Error, Completion: done, LatencyMS: ms, At: now,
		}
	}
	_, _, err := s.addFact(ctx, tx, h.Run, events.DerivedID(h.Token, events.TypeOf(p)), p, h.Trace)
	return err
}

// endHandoffs closes what a run that has just ended was waiting for. Its row
// and those of its descendants are locked. It is called for effects first, whose
// locks come before those of budgets, then for the rest.
func (s *Store) endHandoffs(ctx context.Context, tx Tx, run events.RunID, effects bool, now time.Time) error {
	open, err := readHandoffs(ctx, tx, `h.run_id = $1 AND h.state = 'open' ORDER BY h.token`, run)
	if err != nil {
		return err
	}
	for _, h := range open {
		if effects == h.OpKey.IsZero() {
			continue
		}
		if effects {
			err = s.expire(ctx, tx, h, "cancelled", "its run ended before anybody completed it", now)
		} else {
			// The call is over with its run: there is nobody to tell.
			_, err = closeHandoff(ctx, tx, h, ledger.HandoffExpired, "", events.Hash{}, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onHandoffs reports whether a run with that reason waits for hand-offs.
func onHandoffs(r events.ParkReason) bool {
	return r == events.ParkAsyncTool || r == events.ParkTimer || r == events.ParkSignal || r == events.ParkChild
}

// firstExpiry is when the first open hand-off of a run expires; zero for never.
func firstExpiry(ctx context.Context, tx Tx, run events.RunID) (until time.Time, err error) {
	err = tx.QueryRow(ctx, `
		SELECT h.until FROM handoffs h WHERE h.run_id = $1 AND h.state = 'open' AND h.until IS NOT NULL
		ORDER BY h.until LIMIT 1`, run).Scan(&until)
	if errors.Is(err, ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read hand-offs of run %s: %w", run, err)
	}
	return until, nil
}

// outputText is what a model reads of a JSON value: a string's text, or the JSON itself.
func outputText(raw json.RawMessage) string {
	var t string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &t) == nil {
		return t
	}
	return string(raw)
}

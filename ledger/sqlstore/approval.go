package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

const approvalColumns = `a.id, a.run_id, a.tenant, a.turn, a.call_index, a.tool, a.arguments, a.digest, a.tool_hash, a.policy, a.why, a.taint_by, a.rule,
	a.state, a.decided_by, a.decided_role, a.reason, a.created_at, a.expires_at, a.decided_at, a.consumed_at`

// scanApproval reads approvalColumns and then extra. What nobody may use any
// more is expired, whatever its row says.
func scanApproval(row Row, now time.Time, extra ...any) (ledger.Approval, error) {
	var a ledger.Approval
	dest := append([]any{
		&a.ID, &a.Run, &a.Tenant, &a.Call.Turn, &a.Call.Index, &a.Tool, &a.Arguments, &a.Digest, &a.ToolHash, &a.Policy, &a.Why, &a.TaintBy, &a.Rule,
		&a.State, &a.By, &a.Role, &a.Reason, &a.CreatedAt, &a.ExpiresAt, &a.DecidedAt, &a.ConsumedAt,
	}, extra...)
	if err := row.Scan(dest...); err != nil {
		return ledger.Approval{}, err
	}
	if (a.State == ledger.ApprovalRequested || a.State == ledger.ApprovalApproved) && !a.ExpiresAt.After(now) {
		a.State = ledger.ApprovalExpired
	}
	return a, nil
}

// asking is what one Begin knows of the approval it needs. The rows of its call
// are locked.
type asking struct {
	why    string // empty: none is needed
	digest events.Hash
	latest ledger.Approval // of this digest and not used up; zero for none
	stale  []events.ID     // undecided or unused ones that are bound to something else
	same   events.ID       // the approval that an earlier attempt of this effect used
}

// granted is the approval under which the call may go ahead; zero for none.
func (k asking) granted() events.ID {
	if !k.same.IsZero() || k.why == "" {
		return k.same
	}
	return k.latest.ID
}

// approvals finds out whether the call needs an approval, and locks those there are.
func (b *beginning) approvals(ctx context.Context, e effectRow, repeat bool) (asking, error) {
	k := asking{why: b.whyAsk()}
	if repeat && !e.approval.IsZero() && e.Call == b.in.Call && e.argsDigest == ledger.ArgsDigest(b.in.Arguments) {
		k.same = e.approval // to repeat what the provider absorbs is the same use
		return k, nil
	}
	if k.why == "" {
		return k, nil
	}
	k.digest = ledger.ApprovalDigest(b.in.Tool, b.in.Arguments, b.in.ToolHash, b.in.Policy)
	rows, err := b.tx.Query(ctx, `
		SELECT `+approvalColumns+` FROM approvals a WHERE a.run_id = $1 AND a.turn = $2 AND a.call_index = $3 ORDER BY a.created_at, a.id FOR UPDATE`,
		b.l.RunID, b.in.Call.Turn, b.in.Call.Index)
	if err != nil {
		return k, fmt.Errorf("lock approvals of %s: %w", b.in.Call, err)
	}
	defer rows.Close()
	// Waiting for the lock may have taken longer than an approval lasts, so its
	// time is looked at below, on a clock read after it.
	for rows.Next() {
		a, err := scanApproval(rows, time.Time{})
		if err != nil {
			return k, fmt.Errorf("lock approvals of %s: %w", b.in.Call, err)
		}
		switch {
		case a.Digest != k.digest && !bug.On(bug.ApprovalNoDigest):
			if a.State == ledger.ApprovalRequested || a.State == ledger.ApprovalApproved {
				k.stale = append(k.stale, a.ID)
			}
		case a.State != ledger.ApprovalConsumed:
			k.latest = a
		default:
			k.latest = ledger.Approval{} // used up: a later one is asked for
		}
	}
	return k, rows.Err()
}

// approvalGate says what keeps the call from going ahead, nil for nothing. It
// asks a person if nobody has been asked.
func (b *beginning) approvalGate(ctx context.Context, k asking) (*ledger.Verdict, error) {
	if k.why == "" || !k.same.IsZero() {
		return nil, nil
	}
	now, err := b.tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	a := k.latest
	switch {
	case a.ID.IsZero():
		return b.request(ctx, k, now)
	case a.State == ledger.ApprovalDenied:
		return refusal(ledger.DetailApprovalDenied, "not done: %s denied it%s. Do not ask for the same again.", who(a.By, a.Role), because(a.Reason)), nil
	case a.State == ledger.ApprovalExpired, !a.ExpiresAt.After(now):
		_, err := b.tx.Exec(ctx, `UPDATE approvals SET state = 'expired' WHERE id = $1`, a.ID)
		if err != nil {
			return nil, fmt.Errorf("expire approval %s: %w", a.ID, err)
		}
		if a.State == ledger.ApprovalApproved {
			return refusal(ledger.DetailApprovalExpired, "not done: %s approved it, but the approval expired before it could be used.", who(a.By, a.Role)), nil
		}
		return refusal(ledger.DetailApprovalExpired, "not done: it needs a person's approval, and nobody gave one in time."), nil
	case a.State == ledger.ApprovalApproved:
		return nil, nil
	}
	return &ledger.Verdict{Kind: ledger.NeedsApproval, Approval: a.ID, Expires: a.ExpiresAt, Remaining: a.ExpiresAt.Sub(now)}, nil
}

// request asks a person. Requests for the same call that are bound to something
// else are over: who answers them now would decide about nothing.
func (b *beginning) request(ctx context.Context, k asking, now time.Time) (*ledger.Verdict, error) {
	if len(k.stale) > 0 {
		_, err := b.tx.Exec(ctx, `
			UPDATE approvals SET state = 'expired', reason = 'another request took its place: the arguments, the tool or the policy changed'
			WHERE `+b.tx.InIDs("id", 1), k.stale)
		if err != nil {
			return nil, fmt.Errorf("withdraw approvals of %s: %w", b.in.Call, err)
		}
	}
	ttl := b.in.ApprovalTTL
	if ttl <= 0 {
		ttl = ledger.DefaultApprovalTTL
	}
	id, expires := b.s.cfg.IDs.Event(), events.Timestamp(now.Add(ttl))
	var taintBy string
	if strings.Contains(k.why, ledger.WhyTaint) {
		taintBy = b.s.cfg.Redactor.String(b.in.TaintBy)
	}
	rule := b.s.cfg.Redactor.String(b.in.AskRule)
	_, err := b.tx.Exec(ctx, `
		INSERT INTO approvals (id, run_id, tenant, turn, call_index, tool, arguments, digest, tool_hash, policy, why, taint_by, state, expires_at, created_at, rule)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'requested', $13, $14, $15)`,
		id, b.l.RunID, b.h.run.Tenant, b.in.Call.Turn, b.in.Call.Index, b.in.Tool, b.in.Arguments, k.digest, b.in.ToolHash, b.in.Policy,
		k.why, taintBy, expires, now, rule)
	if err != nil {
		return nil, fmt.Errorf("request approval of %s: %w", b.in.Call, err)
	}
	f, _, err := b.s.addFact(ctx, b.tx, b.l.RunID, events.DerivedID(id, events.TypeOf(events.ApprovalRequested{})), events.ApprovalRequested{
		Approval: id, Call: b.in.Call, Tool: b.in.Tool, Digest: k.digest, Expires: expires, Why: k.why, Rule: rule,
	}, b.in.Trace)
	if err != nil {
		return nil, err
	}
	return &ledger.Verdict{Kind: ledger.NeedsApproval, Approval: id, Expires: expires, Remaining: expires.Sub(now), Fact: &f}, nil
}

// consume uses the approval up, in the transaction that begins the execution.
func (k asking) consume(ctx context.Context, b *beginning) error {
	if k.why == "" || !k.same.IsZero() || bug.On(bug.ApprovalNotConsumed) {
		return nil
	}
	err := one(b.tx.Exec(ctx, `UPDATE approvals SET state = 'consumed', consumed_at = $2 WHERE id = $1 AND state = 'approved'`, k.latest.ID, b.h.now))
	if err != nil {
		return fmt.Errorf("consume approval %s: %w", k.latest.ID, err)
	}
	return nil
}

// mayAwaitApproval refuses to wait for what is decided or over. Whoever decides
// it later sees that the run is parked, or rather the worker that claims it does:
// the decision is a fact.
func mayAwaitApproval(ctx context.Context, tx Tx, h holder, id events.ID) (refusal, err error) {
	a, err := scanApproval(tx.QueryRow(ctx, `SELECT `+approvalColumns+` FROM approvals a WHERE a.id = $1 FOR SHARE`, id), h.now)
	switch {
	case errors.Is(err, ErrNoRows):
		return fmt.Errorf("approval %s: %w", id, ledger.ErrNotFound), nil
	case err != nil:
		return nil, fmt.Errorf("read approval %s: %w", id, err)
	case a.State != ledger.ApprovalRequested:
		return fmt.Errorf("approval %s is %s: %w", id, a.State, ledger.ErrFactsPending), nil
	}
	return nil, nil
}

// who names a person by what they proved.
func who(by, role string) string {
	if role == "" {
		return by
	}
	return by + " (database role " + role + ")"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// roled is a transaction of a database that knows who is connected.
type roled interface {
	Role(ctx context.Context) (string, error)
}

// roleOf is the role that the database has authenticated; empty if it has none.
func roleOf(ctx context.Context, tx Tx) (string, error) {
	r, ok := tx.(roled)
	if !ok {
		return "", nil
	}
	role, err := r.Role(ctx)
	if err != nil {
		return "", fmt.Errorf("read the database role: %w", err)
	}
	return role, nil
}

// Decide implements ledger.Approvals.
func (s *Store) Decide(ctx context.Context, d ledger.Decision) (a ledger.Approval, err error) {
	verb := "deny"
	if d.Approve {
		verb = "approve"
	}
	if d.By == "" {
		return a, fmt.Errorf("%s %s: a decision names the authenticated caller", verb, d.Approval)
	}
	d.By, d.Reason = s.cfg.Redactor.String(d.By), s.cfg.Redactor.String(d.Reason)
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if a, err = s.decide(ctx, tx, d); err != nil {
			return err
		}
		return away(fault.Err("approval.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("approval.after_commit"))
	}
	if err != nil {
		return ledger.Approval{}, fmt.Errorf("%s %s: %w", verb, d.Approval, err)
	}
	return a, nil
}

func (s *Store) decide(ctx context.Context, tx Tx, d ledger.Decision) (ledger.Approval, error) {
	var run ledger.State
	var trace string
	a, err := scanApproval(tx.QueryRow(ctx, `
		SELECT `+approvalColumns+`, r.state, r.trace FROM approvals a JOIN runs r ON r.id = a.run_id WHERE a.id = $1 FOR UPDATE OF a`, d.Approval), time.Time{}, &run, &trace)
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return a, err
	}
	now, err := tx.Now(ctx) // after the lock
	if err != nil {
		return a, err
	}
	switch {
	case !d.Digest.IsZero() && d.Digest != a.Digest:
		return a, fmt.Errorf("shown was %s, asked is %s: %w", d.Digest, a.Digest, ledger.ErrOtherCall)
	case a.State == ledger.ApprovalExpired && a.Reason != "":
		return a, fmt.Errorf("%s: %w", a.Reason, ledger.ErrExpired)
	case a.State == ledger.ApprovalExpired, a.State == ledger.ApprovalRequested && !a.ExpiresAt.After(now):
		return a, fmt.Errorf("it was to be answered by %s: %w", a.ExpiresAt.Format(time.RFC3339), ledger.ErrExpired)
	case a.State != ledger.ApprovalRequested:
		return a, fmt.Errorf("%s by %s at %s: %w", a.State, who(a.By, a.Role), a.DecidedAt.Format(time.RFC3339), ledger.ErrDecided)
	case run.Ended():
		return a, fmt.Errorf("run %s is %s: %w", a.Run, run, ledger.ErrEnded)
	}
	if a.Role, err = roleOf(ctx, tx); err != nil {
		return a, err
	}
	a.State, a.By, a.Reason, a.DecidedAt = ledger.ApprovalDenied, d.By, d.Reason, now
	if d.Approve {
		a.State = ledger.ApprovalApproved
	}
	err = one(tx.Exec(ctx, `
		UPDATE approvals SET state = $2, decided_by = $3, decided_role = $4, reason = $5, decided_at = $6 WHERE id = $1 AND state = 'requested'`,
		a.ID, a.State, a.By, a.Role, a.Reason, now))
	if err != nil {
		return a, err
	}
	_, _, err = s.addFact(ctx, tx, a.Run, events.DerivedID(a.ID, events.TypeOf(events.ApprovalDecided{})), events.ApprovalDecided{
		Approval: a.ID, Decision: string(a.State), By: who(a.By, a.Role), Reason: a.Reason,
	}, trace)
	return a, err
}

// Approval implements ledger.Approvals.
func (s *Store) Approval(ctx context.Context, id events.ID) (a ledger.Approval, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		a, err = scanApproval(tx.QueryRow(ctx, `SELECT `+approvalColumns+` FROM approvals a WHERE a.id = $1`, id), now)
		if errors.Is(err, ErrNoRows) {
			err = ledger.ErrNotFound
		}
		return err
	})
	if err != nil {
		return ledger.Approval{}, fmt.Errorf("read approval %s: %w", id, err)
	}
	return a, nil
}

// Approvals implements ledger.Approvals.
func (s *Store) Approvals(ctx context.Context, f ledger.ApprovalFilter) (as []ledger.Approval, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		as, err = listApprovals(ctx, tx, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return as, nil
}

// openApproval holds for an approval a of a run r that somebody can still give; %d is the
// number of the parameter now.
const openApproval = `a.state = 'requested' AND a.expires_at > $%d AND r.state NOT IN ('finished', 'failed', 'cancelled')`

func listApprovals(ctx context.Context, tx Tx, f ledger.ApprovalFilter) ([]ledger.Approval, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	var c condition
	where := []string{"true"}
	if f.Open {
		where = append(where, fmt.Sprintf(openApproval, c.arg(now)))
	}
	if f.Tenant != "" {
		where = append(where, fmt.Sprintf("a.tenant = $%d", c.arg(f.Tenant)))
	}
	if f.Owner != "" {
		where = append(where, fmt.Sprintf("r.owner = $%d", c.arg(f.Owner)))
	}
	if !f.Run.IsZero() {
		where = append(where, fmt.Sprintf("a.run_id = $%d", c.arg(f.Run)))
	}
	if !f.After.IsZero() {
		where = append(where, fmt.Sprintf("a.id > $%d", c.arg(f.After)))
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	q := `SELECT ` + approvalColumns + ` FROM approvals a JOIN runs r ON r.id = a.run_id WHERE ` + strings.Join(where, " AND ") +
		fmt.Sprintf(` ORDER BY a.id LIMIT $%d`, c.arg(f.Limit))
	rows, err := tx.Query(ctx, q, c.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var as []ledger.Approval
	for rows.Next() {
		a, err := scanApproval(rows, now)
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	return as, rows.Err()
}

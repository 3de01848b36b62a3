package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Spawn implements ledger.Children.
func (s *Store) Spawn(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Submission, h ledger.Handoff) (child ledger.Run, facts []events.Fact, err error) {
	fail := func(err error) (ledger.Run, []events.Fact, error) {
		return ledger.Run{}, nil, fmt.Errorf("spawn child of run %s: %w", l.RunID, err)
	}
	h.Reason = events.ParkChild
	if h, err = normalHandoff(l, h); err != nil {
		return fail(err)
	}
	if !h.OpKey.IsZero() {
		return fail(errors.New("a child run is no effect of its own: the call must be readonly or idempotent"))
	}
	id := in.ID
	if id.IsZero() {
		id = s.cfg.IDs.Run()
	}
	err = s.barrier(ctx, "spawn child of", l, p, nil, func(ctx context.Context, tx Tx, at holder) (refusal, err error) {
		if at.run.State != ledger.Running {
			return fmt.Errorf("it is %s: %w", at.run.State, ledger.ErrEnded), nil
		}
		child, err = s.spawn(ctx, tx, at, id, in, h)
		if errors.Is(err, ledger.ErrTooDeep) || errors.Is(err, ledger.ErrTooManyChildren) || errors.Is(err, ledger.ErrClientKeyConflict) ||
			errors.Is(err, ledger.ErrBudget) {
			return err, nil // nothing was inserted but the parent's own budget
		}
		if err != nil {
			return nil, err
		}
		if facts, err = pendingFacts(ctx, tx, l.RunID); err != nil {
			return nil, err
		}
		return nil, away(fault.Err("child.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("child.after_commit"))
	}
	if err != nil {
		return fail(err)
	}
	if in.Budget != nil || h.RunLimit != nil {
		s.budgets.noticed()
	}
	return child, facts, nil
}

func (s *Store) spawn(ctx context.Context, tx Tx, at holder, id events.RunID, in ledger.Submission, h ledger.Handoff) (ledger.Run, error) {
	parent := at.run
	in.Parent, in.Root, in.Tenant = parent.ID, parent.Root, parent.Tenant
	in.Owner, in.SessionID, in.Priority, in.Trace = parent.Owner, parent.SessionID, parent.Priority, h.Trace
	if in.Trace == "" {
		in.Trace = parent.Trace
	}
	if !parent.Deadline.IsZero() && (in.Deadline.IsZero() || parent.Deadline.Before(in.Deadline)) {
		in.Deadline = parent.Deadline
	}
	if in.Queue == "" {
		in.Queue = parent.Queue
	}
	if err := checkSubmission(in); err != nil {
		return ledger.Run{}, err
	}
	if err := s.mayHaveChild(ctx, tx, parent, in); err != nil {
		return ledger.Run{}, err
	}
	if h.RunLimit != nil { // a run that has reserved nothing yet has no budget that its children could count against
		if err := s.makeRunBudget(ctx, tx, parent, *h.RunLimit, "agent "+parent.Agent, at.now); err != nil {
			return ledger.Run{}, err
		}
	}
	if in.Budget != nil { // before anything is inserted: it may be refused
		if err := s.grantChild(ctx, tx, at, id, in, h); err != nil {
			return ledger.Run{}, err
		}
	}
	child, existed, err := s.submitted(ctx, tx, id, in, "run "+parent.ID.String())
	if err != nil {
		return ledger.Run{}, err
	}
	if existed && child.Parent != parent.ID {
		return ledger.Run{}, fmt.Errorf("run %s is not a child of this run: %w", child.ID, ledger.ErrClientKeyConflict)
	}
	if parent.ForkEffects != "" && !existed {
		// What a fork does not do itself it does not have done by another run either.
		if err := one(tx.Exec(ctx, `UPDATE runs SET fork_effects = $2 WHERE id = $1`, child.ID, parent.ForkEffects)); err != nil {
			return ledger.Run{}, err
		}
		child.ForkEffects = parent.ForkEffects
	}
	started := events.ChildStarted{Child: child.ID, Call: h.Call, Budget: in.Budget}
	if _, _, err := s.addFact(ctx, tx, parent.ID, events.DerivedID(h.Token, events.TypeOf(started)), started, h.Trace); err != nil {
		return ledger.Run{}, err
	}
	h.Child = child.ID
	return child, s.register(ctx, tx, h, at.now)
}

// mayHaveChild refuses a child beyond the bounds of a lineage. One that is
// there already is not counted against its own making.
func (s *Store) mayHaveChild(ctx context.Context, tx Tx, parent ledger.Run, in ledger.Submission) error {
	var n int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM runs WHERE parent_id = $1 AND NOT (tenant = $2 AND client_key = $3)`,
		parent.ID, in.Tenant, in.ClientKey).Scan(&n)
	if err != nil {
		return fmt.Errorf("count children: %w", err)
	}
	if n >= ledger.MaxChildren {
		return fmt.Errorf("it has %d, the most there may be: %w", n, ledger.ErrTooManyChildren)
	}
	depth := 1
	for id := parent.Parent; !id.IsZero(); depth++ {
		if depth >= ledger.MaxDepth {
			return fmt.Errorf("it has %d ancestors, the most there may be: %w", depth, ledger.ErrTooDeep)
		}
		var up events.RunID
		err := tx.QueryRow(ctx, `SELECT parent_id FROM runs WHERE id = $1`, id).Scan(&up)
		if errors.Is(err, ErrNoRows) {
			break
		}
		if err != nil {
			return fmt.Errorf("read parent of run %s: %w", id, err)
		}
		id = up
	}
	return nil
}

// completeParent hands the end of a run to the call that waits for it. The
// run's row is locked and says that it ended; its parent's is not touched: the
// facts wake it. A run that is tried again is not the end of the work: its
// successor answers in its place.
func (s *Store) completeParent(ctx context.Context, tx Tx, run ledger.Run, end ledger.Ending) error {
	if run.Parent.IsZero() {
		return nil
	}
	var again events.RunID
	if err := tx.QueryRow(ctx, `SELECT successor FROM runs WHERE id = $1`, run.ID).Scan(&again); err != nil {
		return fmt.Errorf("read who tries run %s again: %w", run.ID, err)
	}
	if !again.IsZero() {
		return inheritParent(ctx, tx, run.ID, again)
	}
	hs, err := readHandoffs(ctx, tx, `h.child_id = $1 AND h.state = 'open' FOR UPDATE`, run.ID)
	if err != nil {
		return err
	}
	for _, h := range hs {
		if err := s.completeByChild(ctx, tx, h, run, end); err != nil {
			return fmt.Errorf("complete %s of parent %s: %w", h.Call, h.Run, err)
		}
	}
	return nil
}

// inheritParent makes the calls that wait for a run wait for another one.
func inheritParent(ctx context.Context, tx Tx, from, to events.RunID) error {
	_, err := tx.Exec(ctx, `UPDATE handoffs SET child_id = $2 WHERE child_id = $1 AND state = 'open'`, from, to)
	if err != nil {
		return fmt.Errorf("hand the parent of run %s on to run %s: %w", from, to, err)
	}
	return nil
}

func (s *Store) completeByChild(ctx context.Context, tx Tx, h handoffRow, run ledger.Run, end ledger.Ending) error {
	c := ledger.Completion{Token: h.Token, By: "run " + run.ID.String()}
	finished := events.ChildFinished{Child: run.ID, StoppedBy: end.StoppedBy, Output: end.Result, Error: cut(end.Error)}
	if len(finished.Output) > maxForeignBytes {
		finished.Output = nil // it stands in the child's own record
	}
	if h.Trust != trustOwn || !end.Own {
		h.Trust = trustExternal // what nobody vouches for has come from outside
	}
	if end.State == ledger.Finished {
		c.Kind, c.Result.Output = ledger.Applied, broughtBack(end)
	} else {
		c.Kind, c.Error = ledger.NotApplied, whyStopped(run, end)
	}
	c, err := s.normalCompletion(c)
	if err != nil {
		return err
	}
	digest, err := digestOf(c)
	if err != nil {
		return err
	}
	if _, _, err := s.addFact(ctx, tx, h.Run, events.DerivedID(h.Token, events.TypeOf(finished)), finished, h.Trace); err != nil {
		return err
	}
	return s.completeCall(ctx, tx, h, c, digest)
}

// Trust of the outcome of a call, as hand-offs and results have it. Stored; never renamed.
const (
	trustOwn      = "own"
	trustExternal = "external"
)

// broughtBack is what the model of a run that waited for a child is told of one that finished.
func broughtBack(end ledger.Ending) string {
	text := end.Answer
	if text == "" {
		text = outputText(end.Result)
	}
	switch {
	case end.StoppedBy == events.StoppedByDeclined:
		because := ledger.Run{StoppedBy: end.StoppedBy, Result: end.Result}.DeclinedBecause()
		if because == "" {
			because = text
		}
		return "the agent declined: " + because
	case text != "" && text != "null":
	case end.StoppedBy == events.StoppedByArtifactFailed:
		return "the agent ended without an answer: what it made was refused to the end"
	case end.StoppedBy == events.StoppedByMaxTurns:
		return "the agent ended without an answer: it had no turns left"
	default:
		return "the agent ended without an answer"
	}
	return text
}

// whyStopped is what it is told of one that did not finish: which kind of end it was,
// so that it can go on with something else or ask for less.
func whyStopped(run ledger.Run, end ledger.Ending) events.ErrorInfo {
	e := events.ErrorInfo{Kind: "child_" + string(end.State), Message: end.Error}
	if end.State == ledger.Cancelled {
		e.Message = "it was cancelled"
		if run.CancelReason != "" {
			e.Message += " by " + run.CancelBy + ": " + run.CancelReason
		}
	}
	if e.Message == "" {
		e.Message = "it was " + string(end.State)
	}
	var how string
	switch end.StoppedBy {
	case events.StoppedByBudget:
		how = "its budget does not allow more"
	case events.StoppedByDeadline:
		how = "its time was up"
	case events.StoppedByMaxTurns:
		how = "it had no turns left"
	case events.StoppedByArtifactFailed:
		how = "what it made was refused to the end"
	default:
		how = string(end.StoppedBy)
	}
	if how != string(end.StoppedBy) {
		e.Kind = "child_" + string(end.StoppedBy)
	}
	e.Message = fmt.Sprintf("child run %s stopped without an answer (%s): %s", run.ID, how, e.Message)
	return e
}

// cancelDescendants asks every descendant of a locked run that has not ended to
// stop. Rows are locked in the order of their ids, which is that of their making.
func (s *Store) cancelDescendants(ctx context.Context, tx Tx, run ledger.Run, op operation) error {
	below, err := readRuns(ctx, tx, `
		WITH RECURSIVE below (id) AS (
			SELECT r.id FROM runs r WHERE r.parent_id = $1
			UNION SELECT r.id FROM runs r JOIN below b ON r.parent_id = b.id
		)
		SELECT `+runColumns+` FROM runs r
		WHERE r.id IN (SELECT id FROM below) AND r.state IN ('queued', 'running', 'parked') ORDER BY r.id FOR NO KEY UPDATE OF r`, run.ID)
	if err != nil {
		return fmt.Errorf("look for descendants: %w", err)
	}
	for _, r := range below {
		op.fact = s.cfg.IDs.Event()
		if err := s.cancelLocked(ctx, tx, r, op); err != nil {
			return fmt.Errorf("cancel descendant %s: %w", r.ID, err)
		}
	}
	return nil
}

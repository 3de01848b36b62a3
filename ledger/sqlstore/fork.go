package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Fork implements ledger.Forks.
func (s *Store) Fork(ctx context.Context, r ledger.ForkRequest) (run ledger.Run, existed bool, err error) {
	fail := func(err error) (ledger.Run, bool, error) {
		return ledger.Run{}, false, fmt.Errorf("fork run %s at event %d: %w", r.Run, r.Seq, err)
	}
	if _, err := ledger.ParseForkEffects(string(r.Effects)); err != nil {
		return fail(err)
	}
	if r.By == "" {
		return fail(errors.New("a fork names who asked for it"))
	}
	if r.Seq == 0 {
		return fail(fmt.Errorf("events count from 1: %w", ledger.ErrNoSuchEvent))
	}
	r.By = s.cfg.Redactor.String(r.By)
	if r.Note.IsZero() {
		if r.Note, err = s.cfg.Redactor.JSON(nil); err != nil {
			return fail(err)
		}
	}
	id, fact := s.cfg.IDs.Run(), s.cfg.IDs.Event()
	if r.ClientKey == "" {
		r.ClientKey = "fork/" + id.String()
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if run, existed, err = s.fork(ctx, tx, id, fact, r); err != nil {
			return err
		}
		return away(fault.Err("fork.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("fork.after_commit"))
	}
	if err != nil {
		return fail(err)
	}
	return run, existed, nil
}

func (s *Store) fork(ctx context.Context, tx Tx, id events.RunID, fact events.ID, r ledger.ForkRequest) (ledger.Run, bool, error) {
	of, err := lockRun(ctx, tx, r.Run)
	if err != nil {
		return ledger.Run{}, false, err
	}
	// A gapless beginning of the archive is what every later epoch starts behind,
	// so nothing of it is ever set aside.
	var has uint64
	err = tx.QueryRow(ctx, `SELECT count(*) FROM events WHERE run_id = $1 AND seq <= $2`, r.Run, r.Seq).Scan(&has)
	switch {
	case err != nil:
		return ledger.Run{}, false, fmt.Errorf("count events: %w", err)
	case has != r.Seq:
		return ledger.Run{}, false, fmt.Errorf("%d of %d events are there: %w", has, r.Seq, ledger.ErrNoSuchEvent)
	}
	trace := r.Trace
	if trace == "" {
		trace = of.Trace
	}
	run, existed, err := submit(ctx, tx, id, ledger.Submission{
		Tenant: of.Tenant, Queue: of.Queue, Agent: of.Agent, ClientKey: r.ClientKey, Input: r.Note, InputMAC: forkMAC(r),
		Owner: of.Owner, SessionID: of.SessionID, Root: of.Root, Requires: of.Requires, Priority: of.Priority, Trace: trace,
		ConcurrencyKey: of.ConcurrencyKey,
	})
	if err != nil || existed {
		return run, existed, err
	}
	err = one(tx.Exec(ctx, `UPDATE runs SET fork_of = $2, fork_seq = $3, fork_effects = $4, loop = $5, guard = $6, prompt = $7 WHERE id = $1`, run.ID, r.Run, r.Seq, r.Effects, of.Loop, of.Guard, of.Prompt))
	if err != nil {
		return ledger.Run{}, false, err
	}
	run.ForkOf, run.ForkSeq, run.ForkEffects, run.Loop, run.Guard, run.Prompt = r.Run, r.Seq, r.Effects, of.Loop, of.Guard, of.Prompt
	acted := events.OperatorActed{
		Verb: "fork", By: r.By, Detail: fmt.Sprintf("run %s begins with this history up to event %d, effects %s", run.ID, r.Seq, r.Effects),
	}
	_, _, err = s.addFact(ctx, tx, r.Run, fact, acted, of.Trace)
	return run, false, err
}

// forkMAC tells forks apart that are asked for with one client key. What goes
// into it is redacted, so it needs no key.
func forkMAC(r ledger.ForkRequest) []byte {
	b := append([]byte("daybook/fork/1\x00"), r.Run[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = append(append(b, r.Effects...), 0)
	sum := sha256.Sum256(append(b, r.Note.Bytes()...))
	return sum[:]
}

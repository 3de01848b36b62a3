package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// projecting is what a Store remembers for the projector between calls; all of
// it could be lost at any time.
type projecting struct {
	folds foldCache

	mu     sync.Mutex
	behind events.RunID // where FoldBehind goes on
	unfed  events.RunID // where Unfed goes on
}

// arrival is an event from the journal, with where it came from.
type arrival struct {
	sealed  events.Sealed
	event   events.Event
	unknown error // why this build cannot decode it
	message events.Message
}

// poison is what cannot be projected.
type poison struct {
	run     events.RunID // zero if not known
	seq     uint64       // 0 if not known
	message events.Message
	data    []byte
	reason  string
}

// Project implements ledger.Projection.
func (s *Store) Project(ctx context.Context, batch []ledger.Incoming) (p ledger.Projected, err error) {
	err = s.comparing(ctx, func() error {
		p, err = s.projectBatch(ctx, batch)
		return err
	})
	return p, err
}

func (s *Store) projectBatch(ctx context.Context, batch []ledger.Incoming) (ledger.Projected, error) {
	as, bad := s.prepare(ctx, batch)
	if len(as) == 0 && len(bad) == 0 {
		return ledger.Projected{}, s.pass(ctx, batch)
	}
	fault.Point("projector.before_tx")
	p, err := s.projectParts(ctx, as, bad)
	if back := new(ledger.RollbackError); errors.As(err, &back) {
		err = s.raise(ctx, back)
	}
	if err == nil && slices.ContainsFunc(batch, func(in ledger.Incoming) bool {
		return in.Err == nil && len(in.Events) == 0 && len(in.Rejected) == 0
	}) {
		err = s.pass(ctx, batch)
	}
	if err != nil {
		return p, fmt.Errorf("project %d messages with %d events: %w", len(batch), len(as), err)
	}
	fault.Point("projector.after_commit")
	return p, nil
}

// prepare decodes the batch and looks for secrets before there is a transaction.
func (s *Store) prepare(ctx context.Context, batch []ledger.Incoming) ([]arrival, []poison) {
	var as []arrival
	var bad []poison
	for _, in := range batch {
		m := in.Message
		m.Data = nil // the events hold what is needed of it
		if in.Err != nil {
			bad = append(bad, poison{message: m, data: in.Message.Data, reason: in.Err.Error()})
		}
		for _, r := range in.Rejected {
			bad = append(bad, poison{message: m, data: r.Bytes, reason: r.Err.Error()})
		}
		for _, e := range in.Events {
			a := arrival{sealed: e, message: m}
			leak, err := s.decode(e, &a)
			switch {
			case leak:
				env := e.Envelope()
				s.cfg.Logger.ErrorContext(ctx, "secret found in a recorded event: its writer did not redact it; the event is in quarantine",
					"run", env.RunID, "seq", env.Seq, "type", env.Type, "worker", m.Worker)
				bad = append(bad, poison{env.RunID, env.Seq, m, e.Bytes(), "the redactor found a secret in a recorded event"})
			case err != nil:
				env := e.Envelope()
				bad = append(bad, poison{env.RunID, env.Seq, m, e.Bytes(), err.Error()})
			default:
				as = append(as, a)
			}
		}
	}
	slices.SortStableFunc(as, func(a, b arrival) int {
		x, y := a.sealed.Envelope(), b.sealed.Envelope()
		if c := bytes.Compare(x.RunID[:], y.RunID[:]); c != 0 {
			return c
		}
		switch {
		case x.Seq < y.Seq:
			return -1
		case x.Seq > y.Seq:
			return 1
		}
		return 0
	})
	return as, bad
}

// decode reads the data of e into a. leak says that it holds a secret; an error
// that this build should be able to read it but cannot.
func (s *Store) decode(e events.Sealed, a *arrival) (leak bool, err error) {
	env := e.Envelope()
	raw, err := e.Data()
	if err != nil {
		return false, err
	}
	if !s.cfg.TrustRecorded {
		// What tools declare about their arguments is not known here, so only
		// registered secrets and key names count, which nothing exempts.
		again, err := s.cfg.Redactor.JSON(raw, "/*")
		if err != nil {
			return false, err
		}
		if !bytes.Equal(again.Bytes(), raw) {
			return true, nil
		}
	}
	p, err := events.DecodePayload(env.Type, env.Version, raw)
	switch {
	case errors.Is(err, events.ErrUnknownType), errors.Is(err, events.ErrUnknownVersion):
		a.unknown = err
	case err != nil:
		return false, err
	default:
		a.event = events.Event{Envelope: env, Hash: e.Hash(), Data: p}
	}
	return false, nil
}

// projectParts projects in one transaction, or in parts if the database refuses
// the whole: one poisonous event must not block the others.
func (s *Store) projectParts(ctx context.Context, as []arrival, bad []poison) (ledger.Projected, error) {
	p, err := s.projectOnce(ctx, as, bad, nil, plainly)
	if err != nil && s.refused(ctx, err) {
		p, err = s.projectOnce(ctx, as, bad, nil, carefully)
	}
	if err == nil || !s.refused(ctx, err) {
		return p, err
	}
	switch {
	case len(as) > 1:
		p, err := s.projectParts(ctx, as[:len(as)/2], bad)
		if err != nil {
			return p, err
		}
		q, err := s.projectParts(ctx, as[len(as)/2:], nil)
		return add(p, q), err
	case len(as) == 0:
		return p, err
	}
	env := as[0].sealed.Envelope()
	s.cfg.Logger.ErrorContext(ctx, "the database refuses an event", "run", env.RunID, "seq", env.Seq, "type", env.Type, "error", s.cfg.Redactor.Error(err))
	// Perhaps it refuses only what the fold makes of this run.
	if p, archived := s.projectOnce(ctx, as, bad, nil, archiving); archived == nil {
		return p, s.markRefused(ctx, env.RunID, err)
	}
	bad = append(slices.Clip(bad), poison{env.RunID, env.Seq, as[0].message, as[0].sealed.Bytes(), err.Error()})
	return s.projectOnce(ctx, nil, bad, nil, carefully)
}

// refused reports whether it was the data that the database did not take.
func (s *Store) refused(ctx context.Context, err error) bool {
	var injected *fault.Error
	return !errors.Is(err, ledger.ErrUnavailable) && !errors.As(err, &injected) && ctx.Err() == nil && s.db.Check(ctx) == nil
}

// markRefused notes that folding a run fails, so that only FoldBehind tries it.
func (s *Store) markRefused(ctx context.Context, run events.RunID, cause error) error {
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, `UPDATE run_folds SET incomplete = 'seq ' || (folded_seq + 1) || $2 WHERE run_id = $1`,
			run, foldRefused+s.cfg.Redactor.Error(cause).Error())
		if err != nil {
			return fmt.Errorf("mark run %s incomplete: %w", run, err)
		}
		return nil
	})
}

func add(p, q ledger.Projected) ledger.Projected {
	return ledger.Projected{
		Events: p.Events + q.Events, Duplicates: p.Duplicates + q.Duplicates, SetAside: p.SetAside + q.SetAside,
		Quarantined: p.Quarantined + q.Quarantined, Folded: p.Folded + q.Folded,
	}
}

// Quarantine implements ledger.Projection.
func (s *Store) Quarantine(ctx context.Context, m events.Message, reason string, data []byte) error {
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		_, err := s.putQuarantine(ctx, tx, []poison{{message: m, data: data, reason: reason}})
		return err
	})
}

// putQuarantine keeps what cannot be projected, redacted like everything else,
// and returns how many of it are new.
func (s *Store) putQuarantine(ctx context.Context, tx Tx, ps []poison) (int, error) {
	if len(ps) == 0 {
		return 0, nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	rows := make([][]any, len(ps))
	for i, p := range ps {
		kept := p.data
		if safe := s.cfg.Redactor.String(string(p.data)); safe != string(p.data) {
			kept = []byte(safe)
		}
		reason := storable(s.cfg.Redactor.String(p.reason))
		rows[i] = []any{p.run, storable(p.message.Worker), int64(p.message.Sequence), events.Hash(sha256.Sum256(p.data)), kept, reason, now} //nolint:gosec // a stream's sequence
	}
	n, err := tx.InsertMany(ctx, "quarantine", []string{"run_id", "worker", "stream_seq", "digest", "bytes", "reason", "received_at"}, rows, "ON CONFLICT (digest) DO NOTHING")
	if err != nil {
		return 0, fmt.Errorf("quarantine %d values: %w", len(ps), err)
	}
	for _, p := range ps {
		s.cfg.Logger.ErrorContext(ctx, "quarantined", "run", p.run, "seq", p.seq, "worker", p.message.Worker, "reason", s.cfg.Redactor.String(p.reason))
	}
	return int(n), nil
}

// storable makes an error's text fit a text column.
func storable(s string) string {
	return string(bytes.ReplaceAll(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")), []byte{0}, []byte("\uFFFD")))
}

package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

const (
	// foldPage is how many events are read from the archive at once, foldPages
	// how many such reads one transaction makes for a run; the rest waits for
	// FoldBehind, so that a long tail does not hold the locks of a batch.
	foldPage  = 500
	foldPages = 10
)

// projectMode says how a batch is projected.
type projectMode int

const (
	// plainly is the fast way: an event whose id stands at another place fails the batch.
	plainly projectMode = iota + 1
	// carefully finds such an event and refuses it alone.
	carefully
	// archiving is carefully, and folds nothing.
	archiving
	// again is carefully, for a database that is being reconciled.
	again
)

// What run_folds.incomplete says after "seq N", and until when it stands.
const (
	foldMissing    = ": missing: "                 // until folded
	foldUnreadable = ": cannot be read: "          // until folded, by a later build
	foldRefused    = ": the fold was refused: "    // until folded; Project does not try
	foldPoison     = ": quarantined: "             // until folded
	foldFork       = ": another event stands here" // for ever
)

// epochBase is a row of run_epochs.
type epochBase struct{ epoch, seq uint64 }

// runWork is one run of a batch, its run_folds row locked.
type runWork struct {
	run        events.RunID
	folded     uint64
	top        uint64 // highest seq in events
	wasTop     uint64 // before this transaction
	incomplete string
	open       []byte
	queue      string
	agent      string
	bases      []epochBase // oldest first
	arrivals   []arrival

	present map[uint64]*arrival // by seq: in the archive after this transaction
	fold    *ledger.Fold        // nil if nothing was folded
	changed bool
}

// batchTx is one projecting transaction.
type batchTx struct {
	s       *Store
	tx      Tx
	now     time.Time
	mode    projectMode
	marking bool // a gap is old enough to be called one
	runs    map[events.RunID]*runWork
	order   []*runWork // by run id
	bad     []poison
	rows    ledger.Rows
	billed  []billed
	out     ledger.Projected
	to      reach // how far this goes in the journal
}

// projectOnce archives and folds in one transaction. more are runs to fold
// without an event of theirs having arrived.
func (s *Store) projectOnce(ctx context.Context, as []arrival, bad []poison, more []events.RunID, mode projectMode) (ledger.Projected, error) {
	var b *batchTx
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		b = &batchTx{s: s, tx: tx, mode: mode, marking: len(more) > 0, runs: map[events.RunID]*runWork{}, bad: slices.Clone(bad)}
		if err := b.run(ctx, as, more); err != nil {
			return err
		}
		return fault.Err("projector.before_commit")
	})
	if err != nil {
		return ledger.Projected{}, err
	}
	for _, w := range b.order {
		if w.fold != nil {
			s.projecting.folds.put(w.fold)
		}
	}
	for incarnation, sequence := range b.to {
		s.witness.remember(incarnation, sequence, b.now)
	}
	return b.out, nil
}

func (b *batchTx) run(ctx context.Context, as []arrival, more []events.RunID) (err error) {
	if b.now, err = b.tx.Now(ctx); err != nil {
		return err
	}
	ids := slices.Clone(more)
	to := reach{}
	for _, a := range as {
		to.add(a.message)
		ids = append(ids, a.sealed.Envelope().RunID)
	}
	for _, p := range b.bad {
		to.add(p.message)
		if !p.run.IsZero() {
			ids = append(ids, p.run)
		}
	}
	slices.SortFunc(ids, func(a, b events.RunID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	if b.mode != again {
		if err := b.s.advance(ctx, b.tx, to, b.now); err != nil {
			return err
		}
		b.to = to
	}
	if err := b.lock(ctx, ids); err != nil {
		return err
	}
	for _, a := range as {
		if w := b.runs[a.sealed.Envelope().RunID]; w != nil {
			w.arrivals = append(w.arrivals, a)
		} else {
			b.refuse(nil, a, "the ledger has no such run")
		}
	}
	if err := b.archive(ctx); err != nil {
		return err
	}
	for _, w := range b.order {
		if err := b.foldRun(ctx, w); err != nil {
			return err
		}
	}
	return b.finish(ctx)
}

// lock locks the folds of runs in the order of their ids, making those that are
// missing, and only then reads the epochs: whoever writes a base holds the same lock.
func (b *batchTx) lock(ctx context.Context, ids []events.RunID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := makeFolds(ctx, b.tx, ids); err != nil {
		return err
	}
	rows, err := b.tx.Query(ctx, `
		SELECT run_id, folded_seq, top_seq, incomplete, open FROM run_folds
		WHERE `+b.tx.InIDs("run_id", 1)+` ORDER BY run_id FOR UPDATE`, ids)
	if err != nil {
		return fmt.Errorf("lock folds: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		w := &runWork{present: map[uint64]*arrival{}}
		if err := rows.Scan(&w.run, &w.folded, &w.top, &w.incomplete, &w.open); err != nil {
			return fmt.Errorf("lock folds: %w", err)
		}
		w.wasTop = w.top
		b.runs[w.run] = w
		b.order = append(b.order, w)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("lock folds: %w", err)
	}
	rows.Close()
	return b.readBases(ctx, ids)
}

func (b *batchTx) readBases(ctx context.Context, ids []events.RunID) error {
	rows, err := b.tx.Query(ctx, `
		SELECT r.id, r.queue, r.agent, coalesce(e.epoch, 0), coalesce(e.base_seq, 0) FROM runs r LEFT JOIN run_epochs e ON e.run_id = r.id
		WHERE `+b.tx.InIDs("r.id", 1)+` ORDER BY r.id, e.epoch`, ids)
	if err != nil {
		return fmt.Errorf("read epochs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var run events.RunID
		var queue, agent string
		var e epochBase
		if err := rows.Scan(&run, &queue, &agent, &e.epoch, &e.seq); err != nil {
			return fmt.Errorf("read epochs: %w", err)
		}
		if w := b.runs[run]; w != nil {
			w.queue, w.agent = queue, agent
			if e.epoch > 0 {
				w.bases = append(w.bases, e)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read epochs: %w", err)
	}
	return nil
}

// validity of an event by the epochs of its run.
type validity int

const (
	valid   validity = iota + 1
	fenced           // a later epoch starts before it
	unknown          // no holder can have numbered it so
)

func (w *runWork) judge(e events.Envelope) validity {
	own := false
	for _, b := range w.bases {
		switch {
		case b.epoch == e.Epoch:
			own = e.Seq > b.seq
		case b.epoch > e.Epoch && e.Seq > b.seq && !bug.On(bug.NoEpochBase):
			return fenced
		}
	}
	if !own {
		return unknown
	}
	return valid
}

// archive decides about every arrival and inserts the valid ones that are new.
func (b *batchTx) archive(ctx context.Context) error {
	var fresh []events.Sealed
	var from []*arrival
	var aside []events.Sealed
	for _, w := range b.order {
		there, err := b.there(ctx, w)
		if err != nil {
			return err
		}
		for i := range w.arrivals {
			a := &w.arrivals[i]
			env := a.sealed.Envelope()
			switch v := w.judge(env); {
			case v == fenced:
				aside = append(aside, a.sealed)
				continue
			case v == unknown:
				b.refuse(w, *a, fmt.Sprintf("epoch %d was never given, or starts behind it", env.Epoch))
				continue
			}
			h, ok := there[env.Seq]
			switch {
			case !ok:
				there[env.Seq] = a.sealed.Hash()
				w.present[env.Seq] = a
				fresh, from = append(fresh, a.sealed), append(from, a)
			case h == a.sealed.Hash():
				w.present[env.Seq] = a
				b.out.Duplicates++
			default:
				b.fork(ctx, w, *a, h)
			}
		}
	}
	b.out.SetAside += len(aside)
	b.billed = append(b.billed, billedLate(aside)...)
	if err := b.s.setAside(ctx, b.tx, aside, "projected after a later epoch had begun before it"); err != nil {
		return err
	}
	return b.insert(ctx, fresh, from)
}

// there returns the hashes of a run's events at the places of its arrivals.
func (b *batchTx) there(ctx context.Context, w *runWork) (map[uint64]events.Hash, error) {
	hashes := map[uint64]events.Hash{}
	if len(w.arrivals) == 0 {
		return hashes, nil
	}
	first, last := w.arrivals[0].sealed.Envelope().Seq, w.arrivals[len(w.arrivals)-1].sealed.Envelope().Seq
	if first > w.top {
		return hashes, nil
	}
	rows, err := b.tx.Query(ctx, `SELECT seq, hash FROM events WHERE run_id = $1 AND seq >= $2 AND seq <= $3`, w.run, first, min(last, w.top))
	if err != nil {
		return nil, fmt.Errorf("compare events of run %s: %w", w.run, err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq uint64
		var h events.Hash
		if err := rows.Scan(&seq, &h); err != nil {
			return nil, fmt.Errorf("compare events of run %s: %w", w.run, err)
		}
		hashes[seq] = h
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("compare events of run %s: %w", w.run, err)
	}
	return hashes, nil
}

// insert puts new events into the archive. The folds are locked, so nobody else
// can have put one of them there; what still does not go in has an event id
// that stands at another place.
func (b *batchTx) insert(ctx context.Context, fresh []events.Sealed, from []*arrival) error {
	if len(fresh) == 0 {
		return nil
	}
	rows := make([][]any, len(fresh))
	for i, e := range fresh {
		rows[i] = eventRow(e)
	}
	conflict := "ON CONFLICT DO NOTHING"
	if b.mode == plainly {
		conflict = ""
	}
	n, err := b.tx.InsertMany(ctx, "events", eventColumns, rows, conflict)
	if err != nil {
		return fmt.Errorf("insert %d events: %w", len(fresh), err)
	}
	b.out.Events += int(n)
	for i, e := range fresh {
		env := e.Envelope()
		w := b.runs[env.RunID]
		if n != int64(len(fresh)) {
			var h events.Hash
			err := b.tx.QueryRow(ctx, `SELECT hash FROM events WHERE run_id = $1 AND seq = $2`, env.RunID, env.Seq).Scan(&h)
			if errors.Is(err, ErrNoRows) {
				delete(w.present, env.Seq)
				b.refuse(w, *from[i], fmt.Sprintf("its event id %s stands at another sequence", env.ID))
				continue
			}
			if err != nil {
				return fmt.Errorf("compare event: run %s seq %d: %w", env.RunID, env.Seq, err)
			}
		}
		if env.Seq > w.top {
			w.top, w.changed = env.Seq, true
		}
	}
	return nil
}

// refuse puts an event into quarantine.
func (b *batchTx) refuse(w *runWork, a arrival, reason string) {
	p := poison{message: a.message, data: a.sealed.Bytes(), reason: reason, seq: a.sealed.Envelope().Seq}
	if w != nil {
		p.run = w.run
	}
	b.bad = append(b.bad, p)
}

// fork handles a second event for one place: never overwritten, always loud.
func (b *batchTx) fork(ctx context.Context, w *runWork, a arrival, stands events.Hash) {
	env := a.sealed.Envelope()
	b.s.cfg.Logger.ErrorContext(ctx, "fork: two valid events for one sequence; the first one stands",
		"run", env.RunID, "seq", env.Seq, "epoch", env.Epoch, "stands", stands, "refused", a.sealed.Hash())
	b.refuse(w, a, fmt.Sprintf("another event stands at seq %d: %s", env.Seq, stands))
	w.mark(fmt.Sprintf("seq %d%s: %s", env.Seq, foldFork, a.sealed.Hash()))
}

func (w *runWork) mark(incomplete string) {
	if w.incomplete != incomplete && !strings.Contains(w.incomplete, foldFork) {
		w.incomplete, w.changed = incomplete, true
	}
}

// heal clears a mark that the fold has passed.
func (w *runWork) heal() {
	var seq uint64
	if _, err := fmt.Sscanf(w.incomplete, "seq %d:", &seq); err == nil && seq <= w.folded && !strings.Contains(w.incomplete, foldFork) {
		w.incomplete = ""
	}
}

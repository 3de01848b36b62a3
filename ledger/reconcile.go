package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Rollbacks keeps a database that went back in time from being worked on: a
// backup that was restored, or a replica that lagged and was promoted. Effects
// that it does not know of have happened all the same. Safe for concurrent use.
type Rollbacks interface {
	// CompareJournal refuses the database with [ErrRolledBack] if the journal's
	// consumer has confirmed what the database does not have. From then on
	// Claim, Begin and Project are refused.
	CompareJournal(ctx context.Context, p events.Position) error
	// RolledBack returns a [RollbackError] while the database is refused.
	RolledBack(ctx context.Context) error
	// HoldBack refuses the database for a reason.
	HoldBack(ctx context.Context, reason string) error
	// Reconciled lets it be worked on again; p is up to where the journal was compared.
	Reconciled(ctx context.Context, p events.Position) error
	// Accounted is up to where a journal's messages were compared when it was
	// reconciled last; 0 = never.
	Accounted(ctx context.Context, incarnation string) (uint64, error)
}

// Reconciliation is what [Reconcile] asks of a database and does to it. Each
// method is one transaction, and done twice it changes nothing the second time.
type Reconciliation interface {
	// Known says what the database has of what a batch names. It only reads.
	Known(ctx context.Context, batch []Incoming) (Known, error)
	// RestoreRun inserts a run that the database does not have.
	RestoreRun(ctx context.Context, r LostRun) (detail string, err error)
	// RestoreEpochs inserts bases that the database does not have.
	RestoreEpochs(ctx context.Context, run events.RunID, es []LostEpoch) error
	// Reproject is Project for a database that is held back.
	Reproject(ctx context.Context, batch []Incoming) (Projected, error)
	// Reopen inserts an attempt that the database does not have and settles it by
	// what the journal says of its outcome; if that says nothing the effect is in doubt.
	Reopen(ctx context.Context, e LostEffect) (events.EffectState, error)
	// RaiseEpochs puts the epoch of every run that has not ended above what was
	// ever given, ends the leases, and lets the runs in moved be taken over.
	RaiseEpochs(ctx context.Context, moved map[events.RunID]uint64) (int64, error)
}

// Known is what a database has of what a batch of messages names.
type Known struct {
	Runs   map[events.RunID]bool
	Epochs map[events.RunID]map[uint64]Base
	// Events are hashes by run and sequence; Aside are those that an epoch made invalid.
	Events map[events.RunID]map[uint64]events.Hash
	Aside  map[events.Hash]bool
	// Attempts are the tokens of attempts, and whether their outcome is known.
	Attempts map[events.ID]bool
}

// LostRun is a run that the journal tells of and the database does not have.
// What [events.RunQueued] does not hold is lost: the digest of the input, the
// capabilities beside the agent, the key for limits and how often it may be tried.
type LostRun struct {
	ID     events.RunID
	Queued *events.RunQueued // nil: the journal does not have it either
	First  events.Envelope   // of the first event seen
	Epoch  uint64            // the highest one seen
	Detail string            // what RestoreRun said
}

// LostEpoch is the base of an epoch that the database does not have.
type LostEpoch struct {
	Epoch  uint64
	Base   Base
	Worker string
	At     time.Time
	// Known is false when the journal does not have the epoch's first event either.
	Known bool
}

// LostOutcome is what the journal says of an attempt whose outcome the database does not have.
type LostOutcome struct {
	State  events.EffectState // applied, not_applied or abandoned
	Result events.ToolResult
	Error  events.ErrorInfo
	By     string // of a resolution: the person, or probe
	Note   string
	Forced bool
}

// LostEffect is an attempt of a destructive call that the database does not
// have, or whose outcome it does not have: then Started is nil.
type LostEffect struct {
	Run     events.RunID
	Call    events.CallID
	Tool    string
	Ref     events.EffectRef
	Epoch   uint64
	Trace   string
	Started *events.ToolExecutionStarted
	Outcome *LostOutcome // nil: nobody knows
	// State is what became of the effect, once it is reopened; Err why it could not be.
	State events.EffectState
	Err   error
}

// Reconciled is what [Reconcile] found and did.
type Reconciled struct {
	// Messages were read; Events are what the archive did not have.
	Messages, Events int
	Runs             []LostRun // in the order of their ids
	Effects          []LostEffect
	// Epochs counts bases put back; Gone are runs and epochs that the journal
	// tells of too little to put them back.
	Epochs int
	Gone   []events.RunID
	// Forked runs went on another way after the restore: what the journal has of
	// them is not added to their history.
	Forked []events.RunID
	// Raised counts the runs whose epoch was raised.
	Raised int64
	// Held is why the database was refused; empty if it was not.
	Held string
}

// Clean reports whether the database lacked nothing.
func (r Reconciled) Clean() bool {
	return r.Events == 0 && len(r.Runs) == 0 && len(r.Effects) == 0 && r.Epochs == 0 && len(r.Forked) == 0
}

// ReconcileStore is what [Reconcile] needs of a ledger.
type ReconcileStore interface {
	Rollbacks
	Reconciliation
}

// reconcileBatch is how many messages are compared at once.
const reconcileBatch = 100

// Reconcile reads the whole journal and gives a database that was restored what
// it lacks of it: runs, epochs, events, and every destructive call that was
// begun. Then all workers of before are fenced. Nobody works meanwhile, and if it
// ends with an error that stays so until it is done again. With dry set it only
// says what it would do.
func Reconcile(ctx context.Context, st ReconcileStore, journal events.Reader, dry bool) (Reconciled, error) {
	c := &reconciling{
		st: st, journal: journal, runs: map[events.RunID]*LostRun{}, epochs: map[events.RunID]map[uint64]*LostEpoch{},
		effects: map[events.ID]*LostEffect{}, moved: map[events.RunID]uint64{}, forked: map[events.RunID]bool{},
	}
	if err := c.run(ctx, dry); err != nil {
		return c.out, fmt.Errorf("reconcile: %w", err)
	}
	return c.out, nil
}

type reconciling struct {
	st      ReconcileStore
	journal events.Reader

	runs    map[events.RunID]*LostRun
	epochs  map[events.RunID]map[uint64]*LostEpoch
	effects map[events.ID]*LostEffect // by token
	order   []events.ID               // of effects, as they were begun
	at      events.Position
	moved   map[events.RunID]uint64 // runs that the journal has more of → highest epoch
	forked  map[events.RunID]bool
	out     Reconciled
}

func (c *reconciling) run(ctx context.Context, dry bool) error {
	if err := c.st.RolledBack(ctx); err != nil {
		back, ok := rollbackReason(err)
		if !ok {
			return err
		}
		c.out.Held = back
	}
	at, err := c.journal.Position(ctx)
	if err != nil {
		return err
	}
	c.at = at
	if !dry && c.out.Held == "" {
		if err := c.st.HoldBack(ctx, "ledgerctl reconcile is at work, or was interrupted: run it again"); err != nil {
			return err
		}
	}
	err = c.batches(ctx, at, func(batch []Incoming) error {
		k, err := c.st.Known(ctx, batch)
		if err != nil {
			return err
		}
		for _, in := range batch {
			c.out.Messages++
			for _, e := range in.Events {
				c.compare(k, in.Message, e)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.sum()
	if dry {
		return nil
	}
	if err := c.restore(ctx, at); err != nil {
		return err
	}
	return c.st.Reconciled(ctx, at)
}

// batches reads the journal as it stood.
func (c *reconciling) batches(ctx context.Context, at events.Position, f func([]Incoming) error) error {
	var batch []Incoming
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return f(batch)
	}
	size := 0
	err := c.journal.Read(ctx, at.First, at.Last, func(m events.Message) error {
		in := incoming(m)
		batch = append(batch, in)
		if size += len(m.Data); len(batch) < reconcileBatch && size < txBytes {
			return nil
		}
		size = 0
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// sum lists what was found.
func (c *reconciling) sum() {
	ids := slices.Collect(maps.Keys(c.runs))
	slices.SortFunc(ids, func(a, b events.RunID) int { return slices.Compare(a[:], b[:]) })
	gone := map[events.RunID]bool{}
	for _, id := range ids {
		c.out.Runs = append(c.out.Runs, *c.runs[id])
		gone[id] = c.runs[id].Queued == nil
	}
	for run, es := range c.epochs {
		for _, e := range es {
			if e.Known {
				c.out.Epochs++
			} else {
				gone[run] = true
			}
		}
	}
	for _, token := range c.order {
		c.out.Effects = append(c.out.Effects, *c.effects[token])
	}
	for run, is := range gone {
		if is {
			c.out.Gone = append(c.out.Gone, run)
		}
	}
	c.out.Forked = slices.Collect(maps.Keys(c.forked))
	for _, list := range [][]events.RunID{c.out.Gone, c.out.Forked} {
		slices.SortFunc(list, func(a, b events.RunID) int { return slices.Compare(a[:], b[:]) })
	}
}

// restore puts back what was found.
func (c *reconciling) restore(ctx context.Context, at events.Position) error {
	for i, r := range c.out.Runs {
		if r.Queued == nil {
			continue
		}
		detail, err := c.st.RestoreRun(ctx, r)
		if err != nil {
			return fmt.Errorf("run %s: %w", r.ID, err)
		}
		c.out.Runs[i].Detail = detail
	}
	for run, es := range c.epochs {
		if lost := c.runs[run]; lost != nil && lost.Queued == nil {
			continue
		}
		var known []LostEpoch
		for _, e := range es {
			if e.Known {
				known = append(known, *e)
			}
		}
		slices.SortFunc(known, func(a, b LostEpoch) int { return int(a.Epoch) - int(b.Epoch) }) //nolint:gosec // small
		if err := c.st.RestoreEpochs(ctx, run, known); err != nil {
			return fmt.Errorf("run %s: %w", run, err)
		}
	}
	if !c.out.Clean() {
		events := 0
		err := c.batches(ctx, at, func(batch []Incoming) error {
			p, err := c.st.Reproject(ctx, c.ours(batch))
			events += p.Events
			return err
		})
		if err != nil {
			return err
		}
		c.out.Events = events
	}
	for i := range c.out.Effects {
		e := &c.out.Effects[i]
		if lost := c.runs[e.Run]; lost != nil && lost.Queued == nil {
			e.Err = fmt.Errorf("run %s: %w", e.Run, ErrNotFound)
			continue
		}
		var err error
		if e.State, err = c.st.Reopen(ctx, *e); err != nil {
			return fmt.Errorf("effect %s of run %s: %w", e.Ref.OpKey, e.Run, err)
		}
	}
	if c.out.Clean() && c.out.Held == "" {
		return nil // nobody lost a claim
	}
	var err error
	c.out.Raised, err = c.st.RaiseEpochs(ctx, c.moved)
	return err
}

// ours are the events of a batch whose run and epoch the database has by now
// and whose run did not go another way.
func (c *reconciling) ours(batch []Incoming) []Incoming {
	out := make([]Incoming, 0, len(batch))
	for _, in := range batch {
		in.Rejected, in.Err = nil, nil // the projector has kept them
		in.Events = slices.DeleteFunc(slices.Clone(in.Events), func(e events.Sealed) bool {
			v := e.Envelope()
			lost, epoch := c.runs[v.RunID], c.epochs[v.RunID][v.Epoch]
			return c.forked[v.RunID] || lost != nil && lost.Queued == nil || epoch != nil && !epoch.Known
		})
		if len(in.Events) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// TopUp projects what the journal has of a run (zero: of all runs) once more and
// says how many events the archive lacked.
func TopUp(ctx context.Context, st Projection, journal events.Reader, run events.RunID) (Reconciled, error) {
	var out Reconciled
	at, err := journal.Position(ctx)
	if err != nil {
		return out, fmt.Errorf("top up: %w", err)
	}
	c := &reconciling{journal: journal}
	err = c.batches(ctx, at, func(batch []Incoming) error {
		out.Messages += len(batch)
		batch = slices.Clone(batch)
		for i, in := range batch {
			in.Message.Incarnation = "" // it is no sign of how far the projectors are
			in.Rejected, in.Err = nil, nil
			in.Events = slices.DeleteFunc(slices.Clone(in.Events), func(e events.Sealed) bool { return !run.IsZero() && e.Envelope().RunID != run })
			batch[i] = in
		}
		batch = slices.DeleteFunc(batch, func(in Incoming) bool { return len(in.Events) == 0 })
		p, err := st.Project(ctx, batch)
		out.Events += p.Events
		return err
	})
	if err != nil {
		return out, fmt.Errorf("top up: %w", err)
	}
	return out, nil
}

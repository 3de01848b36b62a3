package runtime

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// session is one lease on one run: the only writer that numbers its events.
type session struct {
	w     *Worker
	claim ledger.Claim
	run   ledger.Run
	lease ledger.Lease
	local *localLease
	log   *slog.Logger
	red   *redact.Redactor // with the fingerprints of the run's tenant

	ctx      context.Context // ends with a cause when the session must stop acting
	stop     context.CancelCauseFunc
	handover chan struct{} // closed when the worker shuts down
	handOnce sync.Once

	remembered, expired bool // hand-offs of the last holder, and those whose time is up, were looked at

	agent agents.Agent
	loop  loops.Loop
	// decider is the loop, opened, if that is code with a position.
	decider loops.Decider
	disp    *tools.Dispatcher
	policy  policy
	asked   *events.Guard // what the parent asks; nil = nothing
	prompt  string
	output  *output           // what the run's end has to fit; nil = text
	unfit   *events.RunFailed // why it can only be ended; nil = it can go on

	// mu guards what numbers events. It is held while the journal accepts an
	// event, which may take as long as the journal is full, so nothing that
	// heartbeats or claims need is behind it.
	mu       sync.Mutex
	hist     *loops.History
	terminal events.Payload // the event that ended the run, if it is in the history
	prefix   ledger.Prefix  // numbered, not known to be in the archive
	last     events.Receipt
	factsAt  time.Time // when the oldest fact that no barrier carried was recorded; zero = none

	// in guards what comes in from heartbeats and barriers. It is held for
	// moments only, and taken after mu.
	in        sync.Mutex
	pending   []events.Fact // to be numbered, in insertion order
	cancelReq *ledger.Beat
	held      ledger.Pause       // by a person; zero = not
	tokens    map[events.ID]bool // attempts running here
	holding   map[events.ID]bool // calls without an effect that something is reserved for
	folded    uint64             // how far the fold has come, says the last heartbeat
	foldedAt  time.Time          // when a heartbeat said so first
	beatAt    time.Time          // when it said so last

	poke     chan struct{}
	ready    atomic.Bool // the history is read and the epoch is open
	pumpDone chan struct{}
}

func newSession(w *Worker, c ledger.Claim, sent time.Time) *session {
	s := &session{
		w: w, claim: c, run: c.Run, lease: c.Lease, red: w.cfg.Redactor,
		log:      w.log.With("run", c.Run.ID.String(), "epoch", c.Lease.Epoch),
		handover: make(chan struct{}),
		poke:     make(chan struct{}, 1),
		tokens:   map[events.ID]bool{},
		holding:  map[events.ID]bool{},
		hist:     loops.NewHistory(c.Run.ID),
		pumpDone: make(chan struct{}),
	}
	s.held = ledger.Pause{At: c.Run.HeldAt, By: c.Run.HeldBy, Reason: c.Run.HeldReason}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.local = newLocalLease(w.cfg.Now, sent, c.Lease.Remaining, s.stop)
	return s
}

func (s *session) askHandover() { s.handOnce.Do(func() { close(s.handover) }) }

func (s *session) handingOver() bool {
	select {
	case <-s.handover:
		return true
	default:
		return false
	}
}

func (s *session) runningTokens() []events.ID {
	s.in.Lock()
	defer s.in.Unlock()
	ts := make([]events.ID, 0, len(s.tokens))
	for t := range s.tokens {
		ts = append(ts, t)
	}
	return ts
}

// beat takes a heartbeat's answer: the lease, pending facts, a request to
// cancel. It never waits for the journal: the leases of all runs hang on it.
func (s *session) beat(b ledger.Beat, sent time.Time) {
	if !b.Held {
		s.stop(errLeaseLost)
		return
	}
	s.local.extend(sent, b.Remaining)
	if s.local.left() > 0 {
		s.w.lapses.held()
	}
	s.expect(b.Facts...)
	s.in.Lock()
	s.beatAt = s.w.cfg.Now()
	s.held = ledger.Pause{}
	if b.Paused {
		s.held = ledger.Pause{At: s.beatAt, By: b.PausedBy, Reason: b.PausedReason}
	}
	if b.Folded != s.folded || s.foldedAt.IsZero() {
		s.folded, s.foldedAt = b.Folded, s.beatAt
	}
	s.in.Unlock()
	if b.Cancelling {
		s.in.Lock()
		s.cancelReq = &b
		s.in.Unlock()
		if s.ready.Load() { // before that there is nothing to cut short: the first step sees it
			s.stop(errCancelled)
		}
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// pump numbers facts as they come in, also while a call runs, and flushes
// recorded facts that no barrier has carried for a second, and whatever the
// journal seems to have lost.
func (s *session) pump() {
	defer close(s.pumpDone)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.poke:
			if err := s.adoptPending(false); err != nil {
				s.log.Warn("adopt facts", "error", s.w.cfg.Redactor.Error(err))
			}
		case <-tick.C:
			if s.flushDue() {
				if err := s.flush(s.ctx); err != nil && s.ctx.Err() == nil {
					s.log.Warn("flush", "error", s.w.cfg.Redactor.Error(err))
				}
			}
		}
	}
}

// maxPrefix bounds what a holder keeps in memory between barriers.
const maxPrefix = 512

func (s *session) flushDue() bool {
	if !s.ready.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := !s.factsAt.IsZero() && s.w.cfg.Now().Sub(s.factsAt) > time.Second
	return old || len(s.prefix) > maxPrefix || s.foldStandsStill()
}

// foldStillFor is how long the fold may stand still behind what was recorded
// before a message is taken for lost.
const foldStillFor = 2 * time.Second

// foldStandsStill reports whether the journal may have lost what is recorded
// here: the fold did not come nearer over two heartbeats, and what it lacks is
// no news. s.mu is held.
func (s *session) foldStandsStill() bool {
	s.in.Lock()
	defer s.in.Unlock()
	if s.beatAt.Sub(s.foldedAt) <= foldStillFor {
		return false
	}
	for _, e := range s.prefix {
		if v := e.Envelope(); v.Seq > s.folded {
			return s.beatAt.Sub(v.Time) > foldStillFor
		}
	}
	return false
}

// expect notes pending facts. Every answer lists all that the database has, so
// most of them are known already.
func (s *session) expect(fs ...events.Fact) {
	s.in.Lock()
	defer s.in.Unlock()
	known := make(map[events.ID]bool, len(s.pending))
	for _, f := range s.pending {
		known[f.ID] = true
	}
	for _, f := range fs {
		if !known[f.ID] {
			s.pending = append(s.pending, f)
		}
	}
}

// adoptPending numbers the facts that came in. While a step is under way
// (idle is false) those that could be taken for its outcome wait.
func (s *session) adoptPending(idle bool) error {
	if !s.ready.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.Lock()
	fs := s.pending
	s.pending = nil
	s.in.Unlock()
	var err error
	var wait []events.Fact
	for _, f := range fs {
		if err == nil && (idle || !couldBeMistaken(f)) {
			err = s.adoptLocked(f)
			if err == nil {
				continue
			}
		}
		wait = append(wait, f)
	}
	s.in.Lock()
	defer s.in.Unlock()
	s.pending = append(wait, s.pending...)
	return err
}

// snapshot is the prefix a barrier carries.
func (s *session) snapshot() ledger.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prefix[:len(s.prefix):len(s.prefix)]
}

// carried drops what a barrier committed. Barriers may overlap, so it goes by
// sequence and not by count.
func (s *session) carried(p ledger.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > 0 {
		top := p[len(p)-1].Envelope().Seq
		for len(s.prefix) > 0 && s.prefix[0].Envelope().Seq <= top {
			s.prefix = s.prefix[1:]
		}
	}
	if len(s.prefix) == 0 {
		s.prefix = nil
		s.factsAt = time.Time{}
	}
}

// barrier carries the prefix through f and tries again while the database is
// away. A refusal has carried the prefix too; a fenced one has not.
func (s *session) barrier(ctx context.Context, what string, f func(ledger.Prefix) error) error {
	for attempt := 1; ; attempt++ {
		p := s.snapshot()
		err := f(p)
		switch {
		case err == nil:
			s.carried(p)
			return nil
		case errors.Is(err, ledger.ErrFenced):
			s.stop(errLeaseLost)
			return err
		case !errors.Is(err, ledger.ErrUnavailable):
			if errors.Is(err, ledger.ErrFactsPending) || errors.Is(err, ledger.ErrLeaseTooShort) || errors.Is(err, ledger.ErrAuditBehind) {
				s.carried(p)
			}
			return err
		}
		wait := backoff(attempt, s.w.cfg.Random)
		s.log.Warn(what+": database unavailable, trying again", "in", wait, "error", s.w.cfg.Redactor.Error(err))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (s *session) flush(ctx context.Context) error {
	return s.barrier(ctx, "flush", func(p ledger.Prefix) error {
		fs, err := s.w.cfg.Ledger.Flush(ctx, s.lease, p)
		if err == nil {
			s.expect(fs...)
		}
		return err
	})
}

// sleep waits d or until ctx ends, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

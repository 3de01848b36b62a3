package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// errUnworkable is a run that this build cannot go on with, through no fault of
// the run: another worker might.
var errUnworkable = errors.New("this worker cannot continue the run")

// open makes the history current: catch up and take the base if the last holder
// left uncleanly, read the archive, open the epoch, take over pending facts.
func (s *session) open(ctx context.Context) error {
	err := s.retry(ctx, "read the tenant's key", func() error {
		var err error
		s.red, err = s.w.redactor(ctx, s.run.Tenant)
		return err
	})
	if err != nil {
		return fmt.Errorf("redactor of tenant %q: %w", s.run.Tenant, err)
	}
	if s.asked, err = guardOf(s.run); err != nil {
		return err
	}
	base := s.claim.Base
	facts := s.claim.Facts
	if s.claim.Kind == ledger.ClaimTakeover {
		if s.claim.LastWorker != "" {
			if err := s.retry(ctx, "catch up on "+s.claim.LastWorker, func() error { return s.w.cfg.CatchUp(ctx, s.claim.LastWorker) }); err != nil {
				return err
			}
		}
		fault.Point("catchup.after_read")
		err := s.retry(ctx, "take over", func() error {
			var err error
			base, err = s.w.cfg.Ledger.Base(ctx, s.lease)
			return err
		})
		if err != nil {
			return fmt.Errorf("take over run %s: %w", s.run.ID, err)
		}
		fault.Point("epoch.after_commit")
		facts = base.Facts
	}
	if err := s.inherit(ctx); err != nil {
		return err
	}
	err = s.retry(ctx, "read history", func() error {
		return s.w.cfg.Ledger.Events(ctx, s.run.ID, s.hist.Seq()+1, func(e events.Sealed) error {
			if e.Envelope().Seq > base.Seq {
				return nil
			}
			d, err := e.Decode()
			if err != nil {
				return fmt.Errorf("%w: %w", errUnworkable, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.applyLocked(d); err != nil {
				return fmt.Errorf("%w: %w", errUnworkable, err) // reading again gives the same
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("read history of run %s: %w", s.run.ID, err)
	}
	if s.hist.Seq() != base.Seq || (base.Seq > 0 && s.hist.Hash() != base.Hash) {
		return fmt.Errorf("run %s: archive ends at %d (%s), base of epoch %d is %d (%s): %w",
			s.run.ID, s.hist.Seq(), s.hist.Hash(), s.lease.Epoch, base.Seq, base.Hash, errUnworkable)
	}
	if s.run.Unreadable != "" { // to another build
		if err := s.retry(ctx, "mark as readable", func() error { return s.w.cfg.Ledger.MarkUnreadable(ctx, s.lease, "") }); err != nil {
			return err
		}
	}
	if err := s.openEpoch(ctx, base); err != nil {
		return err
	}
	s.ready.Store(true)
	return s.adopt(facts...)
}

// openEpoch records how this holder came to the run.
func (s *session) openEpoch(ctx context.Context, base ledger.Base) error {
	if _, ended := s.hist.Terminal(); ended {
		return nil // facts follow a terminal event, nothing else does
	}
	if s.hist.Seq() == 0 {
		q := events.RunQueued{
			Agent: s.run.Agent, Input: s.run.Input, ClientKey: s.run.ClientKey, Queue: s.run.Queue, Owner: s.run.Owner,
			Priority: s.run.Priority, Root: s.run.Root, Parent: s.run.Parent, QueuedAt: s.run.CreatedAt, Deadline: s.run.Deadline,
			RetryOf: s.run.RetryOf, Schedule: s.run.Schedule, Fork: s.forkOrigin(), Loop: s.run.Loop, Guard: s.asked, Prompt: s.run.Prompt, Session: s.place(),
		}
		if s.run.Attempt > 1 {
			q.Attempt = s.run.Attempt
		}
		return s.Record(ctx, q)
	}
	return s.Record(ctx, events.RunResumed{
		Worker: s.w.cfg.Name, Epoch: s.lease.Epoch, BaseSeq: base.Seq, BaseHash: base.Hash, SetAside: base.SetAside,
	})
}

// bind finds agent, loop and prompt, and freezes them in run_started the first time.
func (s *session) bind(ctx context.Context) error {
	started := s.hist.Started()
	if started == nil {
		a, ok := s.w.agents[s.run.Agent]
		if !ok {
			return fmt.Errorf("agent %q is not configured here: %w", s.run.Agent, errUnworkable)
		}
		sel, err := s.selection(a)
		if err != nil {
			return s.end(ctx, events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: kindLoopSelection, Message: err.Error()}})
		}
		a.Loop, a.LoopOptions = sel.Strategy, sel.Options
		hash := a.Hash()
		a.Tools = withTeam(&a)
		chain, role, err := s.w.cfg.chain(&a)
		if err != nil { // NewWorker has checked it
			return err
		}
		s.agent, s.disp = a, s.w.dispatcher(s.red, s.run.Tenant, &a, a.Tools)
		in, kind, err := s.asks(a)
		if err != nil {
			return s.end(ctx, events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: kind, Message: err.Error()}})
		}
		before, err := s.boundBefore(ctx)
		if err != nil {
			return err
		}
		var bounds []*events.Policy
		for _, b := range before {
			bounds = append(bounds, b.Policy)
		}
		if s.policy, err = policyOf(&s.agent, s.disp, s.w.cfg.Policy, append(bounds, s.parentPolicy())...); err != nil {
			return fmt.Errorf("%w: %w", err, errUnworkable)
		}
		return s.recordStarted(ctx, a, in, hash, chain, role, before)
	}
	s.agent = s.w.agents[started.Agent]
	s.agent.Name, s.agent.Model, s.agent.Loop, s.agent.LoopOptions = started.Agent, started.Model, started.Loop, started.LoopOptions
	s.agent.Thinking = started.Thinking
	if err := s.bindOutput(ctx, started.OutputHash); err != nil {
		return err
	}
	s.agent.Limits, s.agent.Tools, s.agent.Select = started.Limits, nil, started.Select
	s.agent.Compaction = started.Compaction
	for _, b := range started.Tools {
		s.agent.Tools = append(s.agent.Tools, b.Name)
	}
	s.agent.Validate, s.agent.Middleware = started.CallValidator, started.Middleware
	if err := s.w.cfg.lacksHooks(s.agent.Validate, s.agent.Middleware); err != nil {
		return fmt.Errorf("run %s wants %w: %w", s.run.ID, err, errUnworkable)
	}
	s.disp = s.w.dispatcher(s.red, s.run.Tenant, &s.agent, s.agent.Tools)
	var err error
	if s.policy, err = policyOf(&s.agent, s.disp, s.w.cfg.Policy, started.Policy, s.parentPolicy()); err != nil {
		return fmt.Errorf("%w: %w", err, errUnworkable)
	}
	prompt, err := s.blob(ctx, started.PromptHash)
	if err != nil {
		return fmt.Errorf("read the prompt that run %s is bound to: %w", s.run.ID, err)
	}
	s.prompt = string(prompt)
	l, _, err := s.w.checkLoop(started.Loop, started.LoopOptions)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, errUnworkable)
	case l.Version() < started.LoopVersion:
		return fmt.Errorf("loop %q version %d is not available here: %w", started.Loop, started.LoopVersion, errUnworkable)
	}
	s.openLoop(l)
	return nil
}

func (s *session) recordStarted(ctx context.Context, a agents.Agent, in asked, hash events.Hash, chain []string, role string, before []*events.RunStarted) error {
	l, needs, err := s.w.checkLoop(a.Loop, a.LoopOptions)
	if err != nil {
		return err
	}
	layers, err := s.compose(a, in)
	if err != nil {
		return err
	}
	prompt, err := s.putBlob(ctx, "text/markdown", []byte(s.prompt))
	if err != nil {
		return err
	}
	skills, err := s.freezeSkills(ctx, &a, in.Skills)
	if err != nil {
		return err
	}
	output, err := s.freezeOutput(ctx)
	if err != nil {
		return err
	}
	bindings := bindTeam(&a, s.disp.Bindings())
	for _, b := range before {
		bindings = stricter(bindings, b)
	}
	s.openLoop(l)
	return s.Record(ctx, events.RunStarted{
		Worker: s.w.cfg.Name, Agent: a.Name, AgentHash: hash, PromptHash: prompt, Model: chain[0], Chain: several(chain), ModelRole: role, Thinking: a.Thinking, OutputHash: output,
		Loop: l.Name(), LoopVersion: l.Version(), LoopOptions: a.LoopOptions, Validators: needs.Validators,
		Tools: bindings, Limits: a.Limits, Select: a.Select,
		Policy: s.policy.event(), PromptLayers: layers, Skills: skills, Compaction: s.w.compaction(a, chain),
		CallValidator: a.Validate, Middleware: a.Middleware,
	})
}

func (s *session) putBlob(ctx context.Context, mediaType string, b []byte) (h events.Hash, err error) {
	key := "content\x00" + s.run.Tenant + "\x00" + string(b)
	if v, ok := s.w.blobs.Load(key); ok {
		return v.(events.Hash), nil
	}
	if h, err = s.storeBlob(ctx, mediaType, b); err == nil && len(b) <= 64<<10 {
		s.w.blobs.Store(key, h)
	}
	return h, err
}

// storeBlob is putBlob for what will hardly be stored again, and is not remembered.
func (s *session) storeBlob(ctx context.Context, mediaType string, b []byte) (h events.Hash, err error) {
	err = s.retry(ctx, "store blob", func() error {
		h, err = s.w.cfg.Ledger.PutBlob(ctx, s.run.Tenant, mediaType, b)
		return err
	})
	return h, err
}

func (s *session) blob(ctx context.Context, h events.Hash) (b []byte, err error) {
	key := "hash\x00" + s.run.Tenant + "\x00" + h.String()
	if v, ok := s.w.blobs.Load(key); ok {
		return v.([]byte), nil
	}
	err = s.retry(ctx, "read blob", func() error {
		b, _, err = s.w.cfg.Ledger.Blob(ctx, s.run.Tenant, h)
		return err
	})
	if err == nil && len(b) <= 64<<10 {
		s.w.blobs.Store(key, b)
	}
	return b, err
}

// retry repeats f while the database is away.
func (s *session) retry(ctx context.Context, what string, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || ctx.Err() != nil || errors.Is(err, errUnworkable) || !transient(err) {
			return err
		}
		wait := backoff(attempt, s.w.cfg.Random)
		s.log.Warn(what+" failed, trying again", "in", wait, "error", s.w.cfg.Redactor.Error(err))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

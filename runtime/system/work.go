package system

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

// Client returns a client of this system.
func (s *System) Client() *runtime.Client {
	return runtime.NewClient(s.Store, s.Redactor, s.Waker)
}

// Projector returns a projector of this system; Run does the work.
func (s *System) Projector() (*ledger.Projector, error) {
	feed, err := s.Bus.Feed()
	if err != nil {
		return nil, err
	}
	return ledger.NewProjector(s.Store, s.Bus.Consumer(), s.telemetry.Feed(feed, s.Store.Events), ledger.ProjectorConfig{Logger: s.log}), nil
}

// Work runs a worker until ctx ends and then hands its runs over. cfg says what
// it works with (Agents, Tools, Models, limits); where it works is filled in.
// With project set a projector runs beside it and outlives it, so that what the
// worker records while it shuts down is projected too. An embedded system has
// no other projector, so there it always runs.
func (s *System) Work(ctx context.Context, cfg runtime.Config, project bool) (err error) {
	if cfg.Name == "" {
		cfg.Name = runtime.DefaultName()
	}
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	journal, err := s.Bus.Journal(cfg.Name)
	if err != nil {
		return fmt.Errorf("open journal of %s: %w", cfg.Name, err)
	}
	defer func() {
		// What the journal accepted is sent before the process ends.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, journal.Close(end))
	}()
	consumer := s.Bus.Consumer()
	cfg.Ledger, cfg.Journal, cfg.Redactor, cfg.Secrets, cfg.Waker = s.Store, journal, s.Redactor, s.Vault, s.Waker
	cfg.CatchUp = func(ctx context.Context, worker string) error {
		_, err := ledger.ProjectTail(ctx, s.Store, consumer, worker)
		return err
	}
	cfg.Compare = func(ctx context.Context) error { return s.Store.CompareFirst(ctx, consumer) }
	if cfg.Live == nil && !s.NoLive {
		live, err := s.Bus.Live()
		if err != nil {
			return err
		}
		defer func() {
			live.Close()
			if n := live.Dropped(); n > 0 {
				s.log.Info("messages to viewers were dropped", "messages", n)
			}
		}()
		cfg.Live = live
	}
	w, err := runtime.NewWorker(cfg)
	if err != nil {
		return err
	}
	// Whoever does the work of an async tool may ask any worker to complete it.
	stopServing, err := s.Waker.ServeCompletions(s.Store, s.Redactor)
	if err != nil {
		return err
	}
	defer stopServing()
	s.log.Info("worker started", "worker", w.Name(), "promise", s.Promise)
	if !project && !s.embedded {
		return w.Run(ctx)
	}
	p, err := s.Projector()
	if err != nil {
		return err
	}
	pctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var perr error
	wg.Add(1)
	go func() {
		defer wg.Done()
		perr = p.Run(pctx)
	}()
	err = w.Run(ctx)
	stop()
	wg.Wait()
	if s.embedded && err == nil && perr == nil {
		err = s.foldRest(ctx)
	}
	return errors.Join(err, perr)
}

// foldRest folds what barriers have moved on in the last seconds: of an embedded
// system there may be no projector for a long time, and its tables are read now.
func (s *System) foldRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for {
		n, err := s.Store.FoldBehind(ctx, 0, 100)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("fold the last runs: %w", err)
		}
		if n == 0 || err != nil {
			return nil // whoever projects next does it
		}
	}
}

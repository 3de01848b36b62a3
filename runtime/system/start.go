package system

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

// Started is a system with a worker at work in this process.
type Started struct {
	*System

	stop  context.CancelFunc
	ended chan struct{} // closed once err is set
	err   error
}

// errEnded: the worker has ended, so that nobody works on what is waited for.
var errEnded = errors.New("the worker has ended")

// Start opens a system and has a worker and a projector work in it until ctx ends
// or [Started.Stop] is called, which has to be called in any case. It is [Open]
// and [System.Work] for a program whose worker does not end before it does.
func Start(ctx context.Context, o Options, cfg runtime.Config) (*Started, error) {
	sys, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Started{System: sys, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = sys.Work(ctx, cfg, true)
	}()
	return s, nil
}

// Do submits a run and waits until it has ended or is parked; see
// [runtime.Client.Submit] and [runtime.Client.Wait]. A run that waits for a person
// is no error: look at its State. If ctx or the worker ends first, the run goes on
// with the next worker, and the same ClientKey finds it again.
func (s *Started) Do(ctx context.Context, in runtime.Submit) (ledger.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		select {
		case <-s.ended:
			cancel(errors.Join(errEnded, s.err))
		case <-ctx.Done():
		}
	}()
	r, _, err := s.Client().Submit(ctx, in)
	if err == nil {
		r, err = s.Client().Wait(ctx, r.ID, true)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("the run with key %q of agent %q: %w", in.ClientKey, in.Agent, cause)
	}
	cancel(nil)
	<-watch
	return r, err
}

// Stop hands the worker's runs over, as a signal to stop does, closes the system
// and returns what was wrong with the worker's work. It may be called twice.
func (s *Started) Stop() error {
	s.stop()
	<-s.ended
	s.Close()
	return s.err
}

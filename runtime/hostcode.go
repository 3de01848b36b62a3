package runtime

import (
	"context"
	"errors"
	"fmt"
)

var (
	errHostTime = errors.New("its time is up")
	errHostGone = errors.New("it ended its goroutine without a result")
)

// hostCode runs a function of the host's, under a limit of time and with its
// panics caught. One that does not heed its context is left behind: the worker
// waits for it when it shuts down, as long as the grace goes. Errors say which
// function it was, and are of bounded length.
func hostCode[T any](ctx context.Context, s *session, what string, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.w.cfg.CallbackTimeout, errHostTime)
	defer cancel()
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	s.w.hostCode.Go(func() {
		out := outcome{err: errHostGone}
		defer func() {
			if v := recover(); v != nil {
				out.err = fmt.Errorf("it panicked: %v", v)
			}
			done <- out
		}()
		out.v, out.err = f(ctx)
	})
	var out outcome
	select {
	case out = <-done:
	case <-ctx.Done():
		out.err = context.Cause(ctx)
	}
	if out.err == nil {
		return out.v, nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(out.err, cause) {
		out.err = cause // what it says of it is no news
	}
	if errors.Is(out.err, errHostTime) {
		out.err = fmt.Errorf("%w: it had %s", errHostTime, s.w.cfg.CallbackTimeout)
	}
	var none T
	return none, fmt.Errorf("%s: %s", what, s.brief(out.err.Error(), maxIssueMessage)) //nolint:errorlint // stored as text
}

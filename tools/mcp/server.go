package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// Bounds of what is told of a server, in bytes.
const (
	maxErrorText = 4 << 10
	pingTimeout  = 5 * time.Second
	firstWait    = 250 * time.Millisecond
	longestWait  = 30 * time.Second
)

var errClosed = errors.New("it was closed")

// server is one server over all its starts.
type server struct {
	cfg  Server
	host *Config
	busy chan struct{} // holds one while the link is looked at or changed
	wg   sync.WaitGroup
	life context.Context //nolint:containedctx // of the server, which has no caller
	kill context.CancelCauseFunc

	withheld atomic.Pointer[redact.Values] // nil for nothing

	mu      sync.Mutex
	closed  bool
	link    *link
	starts  []time.Time // after the first, in the last ten minutes
	begun   bool        // started once
	list    []listed
	fresh   []declaration // the list itself, until its tools are pinned
	checked time.Time
	stale   bool
	pins    map[string]events.Hash // nil until it was opened
	hidden  []string               // what withheld is made of
	changed map[string]string      // own name → in what way it is not what was pinned
}

func newServer(host *Config, cfg Server) *server {
	s := &server{cfg: cfg, host: host, busy: make(chan struct{}, 1)}
	s.life, s.kill = context.WithCancelCause(context.Background())
	return s
}

func (s *server) fault(r Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Server: s.cfg.Name, Reason: r, text: s.clean(err.Error(), maxErrorText), err: err}
}

// clean makes a text of the server's fit to be shown: without its credentials,
// redacted, then cut.
func (s *server) clean(text string, limit int) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = s.host.Redactor.String(s.withhold(text))
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// acquire returns the link to the server, started anew if it has ended, with its
// list of tools looked at if that is due. Release it. Whatever goes wrong in here,
// nothing was sent. Errors are [*Error], or the cause of ctx.
func (s *server) acquire(ctx context.Context) (*link, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()
	for try := 1; ; try++ {
		l, err := s.up(ctx)
		if err != nil {
			return nil, err
		}
		err = s.check(ctx, l)
		if err == nil {
			l.calls.Add(1)
			return l, nil
		}
		if try == 2 || ctx.Err() != nil || !l.suspect.Load() && !l.over() {
			return nil, err
		}
	}
}

// up returns a link that is up, as far as anybody knows.
func (s *server) up(ctx context.Context) (*link, error) {
	l := s.current()
	if l != nil && l.suspect.Load() && l.calls.Load() == 0 {
		if err := l.probed(ctx); err != nil {
			return nil, err
		}
		l = s.current()
	}
	if l == nil {
		return s.start(ctx)
	}
	return l, nil
}

// current returns the link if it is up.
func (s *server) current() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil && s.link.life.Err() == nil {
		return s.link
	}
	return nil
}

// start opens a link, within what is allowed.
func (s *server) start(ctx context.Context) (*link, error) {
	wait, err := s.allowance()
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.startTimeout(), fmt.Errorf("it was not ready after %v", s.cfg.startTimeout()))
	defer cancel()
	l, err := s.connect(ctx)
	if err != nil {
		s.host.Logger.Warn("an MCP server could not be started", "server", s.cfg.Name, "error", err)
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.link, s.stale, s.checked = l, true, time.Time{}
	}
	s.mu.Unlock()
	if closed {
		l.end(errClosed)
		return nil, s.fault(Unavailable, "%w", errClosed)
	}
	return l, nil
}

// allowance says how long to wait before the next start, and counts it.
func (s *server) allowance() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, s.fault(Unavailable, "%w", errClosed)
	}
	if !s.begun {
		s.begun = true
		return 0, nil
	}
	now := s.host.Now()
	s.starts = slices.DeleteFunc(s.starts, func(t time.Time) bool { return now.Sub(t) >= restartWindow })
	if n := len(s.starts); n >= s.cfg.restarts() {
		if n == 0 {
			return 0, s.fault(Unavailable, "it has ended, and is not started again")
		}
		next := s.starts[0].Add(restartWindow).Sub(now).Round(time.Second)
		return 0, s.fault(Unavailable, "it has ended %d times in %v, and is not started again for %v", n+1, restartWindow, next)
	}
	var wait time.Duration
	if n := len(s.starts); n > 0 {
		wait = max(min(firstWait<<n, longestWait)-now.Sub(s.starts[n-1]), 0)
	}
	s.starts = append(s.starts, now)
	return wait, nil
}

// listed is what is kept of a tool.
type listed struct {
	name   string
	digest events.Hash // zero if it has none, which is nobody's
}

func digests(list []declaration) []listed {
	all := make([]listed, len(list))
	for i := range list {
		all[i].name = strings.Clone(list[i].Name)
		if digest, err := list[i].digest(); err == nil {
			all[i].digest = digest
		}
	}
	return all
}

// check asks for the list of tools if it is time to, and compares.
func (s *server) check(ctx context.Context, l *link) error {
	s.mu.Lock()
	now := s.host.Now()
	due := s.stale || s.cfg.recheck() > 0 && now.Sub(s.checked) >= s.cfg.recheck()
	s.stale = false // what changes from here on makes it stale again
	s.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.startTimeout(), fmt.Errorf("it did not say what tools it has within %v", s.cfg.startTimeout()))
	defer cancel()
	list, err := l.list(ctx)
	switch {
	case err == nil:
		l.missed.Store(0)
	case l.life.Err() == nil && !errors.Is(ctx.Err(), context.Canceled):
		l.suspect.Store(true)
		// It answers pings, and says twice nothing of its tools, with nothing else to do.
		if ctx.Err() != nil && l.calls.Load() == 0 && l.missed.Add(1) >= 2 {
			l.end(errors.New("it did not say what tools it has"))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stale = true
		return err
	}
	s.list, s.checked = digests(list), now
	if s.pins == nil {
		s.fresh = list
	}
	s.compare()
	return nil
}

// compare holds the list against what was pinned.
func (s *server) compare() {
	if s.pins == nil {
		return
	}
	before := s.changed
	s.changed = map[string]string{}
	now := map[string]int{}
	var fresh []string
	for _, d := range s.list {
		now[d.name]++
		pinned, ok := s.pins[d.name]
		if !ok {
			if s.wants(d.name) {
				fresh = append(fresh, s.clean(d.name, maxForeignName))
			}
			continue
		}
		if d.digest != pinned || now[d.name] > 1 {
			s.changed[d.name] = "the server has changed what this tool is: it is not called until the servers are opened anew"
		}
	}
	for name := range s.pins {
		if now[name] == 0 {
			s.changed[name] = "the server does not have this tool any more"
		}
	}
	for name, what := range s.changed {
		if before[name] != what {
			s.host.Logger.Warn("a tool of an MCP server is refused from now on", "server", s.cfg.Name, "tool", name, "why", what)
		}
	}
	if len(fresh) > 0 && len(s.list) != len(s.pins) {
		s.host.Logger.Info("an MCP server lists tools that were not there when it was opened, or were left out: they are not taken", "server", s.cfg.Name, "tools", fresh)
	}
}

// pin fixes what the tools are.
func (s *server) pin(pins map[string]events.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins, s.fresh = pins, nil
	s.compare()
}

// opened is what the server declared before it was pinned.
func (s *server) opened() []declaration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh
}

// refusal says why a tool is not called any more; "" if it is.
func (s *server) refusal(own string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed[own]
}

// listChanged notes the server's word that its tools are others.
func (s *server) listChanged() {
	s.mu.Lock()
	s.stale = true
	s.mu.Unlock()
}

// close ends the server for good.
func (s *server) close() error {
	s.kill(errClosed)
	s.busy <- struct{}{} // whoever starts it has given up, or is through
	defer func() { <-s.busy }()
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.end(errClosed)
	}
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	t := time.NewTimer(closing)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		return s.fault(Unavailable, "it was told to end, and something of it is still there after %v", closing)
	}
}

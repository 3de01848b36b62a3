package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// guard keeps a Store from claiming, beginning and projecting on a database
// server that it has not compared with the journal since that server started:
// what was restored, or promoted, has always just been started.
type guard struct {
	mu       sync.Mutex
	journal  events.Reader // nil: nothing to compare with
	flight   chan struct{} // holds a token while somebody compares
	compared *string       // the server's incarnation; nil = none yet
}

// Guard has the store compare its database with a journal, see [ledger.Compare],
// before it works on a database server for the first time, and again whenever
// the server was started anew. Call it before the store is used.
func (s *Store) Guard(journal events.Reader) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.journal, s.guard.flight = journal, make(chan struct{}, 1)
}

// uncompared says that a database server has to be compared first. Whoever sees
// it waits, as for a database that is away.
type uncompared struct{ incarnation string }

func (e *uncompared) Error() string {
	return "the database server was started anew and has not been compared with the journal yet"
}

// Is reports whether target is [ledger.ErrUnavailable].
func (e *uncompared) Is(target error) bool { return target == ledger.ErrUnavailable }

// Incarnated is a [Tx] that knows the incarnation of the server it runs on: a
// value that changes whenever the server is started.
type Incarnated interface {
	Incarnation(ctx context.Context) (string, error)
}

// refuseUncompared refuses a transaction on a server that was not compared.
func (s *Store) refuseUncompared(ctx context.Context, tx Tx) error {
	s.guard.mu.Lock()
	journal, compared := s.guard.journal, s.guard.compared
	s.guard.mu.Unlock()
	if journal == nil {
		return nil
	}
	now, err := incarnationOf(ctx, tx)
	if err != nil {
		return err
	}
	if compared != nil && *compared == now {
		return nil
	}
	return &uncompared{now}
}

// incarnationOf is empty for a database without servers.
func incarnationOf(ctx context.Context, tx Tx) (string, error) {
	if t, ok := tx.(Incarnated); ok {
		return t.Incarnation(ctx)
	}
	return "", nil
}

// server is the key of a context under which a comparison says of which server
// it is: in the middle of a failover connections lead to two, and what one of
// them has says nothing of the other.
type server struct{}

// sameServer refuses a transaction of a comparison on another server.
func sameServer(ctx context.Context, tx Tx) error {
	want, comparing := ctx.Value(server{}).(string)
	if !comparing {
		return nil
	}
	now, err := incarnationOf(ctx, tx)
	if err == nil && now != want {
		err = &uncompared{now}
	}
	return err
}

// comparing runs f, and where f finds that the database has to be compared
// first, compares it and runs f again.
func (s *Store) comparing(ctx context.Context, f func() error) error {
	err := f()
	var first *uncompared
	if !errors.As(err, &first) {
		return err
	}
	if err := s.compareFirst(ctx, first.incarnation); err != nil {
		return err
	}
	return f()
}

// CompareFirst compares the database with the journal of [Store.Guard], unless
// that was done since its server started: a worker and a projector of one process
// do it once between them. Without a guard it compares with journal each time.
func (s *Store) CompareFirst(ctx context.Context, journal events.Reader) error {
	s.guard.mu.Lock()
	guarded := s.guard.journal != nil
	s.guard.mu.Unlock()
	if !guarded {
		return ledger.CompareLogged(ctx, s, journal, s.cfg.Logger)
	}
	var now string
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) (err error) {
		now, err = incarnationOf(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return s.compareFirst(ctx, now)
}

// compareFirst compares the server of an incarnation, unless somebody else does
// or just did.
func (s *Store) compareFirst(ctx context.Context, incarnation string) error {
	g := &s.guard
	g.mu.Lock()
	journal, flight := g.journal, g.flight
	g.mu.Unlock()
	select {
	case flight <- struct{}{}:
		defer func() { <-flight }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	g.mu.Lock()
	done := g.compared != nil && *g.compared == incarnation
	g.mu.Unlock()
	if done {
		return nil
	}
	err := ledger.CompareLogged(context.WithValue(ctx, server{}, incarnation), s, journal, s.cfg.Logger)
	switch {
	case errors.Is(err, ledger.ErrUnavailable): // also a database that went back
		return err
	case err != nil:
		return fmt.Errorf("%w: %w: %w", ledger.ErrUnavailable, &uncompared{incarnation}, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.compared = &incarnation
	return nil
}

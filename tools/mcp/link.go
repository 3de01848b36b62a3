package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// protocolVersion is the newest that has sessions: later ones let a server say
	// how long a list of tools need not be asked for again.
	protocolVersion = "2025-11-25"
	// maxMessage bounds one message of a server, in bytes.
	maxMessage = 8 << 20
	// settling is how long the end of a session that broke may take.
	settling = 3 * time.Second
	// maxLastWords bounds what is told of a program's standard error, in bytes.
	maxLastWords = 1 << 10
	// asideTimeout bounds a message that is no call, such as an answer to what a
	// server asked: nobody waits for it, and the SDK would for ever.
	asideTimeout = 10 * time.Second
	// closing is how long a session may take to close, and then a server.
	closing = 8 * time.Second
	// maxAsks bounds what a server may ask of us and has not been answered.
	maxAsks = 64

	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodListChanged = "notifications/tools/list_changed"
)

var (
	errTwice = errors.New("a request is sent once")
	errFlood = errors.New("it asks for too much at once")
)

// link is one session with a server, and what carries it.
type link struct {
	s       *server
	session *sdk.ClientSession
	conn    *conn
	life    context.Context //nolint:containedctx // of the link, which has no caller
	finish  context.CancelCauseFunc
	stop    func() error  // ends what carries it, and waits; may be called twice
	gone    chan struct{} // closed when all of it has ended
	calls   atomic.Int64  // under way
	suspect atomic.Bool   // something was not answered as it should have been
	missed  atomic.Int64  // lists in a row that were not answered in time
	probe   chan struct{} // closed when a ping that is under way has come to an end; its server's busy guards it
	version atomic.Value  // of the protocol, a string; for HTTP

	mu       sync.Mutex
	reports  map[string]*reports // by progress token
	reported int
}

// connect starts the server, or opens a session with it.
func (s *server) connect(ctx context.Context) (*link, error) {
	l := &link{s: s, gone: make(chan struct{}), reports: map[string]*reports{}}
	l.life, l.finish = context.WithCancelCause(context.Background())
	var t sdk.Transport
	var err error
	if s.cfg.URL != "" {
		t, err = l.overHTTP()
	} else {
		t, err = l.overStdio()
	}
	if err != nil {
		l.finish(err)
		return nil, s.fault(Unavailable, "%w", err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "daybook", Version: "1"}, &sdk.ClientOptions{
		// It would send tools/call again, up to ten times, for a server that asks for more.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Capabilities:   &sdk.ClientCapabilities{},
		Logger:         slog.New(slog.DiscardHandler),
	})
	l.session, err = client.Connect(ctx, &transport{Transport: t, l: l}, &sdk.ClientSessionOptions{ProtocolVersion: protocolVersion})
	if err != nil {
		_ = l.stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		l.finish(err)
		return nil, s.fault(Unavailable, "it could not be opened: %w%s", err, l.lastWords())
	}
	if r := l.session.InitializeResult(); r != nil {
		l.version.Store(r.ProtocolVersion)
	}
	s.wg.Go(func() {
		defer close(l.gone)
		err := l.session.Wait()
		_ = l.stop()
		l.finish(fmt.Errorf("the session has ended: %w", cmp.Or(err, errors.New("closed"))))
		if !errors.Is(context.Cause(l.life), errClosed) {
			s.host.Logger.Warn("an MCP server has ended", "server", s.cfg.Name, "error", err, "stderr", l.lastWords())
		}
	})
	return l, nil
}

// lastWords is the end of what a program wrote to standard error, which was
// redacted before it was cut.
func (l *link) lastWords() string {
	p, ok := l.conn.carrier().(*program)
	if !ok {
		return ""
	}
	text := p.stderr.String()
	if text == "" {
		return ""
	}
	if over := len(text) - maxLastWords; over > 0 {
		text = "…" + text[over:]
	}
	return "; it wrote: " + text
}

// over reports whether the session has ended, waiting a moment for what is ending.
func (l *link) over() bool {
	t := time.NewTimer(settling)
	defer t.Stop()
	select {
	case <-l.gone:
		return true
	case <-t.C:
		return false
	}
}

func (l *link) release() { l.calls.Add(-1) }

// end ends the link, within bounds. Calls under way come back at once.
func (l *link) end(why error) {
	l.finish(why)
	_ = l.stop()
	done := make(chan struct{})
	l.s.wg.Go(func() {
		defer close(done)
		_ = l.session.Close() // waits for whatever is under way
	})
	t := time.NewTimer(closing)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		_ = l.conn.Connection.Close()
	}
}

// probed ends a link whose server does not answer a ping. The ping goes on when
// ctx has ended, so that callers in a hurry do not keep a dead server alive.
func (l *link) probed(ctx context.Context) error {
	if l.probe == nil {
		l.probe = make(chan struct{})
		l.s.wg.Go(func() {
			defer close(l.probe)
			if l.answers() {
				return
			}
			l.s.host.Logger.Warn("an MCP server does not answer any more: it is ended", "server", l.s.cfg.Name)
			l.end(errors.New("it did not answer a ping"))
		})
	}
	select {
	case <-l.probe:
		l.probe = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answers reports whether the server still does.
func (l *link) answers() bool {
	ctx, cancel := context.WithTimeout(l.life, min(pingTimeout, l.s.cfg.startTimeout()))
	defer cancel()
	ok := l.session.Ping(ctx, nil) == nil
	if ok {
		l.suspect.Store(false)
	}
	return ok
}

// transport puts our connection around that of the SDK.
type transport struct {
	sdk.Transport
	l *link
}

func (t *transport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.l.conn.Connection = c
	return t.l.conn, nil
}

// conn sees every message before the SDK does: it knows of each request whether
// it was sent, keeps answers as they came, and takes notifications, which the SDK
// would queue without a bound.
type conn struct {
	sdk.Connection
	l       *link
	carries any           // *program, or nil
	sends   bool          // Write sends at once; over HTTP the round trip knows better
	turn    chan struct{} // holds one while a program is written to

	mu      sync.Mutex
	pending map[jsonrpc.ID]*exchange
	asks    int
}

func (c *conn) carrier() any {
	if c == nil {
		return nil
	}
	return c.carries
}

// Write sends a message.
func (c *conn) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		err := c.aside(ctx, m)
		c.mu.Lock()
		c.asks--
		c.mu.Unlock()
		if c.l.life.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil // it asked, and does not take the answer: other calls have nothing to do with it
		}
		return err
	case *jsonrpc.Request:
		if !m.IsCall() {
			return c.aside(ctx, m)
		}
		if x := exchangeOf(ctx); x != nil {
			if ctx.Err() != nil {
				return ctx.Err() // and nothing was sent
			}
			if !x.begin(m.ID, c.sends) {
				return errTwice
			}
			c.mu.Lock()
			if c.pending == nil {
				c.pending = map[jsonrpc.ID]*exchange{}
			}
			c.pending[m.ID] = x
			c.mu.Unlock()
			return c.pass(ctx, m, x)
		}
	}
	return c.pass(ctx, m, nil)
}

// aside sends what nobody waits for: an answer of ours, or a notification, such
// as that a call was called off. It is bounded, and does not outlive the link.
func (c *conn) aside(ctx context.Context, m jsonrpc.Message) error {
	ctx, cancel := context.WithTimeout(withExchange(ctx, nil), asideTimeout)
	defer cancel()
	defer context.AfterFunc(c.l.life, cancel)()
	return c.pass(ctx, m, nil)
}

// pass hands a message to what carries it. A program gets one at a time, for as
// long as ctx goes. What it has only a part of it cannot act upon: it was not
// sent, and nothing can be sent after it.
func (c *conn) pass(ctx context.Context, m jsonrpc.Message, x *exchange) error {
	p, ok := c.carries.(*program)
	if !ok {
		return c.Connection.Write(ctx, m)
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		x.unsent()
		return ctx.Err()
	}
	n, of, err := p.during(ctx, func() error { return c.Connection.Write(ctx, m) })
	switch {
	case err == nil, n > 0 && n >= of-1: // without its line break it is whole
		return err
	case n > 0:
		c.broken(true)
	}
	x.unsent()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Read returns the next message that the SDK is to see.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.broken(false)
			return m, err
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			if !m.IsCall() {
				c.l.notified(m)
				continue
			}
			c.mu.Lock()
			c.asks++
			flood := c.asks > maxAsks
			c.mu.Unlock()
			if flood {
				c.broken(true)
				return nil, errFlood
			}
		case *jsonrpc.Response:
			c.mu.Lock()
			x := c.pending[m.ID]
			delete(c.pending, m.ID)
			c.mu.Unlock()
			if x != nil {
				x.answered(m)
				if m.Error == nil {
					m.Result = json.RawMessage("{}") // nobody reads there what was kept, and it may be built to be costly
				}
			}
		}
		return m, nil
	}
}

// broken is called when nothing more is read: a program is ended, at once if it
// means harm. It may be deaf too, and hold what still writes to it.
func (c *conn) broken(harm bool) {
	p, ok := c.carries.(*program)
	if !ok {
		return
	}
	if harm {
		p.kill()
	}
	c.l.s.wg.Go(func() { _ = p.end() })
}

// forget is called when nobody waits for the exchange any more.
func (c *conn) forget(x *exchange) {
	if id, begun := x.request(); begun {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}
}

// notified takes a notification.
func (l *link) notified(r *jsonrpc.Request) {
	switch r.Method {
	case methodListChanged:
		l.s.listChanged()
	case methodProgress:
		var p struct {
			Token    any      `json:"progressToken"`
			Progress float64  `json:"progress"`
			Total    *float64 `json:"total"`
			Message  string   `json:"message"`
		}
		if json.Unmarshal(r.Params, &p) != nil {
			return
		}
		if token, ok := p.Token.(string); ok {
			l.report(token, report{p.Progress, p.Total, p.Message})
		}
	}
}

// report hands a report on, and drops it if nobody waits or too many do.
func (l *link) report(token string, r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to := l.reports[token]; to != nil {
		to.add(r)
	}
}

// reporting opens the way for reports of one call under a new token.
func (l *link) reporting(r *reports) (token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported++
	token = "daybook-" + strconv.Itoa(l.reported)
	l.reports[token] = r
	return token
}

// reportedAll closes it again.
func (l *link) reportedAll(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.reports[token].ch)
	delete(l.reports, token)
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Keys of what goes along with a call in _meta. A server that knows the first
// can keep from doing the same twice.
const (
	// MetaIdempotencyKey is the op key of a destructive call: the same for every
	// attempt and worker.
	MetaIdempotencyKey = "io.github.daybookhq/idempotency-key"
	// MetaFence is the attempt number of that key, from 1.
	MetaFence = "io.github.daybookhq/fence"
	// MetaAlreadyApplied is, in an answer, whether exactly this effect was there
	// before: true makes what else is in the answer the outcome of a keyed or fenced
	// call that is made again.
	MetaAlreadyApplied = "io.github.daybookhq/already-applied"
	// MetaTrace is the W3C traceparent.
	MetaTrace = "traceparent"
)

// caller is what stands behind one tool.
type caller struct {
	s          *server
	own        string // the server's name for it
	digest     events.Hash
	errorMeans ErrorMeaning
}

func (c *caller) fault(r Reason, format string, args ...any) *Error {
	e := c.s.fault(r, format, args...)
	e.Tool = c.own
	return e
}

// call makes one call. It is sent once at most; [tools.NoEffect] says that it
// certainly was not, or was refused.
func (c *caller) call(ctx context.Context, in *tools.Invocation) (any, error) {
	for try := 1; ; try++ {
		l, err := c.s.acquire(ctx)
		if err != nil {
			return nil, tools.NoEffect(err)
		}
		if why := c.s.refusal(c.own); why != "" {
			l.release()
			return nil, tools.NoEffect(c.fault(Changed, "%s", why))
		}
		k, err := l.call(ctx, c.own, in)
		l.release()
		// A session that had ended before anything was sent is no answer.
		if !k.sent && try == 1 && ctx.Err() == nil && (l.life.Err() != nil || errors.Is(err, sdk.ErrConnectionClosed)) && l.over() {
			continue
		}
		return c.outcome(ctx, k, err)
	}
}

// call sends the call and waits for what becomes of it.
func (l *link) call(ctx context.Context, own string, in *tools.Invocation) (known, error) {
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })
	defer stop()
	r := l.s.newReports(func(text string, metadata any) { in.Progress(l.s.withhold(text), metadata) })
	token := l.reporting(r)
	x := &exchange{giveUp: cancel}
	_, err := l.session.CallTool(withExchange(callCtx, x), params(own, token, in))
	if ctx.Err() == nil && callCtx.Err() != nil {
		err = context.Cause(callCtx)
	}
	l.conn.forget(x)
	l.reportedAll(token)
	r.settle()
	k := x.state()
	if k.raw == nil && k.fault == nil && k.sent && ctx.Err() != nil || k.status == http.StatusBadRequest { // which some mean for: no such session
		l.suspect.Store(true)
	}
	return k, err
}

func params(own, token string, in *tools.Invocation) *sdk.CallToolParams {
	p := &sdk.CallToolParams{Name: own, Meta: sdk.Meta{}}
	if len(in.Arguments) > 0 {
		p.Arguments = in.Arguments // as they are: numbers stay whole
	}
	if in.OpKey != "" {
		p.Meta[MetaIdempotencyKey] = in.OpKey
		p.Meta[MetaFence] = in.Fence
	}
	if in.Trace != "" {
		p.Meta[MetaTrace] = in.Trace
	}
	p.SetProgressToken(token)
	return p
}

// outcome is what is known of a call, in the words of [tools.Tool].
func (c *caller) outcome(ctx context.Context, k known, err error) (any, error) {
	why := k.why(ctx, err)
	var wire *jsonrpc.Error
	switch {
	case k.raw != nil:
		return c.answer(k.raw)
	case errors.As(k.fault, &wire) && (refusedCode(wire.Code) || doubtfulCode(wire.Code) && c.errorMeans == NoEffect):
		return nil, tools.NoEffect(c.fault(Refused, "refused: %w", why))
	case k.fault != nil && (wire != nil && doubtfulCode(wire.Code) || !refusedStatus(k.status)):
		return nil, c.fault(ServerFault, "%w", why)
	case k.status == http.StatusNotFound:
		return nil, tools.NoEffect(c.fault(Refused, "refused: it knows nothing of the session any more, or has moved; the next call opens a new one"))
	case refusedStatus(k.status):
		return nil, tools.NoEffect(c.fault(Refused, "refused: %w", why))
	case !k.sent:
		return nil, tools.NoEffect(c.fault(Unavailable, "not called: %w", why))
	}
	return nil, c.fault(Lost, "it was called, and there is no answer: %w", why)
}

// refusedCode reports whether an error of the protocol proves that nothing was
// done: the message was not understood, or nobody was there to handle it.
func refusedCode(code int64) bool {
	return code == jsonrpc.CodeParseError || code == jsonrpc.CodeMethodNotFound
}

// doubtfulCode reports whether a code reads like a refusal and is none: servers
// use it for results of theirs that do not fit their outputSchema, when the work
// is done, and gateways hand on whatever they got.
func doubtfulCode(code int64) bool {
	return code == jsonrpc.CodeInvalidRequest || code == jsonrpc.CodeInvalidParams
}

// refusedStatus reports whether a status of HTTP says so. 408 and 499 come from
// something in front of a server that may be at work.
func refusedStatus(status int) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusRequestTimeout, 499:
		return false
	}
	return status >= 400 && status < 500
}

// answer makes a result of what the server said.
func (c *caller) answer(raw json.RawMessage) (any, error) {
	r, err := readReply(raw)
	if err != nil {
		return nil, c.fault(Unreadable, "it answered, and the answer is not what the protocol has: %w", err)
	}
	if r.asks() {
		return nil, c.fault(InputRequired, "it asks for input before it goes on, which it gets from nobody here")
	}
	text, links := r.text()
	text = c.s.withhold(text)
	for i, l := range links {
		links[i] = source{c.s.withhold(l.Title), c.s.withhold(l.URL)}
	}
	if r.IsError {
		if text == "" {
			text = "it failed without saying why"
		}
		e := c.fault(Failed, "%s", text)
		if c.errorMeans == NoEffect {
			return nil, tools.NoEffect(e)
		}
		return nil, e
	}
	var value any = text
	if len(links) > 0 {
		value = withSources{text, links}
	}
	if r.alreadyApplied() {
		return nil, tools.AlreadyApplied(value)
	}
	return value, nil
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is one request with what is known of it. It travels in the context.
type exchange struct {
	giveUp context.CancelCauseFunc // ends this request alone; nil if nobody may

	mu     sync.Mutex
	id     jsonrpc.ID
	begun  bool
	posted bool
	resume string // the event that the rest of the answer was asked for after, last
	tries  int    // how often, after that one
	known  known
}

// known is what is known of a request.
type known struct {
	sent   bool            // something of it may have reached the server
	status int             // of an answer over HTTP; 0 for none
	raw    json.RawMessage // the result, as it came; nil for none
	fault  error           // the server's answer, if it was an error
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// begin reports whether this is the first time that the request is sent.
func (x *exchange) begin(id jsonrpc.ID, sent bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun {
		return false
	}
	x.id, x.begun, x.known.sent = id, true, sent
	return true
}

// post is begin for the round trip of HTTP, which a client could make twice.
func (x *exchange) post() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.posted {
		return false
	}
	x.posted = true
	return true
}

func (x *exchange) request() (jsonrpc.ID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id, x.begun
}

// unsent takes back that it was sent. Nil does nothing.
func (x *exchange) unsent() {
	if x == nil {
		return
	}
	x.mu.Lock()
	x.known.sent = false
	x.mu.Unlock()
}

// resumed counts that the rest of the answer is asked for after an event, and
// reports whether it still may be.
func (x *exchange) resumed(event string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if event != x.resume {
		x.resume, x.tries = event, 0
	}
	x.tries++
	return x.tries <= resumes
}

// last reports whether it may not be asked for again.
func (x *exchange) last() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tries >= resumes
}

func (x *exchange) reached() {
	x.mu.Lock()
	x.known.sent = true
	x.mu.Unlock()
}

func (x *exchange) statusIs(status int) {
	x.mu.Lock()
	x.known.sent, x.known.status = true, status
	x.mu.Unlock()
}

// answered keeps the server's own answer. What the SDK makes up for a stream
// that ended has no code, and is none.
func (x *exchange) answered(m *jsonrpc.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Error == nil {
		x.known.raw = m.Result
		if x.known.raw == nil {
			x.known.raw = json.RawMessage("null")
		}
		return
	}
	if errors.As(m.Error, new(*jsonrpc.Error)) {
		x.known.fault = m.Error
	}
}

func (x *exchange) state() known {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known
}

// why is the reason that there is no result, of what the SDK said.
func (k known) why(ctx context.Context, err error) error {
	switch {
	case k.fault != nil:
		return k.fault
	case k.status >= 300:
		return errors.New(statusText(k.status))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return errors.New("there is no answer")
	}
	return err
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return "it answered " + text
	}
	return "it answered with an unknown status"
}

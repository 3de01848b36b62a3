package tools

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/daybookhq/daybook/events"
)

// maxProgressEvents bounds what one call may add to the ledger.
const maxProgressEvents = 1000

// progress records what a running tool says of itself, and nothing after it
// was closed: no progress follows an outcome.
type progress struct {
	d    *Dispatcher
	ctx  context.Context //nolint:containedctx // of the call; report has none to be given
	env  Env
	call Call

	mu     sync.Mutex
	n      int
	closed bool
}

func (d *Dispatcher) progress(ctx context.Context, env Env, c Call) *progress {
	return &progress{d: d, ctx: ctx, env: env, call: c}
}

func (p *progress) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
}

func (p *progress) report(text string, metadata any) {
	m := p.d.metadata(metadata)
	text = p.d.clean(text, maxProgress)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n++; p.closed || p.n > maxProgressEvents {
		if !p.closed && p.n == maxProgressEvents+1 {
			p.d.cfg.Logger.Warn("tool reports too much progress: the rest is dropped", "tool", p.call.Name, "limit", maxProgressEvents)
		}
		return
	}
	err := p.env.Recorder.Record(p.ctx, events.ToolExecutionProgress{
		Call: p.call.ID, Attempt: p.call.Attempt, Tool: p.call.Name, Progress: text, Metadata: m, At: p.d.cfg.Now(),
	})
	if err != nil {
		p.d.cfg.Logger.Warn("progress not recorded", "tool", p.call.Name, "error", p.d.clean(rawErrorText(err), maxForeignError))
	}
}

// metadata redacts and bounds; what cannot be encoded is left out.
func (d *Dispatcher) metadata(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	j, err := d.cfg.Redactor.JSON(v)
	if err != nil || j.Len() > maxMetadata {
		return json.RawMessage(`{"omitted":true}`)
	}
	return j.Bytes()
}

package ledger

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// ForkRequest asks for a run that begins with another one's history. Run, Seq,
// Effects and By are required.
type ForkRequest struct {
	Run events.RunID
	// Seq is the last event of Run that the fork inherits, from 1.
	Seq     uint64
	Effects ForkEffects
	// ClientKey makes the fork idempotent per tenant, as for a submission; empty
	// makes a new fork each time.
	ClientKey string
	// Note is what the model is told where the inherited history ends; zero = nothing.
	Note redact.JSON
	// By is who asks; it is recorded on the run that is forked.
	By    string
	Trace string // zero = that of Run
}

// Forks begins runs with the history of others. Safe for concurrent use.
type Forks interface {
	// Fork queues a run whose history is that of Run up to Seq, followed by its
	// own. Nothing of Run changes but that it is told by a fact; it may go on or
	// have ended. The fork has the lineage root of Run: what any run of the
	// lineage has done is handed back to it and not done again. existed is true
	// when the client key was used for the same fork before. Errors:
	// [ErrNotFound], [ErrNoSuchEvent], [ErrClientKeyConflict].
	Fork(ctx context.Context, r ForkRequest) (run Run, existed bool, err error)
}

// ParseForkEffects returns the mode that s names.
func ParseForkEffects(s string) (ForkEffects, error) {
	switch e := ForkEffects(s); e {
	case ForkReplay, ForkSimulate, ForkAsk:
		return e, nil
	}
	return "", fmt.Errorf("effects %q: want replay, simulate or ask", s)
}

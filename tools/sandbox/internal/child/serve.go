//go:build unix

package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools/internal/confined"
	"github.com/daybookhq/daybook/tools/sandbox"
)

// Interpreter is what a child does.
type Interpreter struct {
	// Prepare does what is done before the process is confined, with what the host
	// itself supplied. It may be nil.
	Prepare func(context.Context, Order) error
	// Run runs the program. Its error says to the program's author why it failed.
	// When ctx ends, so should the program; the process does not wait for it.
	Run func(ctx context.Context, o Order, stdout, stderr io.Writer) error
	// WatchHeap: the heap of the process is the program's memory. Else Run itself
	// keeps to MaxMemory.
	WatchHeap bool
}

// grace is what a program may take to end after its time.
const grace = 250 * time.Millisecond

// Serve reads one order from r, runs it and writes what came of it to w. The
// process must do nothing else: it is confined, for good, and is to end when
// Serve returns, since a program whose time is up may still be there.
func Serve(r io.Reader, w io.Writer, in Interpreter) error {
	var o Order
	body, err := confined.Read(r, &o)
	if err != nil {
		return err
	}
	if l := o.Language; l != nil {
		if l.Size < 0 || l.Size > len(body) {
			return fmt.Errorf("read the order: %d bytes of a runtime in %d", l.Size, len(body))
		}
		l.Module, body = body[:l.Size], body[l.Size:]
	}
	o.Code = body
	if in.Prepare != nil {
		ctx, cancel := context.WithTimeout(context.Background(), prepareTime)
		defer cancel()
		if err := in.Prepare(ctx, o); err != nil {
			return json.NewEncoder(w).Encode(answer{Problem: err.Error()})
		}
	}
	if o.Language != nil && o.Language.Check {
		return json.NewEncoder(w).Encode(answer{OK: true})
	}
	// Growing copies, and what is not needed any more is not collected at once;
	// compiling takes memory, too.
	if err := confined.Confine(confined.Limits{Memory: 3*uint64(o.MaxMemory) + 256<<20, CPU: o.Timeout + startAndEnd}); err != nil {
		return json.NewEncoder(w).Encode(answer{Problem: err.Error()})
	}
	return json.NewEncoder(w).Encode(in.serve(o))
}

func (in Interpreter) serve(o Order) answer {
	stdout, stderr := &sandbox.Buffer{Max: o.MaxOutput}, &sandbox.Buffer{Max: o.MaxOutput}
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	if in.WatchHeap {
		go confined.WatchHeap(uint64(o.MaxMemory), ended) // until the process ends, too
	}
	done := make(chan error, 1)
	go func() { // nobody waits for it: the process ends
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("the interpreter crashed: %v", p)
			}
		}()
		done <- in.Run(ctx, o, stdout, stderr)
	}()
	late := time.NewTimer(o.Timeout + grace)
	defer late.Stop()
	err := context.DeadlineExceeded
	select {
	case err = <-done:
	case <-late.C:
	}
	a := answer{OK: err == nil, Stdout: stdout.String(), Stderr: stderr.String()}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		a.Stderr += timeUp(o)
	default:
		a.Stderr += clip(err.Error()) + "\n"
	}
	return a
}

// maxReason bounds why a program failed: there may be a stack trace in it, or what
// the program threw.
const maxReason = 2000

func clip(s string) string {
	s = strings.TrimRight(s, "\n")
	if len(s) > maxReason {
		return strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}

// Package sandbox is where programs run that nobody has read: the contract of
// what the tool code_exec needs. Each sandbox is a package of its own below this
// one, so that only those who use it link what it needs.
package sandbox

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Program is a short program, as a model wrote it.
type Program struct {
	Code     string
	Language string // as the host named it; a sandbox for one language ignores it
	// Timeout bounds the run. Zero means the sandbox's own limit.
	Timeout time.Duration
}

// Output is what a program came to.
type Output struct {
	// OK is false if the program failed, whatever it failed at: its syntax, its
	// own error, a limit. Stderr says why.
	OK     bool
	Stdout string
	Stderr string
	// CostMicroUSD is what the run cost; nil means that nobody measured it.
	CostMicroUSD *int64
}

// Sandbox runs programs that can do nothing to whoever runs them. Safe for
// concurrent use.
type Sandbox interface {
	// Execute returns an error only if the sandbox itself cannot work, or if ctx
	// ended. A program that fails is an Output.
	Execute(ctx context.Context, p Program) (Output, error)
}

// Buffer keeps the first Max bytes that are written to it and drops the rest,
// as what prints without end must not fill the memory. Safe for concurrent use.
type Buffer struct {
	Max int

	mu      sync.Mutex
	buf     bytes.Buffer
	dropped bool
}

// Write implements [io.Writer]; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keep := min(len(p), b.Max-b.buf.Len())
	b.buf.Write(p[:keep])
	b.dropped = b.dropped || keep < len(p)
	return len(p), nil
}

// String returns what was kept, and says so if something was dropped.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped {
		return b.buf.String() + "\n(the rest of the output is left out)\n"
	}
	return b.buf.String()
}

// Cut reports whether something was dropped.
func (b *Buffer) Cut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

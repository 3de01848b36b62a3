// Package fanout asks several sources the same question at once, for tools that
// make one answer of theirs.
package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Source is what is asked.
type Source interface {
	// Name is how failures call it.
	Name() string
}

// Name is that of all sources as one.
func Name[S Source](sources []S) string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.Name()
	}
	return strings.Join(names, "+")
}

// Line makes one line of text from outside, of at most limit bytes.
func Line(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Answer is what came of one source.
type Answer[R any] struct {
	Name string
	R    R
	Err  error // "crashed" if the source panicked
}

// Ask asks all sources and waits for all of them. The answers are in the order of
// the sources. It returns an error, the cause, only if ctx has ended.
func Ask[S Source, R any](ctx context.Context, sources []S, ask func(S) (R, error)) ([]Answer[R], error) {
	answers := make([]Answer[R], len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() {
			a := &answers[i]
			defer func() {
				if p := recover(); p != nil {
					*a = Answer[R]{Name: a.Name, Err: errors.New("crashed")}
				}
			}()
			a.Name = s.Name()
			a.R, a.Err = ask(s)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answers, nil
}

// NoAnswer is the error of sources of which none answered: what they are, and what
// each of them said, as name and text.
func NoAnswer(what string, said [][2]string) error {
	parts := make([]string, len(said))
	for i, s := range said {
		parts[i] = s[0] + ": " + s[1]
	}
	return fmt.Errorf("no %s answered: %s", what, strings.Join(parts, "; "))
}

// Add adds costs in micro-USD. Nil is unmeasured, and does not make the other so.
func Add(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

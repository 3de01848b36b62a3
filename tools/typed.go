package tools

import "context"

// New makes a tool from a typed function.
func New[In, Out any](def Definition, fn func(context.Context, *Invocation, In) (Out, error)) (Tool, error) {
	return nil, nil
}

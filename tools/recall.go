package tools

import "context"

// Recalled is a turn of the transcript, word for word as it is recorded.
type Recalled struct {
	ID   string // as it was asked for
	Text string // what was said, called and answered in it; empty = there is no such turn
}

// Recaller reads the original of what was compacted. It comes from the record
// alone, so a call that is made again after a crash reads the same. See
// [Invocation.Recaller].
type Recaller interface {
	// Recall returns turns by their ids, such as t3, in the order asked for. An
	// error means that the record could not be read.
	Recall(ctx context.Context, ids []string) ([]Recalled, error)
}

// Package export writes the ledger out for people and programs that have no access
// to it: events, calls and runs as lines of JSON, as CSV or as CloudEvents, and beside
// them what proves offline that nothing of it was changed or left out.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// A Kind is what a file of an export holds, a line each.
type Kind string

// Kinds. Stored in manifests; never renamed.
const (
	Events Kind = "events"
	Calls  Kind = "calls" // transitions of tool calls
	Runs   Kind = "runs"
	Heads  Kind = "heads" // the last event of each run; see [Head]
)

// Kinds are those that can be asked for.
var Kinds = []Kind{Events, Calls, Runs}

// A Format is how lines are written.
type Format string

// Formats. Stored in manifests; never renamed.
const (
	JSONL       Format = "jsonl"
	CSV         Format = "csv"
	CloudEvents Format = "cloudevents" // of events alone
)

// Formats are all of them.
var Formats = []Format{JSONL, CSV, CloudEvents}

// ErrIncomplete: the archive lacks events that are between others. While workers
// write they may be on their way.
var ErrIncomplete = errors.New("the archive has a hole")

// Options say what is written out. Format is required.
type Options struct {
	Filter ledger.ExportFilter
	Kinds  []Kind // empty = all that the format has
	Format Format
	// Asked is how Since and Until were said, such as 24h: an export that was broken off
	// and is asked for in the same words goes on with the moments of its beginning.
	// Empty: they have to be the same.
	Asked string
	// Done is told how many events are written; nil = nobody.
	Done func(events int64)
}

// check fills what is left out.
func (o *Options) check() error {
	if !slices.Contains(Formats, o.Format) {
		return fmt.Errorf("format %q: want one of %q", o.Format, Formats)
	}
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds
		if o.Format == CloudEvents {
			o.Kinds = []Kind{Events}
		}
	}
	for _, k := range o.Kinds {
		switch {
		case !slices.Contains(Kinds, k):
			return fmt.Errorf("%q: want some of %q", k, Kinds)
		case o.Format == CloudEvents && k != Events:
			return fmt.Errorf("as CloudEvents there are only events: %s have the formats jsonl and csv", k)
		}
	}
	if o.Done == nil {
		o.Done = func(int64) {}
	}
	return nil
}

// A Head is the last event of a run that was written out, and so, by the chain, all of
// its history up to there.
type Head struct {
	Run events.RunID `json:"run_id"`
	// Seq and Hash are those of the event; 0 and zero if the run has none yet.
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash,omitzero"`
	// Calls are written out up to this event: what came after was not folded yet.
	Calls uint64 `json:"calls_through"`
	// Hole is the first event that the archive lacked though it had later ones; 0 = none.
	Hole uint64 `json:"hole,omitempty"`
}

// A Place is where an export to a stream goes on: behind an event, a call or (with Seq
// 0) a whole run. The zero Place is the beginning.
type Place struct {
	Run events.RunID
	Seq uint64
}

// Stream writes lines of one kind to w, from after on, at most limit of them (0 = no
// bound), and returns the place of the last; more says that there are others. CSV has its
// header at the beginning alone. Errors: [ErrIncomplete] with lines that are good but for
// the holes, also with more.
func Stream(ctx context.Context, src ledger.Exports, o Options, after Place, limit int64, w io.Writer) (last Place, more bool, err error) {
	if err := o.check(); err != nil {
		return after, false, err
	}
	if len(o.Kinds) != 1 {
		return after, false, fmt.Errorf("one stream has lines of one kind, not %q: name one, or export to a directory", o.Kinds)
	}
	size, err := src.ExportSize(ctx, o.Filter)
	if err != nil || size.Runs == 0 {
		return after, false, err
	}
	o.Filter.Upto = size.Last
	s := &stream{w: w, kind: o.Kinds[0], last: after, limit: limit}
	if o.Format == CSV && after == (Place{}) {
		if err := s.write(header(s.kind)); err != nil {
			return after, false, err
		}
	}
	at := position{Run: after.Run, Seq: after.Seq, Done: s.kind == Runs || after.Seq == 0}
	err = (&walk{src: src, o: o, to: s, calls: after, headless: s.kind != Events}).all(ctx, at)
	if errors.Is(err, errEnough) {
		return s.last, true, s.end()
	}
	return s.last, false, err
}

// errEnough: the limit is reached, and there is another line.
var errEnough = errors.New("enough")

// stream is the sink of lines of one kind.
type stream struct {
	w     io.Writer
	kind  Kind
	last  Place
	limit int64
	rows  int64
	holes int
	hole  Head
}

func (s *stream) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("write %s: %w", s.kind, err)
	}
	return nil
}

func (s *stream) row(kind Kind, at Edge, line []byte) error {
	if kind != s.kind {
		return nil
	}
	if s.limit > 0 && s.rows == s.limit {
		return errEnough
	}
	s.rows, s.last = s.rows+1, Place{at.Run, at.Seq}
	return s.write(line)
}

func (s *stream) head(h Head) error {
	if h.Hole > 0 {
		if s.holes++; s.holes == 1 {
			s.hole = h
		}
	}
	return nil
}

func (s *stream) kept(position) error { return nil }

func (s *stream) end() error {
	if s.holes == 0 {
		return nil
	}
	return holes(s.holes, s.hole)
}

func holes(n int, first Head) error {
	return fmt.Errorf("%d runs, first run %s, whose event %d is missing: their histories are written out up to there; if workers are writing it may be on its way: export again: %w", n, first.Run, first.Hole, ErrIncomplete)
}

//go:build unix

package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daybookhq/daybook/tools/internal/confined"
)

// task is the first line that a child reads; the document follows.
type task struct {
	Format, URL, ContentType, Charset string
	MaxText                           int
	Memory                            int64
	CPUSeconds                        uint64
}

// document is what a child writes.
type document struct {
	Title, Text string
	Cut         bool
	Error       string // for a model
}

// Child is what a process does that [Options.Command] starts: it reads one
// document from in, and writes its text to out. It first gives up memory and
// processor time beyond the limits, files, sockets and other programs, for good. The result
// is the exit code.
func Child(in io.Reader, out io.Writer) int {
	var t task
	body, err := confined.Read(in, &t)
	if err != nil {
		return 2
	}
	if err := confine(t); err != nil {
		return answer(out, document{Error: "the document could not be parsed here: no limits can be set"})
	}
	return answer(out, parse(t, body))
}

func confine(t task) error {
	return confined.Confine(confined.Limits{Memory: uint64(t.Memory), CPU: time.Duration(t.CPUSeconds) * time.Second})
}

func answer(out io.Writer, d document) int {
	if err := json.NewEncoder(out).Encode(d); err != nil {
		return 2
	}
	return 0
}

// parse has a child parse a document.
func (r *Reader) parse(ctx context.Context, t task, body []byte) (document, error) {
	var d document
	err := r.children.Do(ctx, confined.Order{Head: t, Body: body, Time: r.limits.Time, MaxAnswer: 8*int64(t.MaxText) + 64<<10}, &d)
	switch {
	case err == nil && d.Error == "":
		return d, nil
	case err == nil:
		return document{}, errors.New(d.Error)
	case ctx.Err() != nil:
		return document{}, err
	case errors.Is(err, confined.ErrTime):
		return document{}, fmt.Errorf("the document could not be parsed in %v", r.limits.Time)
	case errors.Is(err, confined.ErrStart):
		return document{}, errors.New("the document could not be parsed: no parser can be started here")
	}
	return document{}, errors.New("the document could not be parsed: it breaks the parser, or takes too much memory or time")
}

//go:build unix

package extract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/daybookhq/daybook/tools/internal/process"
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
// document from in, and writes its text to out. It first gives up memory,
// processor time, files and core dumps beyond the limits, for good. The result
// is the exit code.
func Child(in io.Reader, out io.Writer) int {
	r := bufio.NewReader(in)
	first, err := r.ReadBytes('\n')
	var t task
	if err != nil || json.Unmarshal(first, &t) != nil {
		return 2
	}
	if err := confine(t); err != nil {
		return answer(out, document{Error: "the document could not be parsed here: no limits can be set"})
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return 2
	}
	return answer(out, parse(t, body))
}

func answer(out io.Writer, d document) int {
	if err := json.NewEncoder(out).Encode(d); err != nil {
		return 2
	}
	return 0
}

// confine sets limits that cannot be raised again. That of memory counts what
// is written to, on top of what the process has now: address space, which
// RLIMIT_AS counts, Go reserves by the gigabyte.
func confine(t task) error {
	debug.SetMemoryLimit(t.Memory / 2) // collect in time
	for _, l := range []struct {
		what int
		most uint64
	}{
		{syscall.RLIMIT_DATA, dataSize() + uint64(t.Memory)},
		{syscall.RLIMIT_CPU, t.CPUSeconds},
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_FSIZE, 0},
		{syscall.RLIMIT_NOFILE, 16},
	} {
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return err
		}
	}
	return nil
}

// dataSize is what counts against RLIMIT_DATA already; 0 where the system does
// not say.
func dataSize() uint64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(l, "VmData:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 40)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

var errTime = errors.New("time for the document is up")

// parse has a child parse a document.
func (r *Reader) parse(ctx context.Context, t task, body []byte) (document, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return document{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Time, errTime)
	defer cancel()
	head, err := json.Marshal(t)
	if err != nil {
		return document{}, fmt.Errorf("describe the document: %w", err)
	}
	cmd := exec.CommandContext(ctx, r.command[0], r.command[1:]...)
	cmd.Env = []string{"GOTRACEBACK=none"} // nothing of this process's own
	cmd.Dir = "/"
	cmd.Stdin = io.MultiReader(strings.NewReader(string(head)+"\n"), strings.NewReader(string(body)))
	process.Group(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return document{}, fmt.Errorf("start a parser: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return document{}, errors.New("the document could not be parsed: no parser can be started here")
	}
	// A child of the child that left the group may hold the pipe open for ever.
	defer context.AfterFunc(ctx, func() { _ = out.Close() })()
	var d document
	derr := json.NewDecoder(io.LimitReader(out, 8*int64(t.MaxText)+64<<10)).Decode(&d)
	_ = process.Kill(cmd) // what it has said is all that is wanted; not waited for yet, so the number is still its own
	_ = process.Reap(cmd)
	switch {
	case derr == nil && d.Error == "":
		return d, nil
	case derr == nil:
		return document{}, errors.New(d.Error)
	case errors.Is(context.Cause(ctx), errTime):
		return document{}, fmt.Errorf("the document could not be parsed in %v", r.limits.Time)
	case ctx.Err() != nil:
		return document{}, context.Cause(ctx)
	}
	return document{}, errors.New("the document could not be parsed: it breaks the parser, or takes too much memory or time")
}

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/examples/research/standin"
	"github.com/daybookhq/daybook/ledger"
)

var questions = []question{
	{"question-1", "What would the kelp belt that the council plans do to the storm waves at the pier?"},
	{"question-2", "How wide must the kelp belt be for waves half as high?"},
}

// supervisor starts the stand-ins and the workers, and asks the ledger. It does
// none of the work.
type supervisor struct {
	dir       string
	spare     bool     // no worker is killed
	files     string   // command of an MCP server; empty is the example's own
	ledgerctl []string // how to start that
	model     modelflag.Flags
	out       io.Writer
	leak      bool   // see standin.Config
	key       string // of the stand-in of OpenAlex; random if empty

	world  *standin.World
	server []string // command of the MCP server, with the folder
	runs   []ended

	mu     sync.Mutex
	child  *exec.Cmd
	dead   chan struct{} // closed when child has ended
	killed bool
}

// patience is with the machine, and with a person whom a run waits for.
const patience = 5 * time.Minute

func (s *supervisor) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end within %v", patience))
	defer cancel()
	if err := s.prepare(); err != nil {
		return err
	}
	if s.files != "" {
		fmt.Fprintf(s.out, "The agent's folder is served over MCP by %s.\n", s.files)
	}
	defer func() { err = errors.Join(err, s.world.Close()) }()
	for _, q := range questions {
		fmt.Fprintf(s.out, "\n%s\n", q.Text)
		if err := s.answer(ctx, q); err != nil {
			return fmt.Errorf("%w; everything is kept in %s", err, s.dir)
		}
	}
	return s.show(ctx)
}

// prepare makes the directory and starts the stand-ins.
func (s *supervisor) prepare() (err error) {
	if _, err := s.model.Open(); err != nil { // a worker would say it in its log
		return err
	}
	if s.server, err = s.fileServer(); err != nil {
		return err
	}
	if _, err := exec.LookPath(s.ledgerctl[0]); err != nil {
		return fmt.Errorf("%s is needed to ask the ledger: go install ./cmd/ledgerctl, or start this with go run: %w", s.ledgerctl[0], err)
	}
	if s.dir == "" {
		s.dir, err = os.MkdirTemp("", "daybook-research-")
	} else if err = os.MkdirAll(s.dir, 0o700); err == nil {
		if there, e := os.ReadDir(s.dir); e != nil || len(there) > 0 {
			return fmt.Errorf("--data %s: want a directory that is new or empty", s.dir)
		}
	}
	if err != nil {
		return err
	}
	brief, err := files.ReadFile("agent/brief.md")
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(s.path("files"), 0o700), os.WriteFile(s.path("files/brief.md"), brief, 0o600)); err != nil {
		return err
	}
	s.key = cmp.Or(s.key, "oa_"+rand.Text())
	s.world, err = standin.Start(standin.Config{BoardLog: s.path("board.jsonl"), Key: s.key, Leak: s.leak, Posted: s.posted})
	return err
}

// fileServer is the command of the MCP server for the agent's folder.
func (s *supervisor) fileServer() ([]string, error) {
	words := strings.Fields(s.files)
	if len(words) > 0 {
		if _, err := exec.LookPath(words[0]); err != nil {
			return nil, fmt.Errorf("--files: %s is not on this machine: leave --files out, the example has a server of its own: %w", words[0], err)
		}
		return words, nil
	}
	self, err := os.Executable()
	return []string{self, "files"}, err
}

func (s *supervisor) path(name string) string { return filepath.Join(s.dir, name) }

// posted is called while the worker's request is held: the notice is up, and
// the worker does not know it. The first time, it never will.
func (s *supervisor) posted(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 1 || s.spare || s.child == nil || s.child.Process.Kill() != nil {
		return true
	}
	s.killed = true
	<-s.dead
	fmt.Fprintf(s.out, "  worker %d killed: its notice is on the board, and it had not been told\n", s.child.Process.Pid)
	return false
}

// answer starts a worker, and another if it is killed, until there is an answer.
func (s *supervisor) answer(ctx context.Context, q question) error {
	for range 3 {
		e, err := s.worker(ctx, q)
		s.mu.Lock()
		killed := s.killed
		s.killed = false
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case killed: // and whatever came of that is no news
		case err != nil:
			return fmt.Errorf("the worker failed: %w; its last words are in %s", err, s.path("worker.log"))
		default:
			fmt.Fprintf(s.out, "  run %s %s\n", e.Run, e.State)
			s.runs = append(s.runs, e)
			return nil
		}
	}
	return errors.New("workers were killed three times")
}

// worker runs one worker process to its end.
func (s *supervisor) worker(ctx context.Context, q question) (e ended, err error) {
	self, err := os.Executable()
	if err != nil {
		return e, err
	}
	log, err := os.OpenFile(s.path("worker.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return e, err
	}
	defer log.Close()
	c := exec.CommandContext(ctx, self, "work")
	c.Stderr = log
	// Ctrl-C is for the supervisor; the worker sees its standard input end.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return e, err
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		return e, err
	}
	dead := make(chan struct{})
	s.mu.Lock()
	if err = c.Start(); err == nil {
		s.child, s.dead = c, dead
	}
	s.mu.Unlock()
	if err != nil {
		return e, fmt.Errorf("start a worker: %w", err)
	}
	fmt.Fprintf(s.out, "  worker %d started\n", c.Process.Pid)
	err = json.NewEncoder(in).Encode(order{
		Dir: s.dir, Question: q, Services: s.world.URL(), Web: s.world.Web(), OpenAlexKey: s.key,
		Files: slices.Concat(s.server, []string{s.path("files")}), Folder: s.path("files"), Model: s.model,
	})
	lines := json.NewDecoder(out)
	for e.State = string(ledger.Parked); err == nil && e.State == string(ledger.Parked); {
		if err = lines.Decode(&e); err == nil && e.State == string(ledger.Parked) {
			fmt.Fprintf(s.out, "  run %s waits; what for says\n    %s\n", e.Run, s.command("why", e.Run))
		}
	}
	err = errors.Join(err, c.Wait())
	close(dead)
	return e, err
}

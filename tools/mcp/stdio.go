//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/daybookhq/daybook/tools/internal/process"
)

const (
	// endGrace is how long a program may take to end after its input was closed.
	endGrace = 2 * time.Second
	// leftovers is how long the output of a program that has ended is read for what
	// is still in it: somebody else may hold it open.
	leftovers = time.Second
	maxStderr = 8 << 10

	defaultPath = "/usr/local/bin:/usr/bin:/bin"
)

// program is a server that was started here.
type program struct {
	cmd     *exec.Cmd
	kill    context.CancelFunc
	in, out *os.File // our ends of its standard input and output
	stderr  *tail
	ended   chan struct{}
	endOnce sync.Once
	n, of   int // what was written of the last message; its conn's turn guards it
}

// overStdio starts the program and returns the transport to it.
func (l *link) overStdio() (sdk.Transport, error) {
	p, err := l.s.run()
	if err != nil {
		return nil, err
	}
	l.conn = &conn{l: l, carries: p, sends: true, turn: make(chan struct{}, 1)}
	l.stop = p.end
	return &sdk.IOTransport{Reader: reading{p}, Writer: writing{p}, MaxLineLength: maxMessage}, nil
}

// run starts the program as the head of a process group of its own.
func (s *server) run() (*program, error) {
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	path, err := lookPath(s.cfg.Command[0], env)
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, path)
	c.Args, c.Dir, c.Env = slices.Clone(s.cfg.Command), s.cfg.Dir, env
	p := &program{cmd: c, kill: kill, stderr: &tail{max: maxStderr}, ended: make(chan struct{})}
	redacted := s.host.Redactor.Writer(p.stderr)
	c.Stderr = redacted
	process.Group(c)
	// Pipes of our own: those of package exec are closed when the program ends, with
	// its last answer still in them.
	var theirs [2]*os.File
	if theirs[0], p.in, err = os.Pipe(); err != nil {
		kill()
		return nil, err
	}
	if p.out, theirs[1], err = os.Pipe(); err != nil {
		kill()
		return nil, errors.Join(err, theirs[0].Close(), p.in.Close())
	}
	c.Stdin, c.Stdout = theirs[0], theirs[1]
	err = c.Start()
	_, _ = theirs[0].Close(), theirs[1].Close()
	if err != nil {
		kill()
		return nil, errors.Join(fmt.Errorf("its program could not be started: %w", err), p.in.Close(), p.out.Close())
	}
	s.wg.Go(func() {
		release := process.Guard(c)
		_ = process.Reap(c) // how it ended tells nothing that its silence does not
		release()
		if f, ok := redacted.(interface{ Flush() error }); ok {
			_ = f.Flush() // into memory
		}
		close(p.ended)
		_ = p.out.SetReadDeadline(time.Now().Add(leftovers))
	})
	return p, nil
}

// end asks the program to end by closing its input, and kills its whole group if
// it does not.
func (p *program) end() error {
	p.endOnce.Do(func() {
		_ = p.in.Close()
		t := time.NewTimer(endGrace)
		defer t.Stop()
		select {
		case <-p.ended:
		case <-t.C:
			p.kill()
			<-p.ended
		}
		p.kill() // nobody is left: it frees the context
	})
	return nil
}

// during runs write, whose writing to the program ends when ctx does, and returns
// how much of how much was written.
func (p *program) during(ctx context.Context, write func() error) (n, of int, err error) {
	p.n, p.of = 0, 0
	if err := p.in.SetWriteDeadline(time.Time{}); err != nil {
		return 0, 1, err
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = p.in.SetWriteDeadline(time.Unix(1, 0)) // closed, it is over anyway
	})
	err = write()
	if !stop() {
		<-over
	}
	return p.n, max(p.of, 1), err
}

// reading and writing are the two halves as the SDK wants them.
type reading struct{ p *program }

func (r reading) Read(b []byte) (int, error) { return r.p.out.Read(b) }

func (r reading) Close() error {
	return errors.Join(r.p.end(), r.p.out.Close())
}

type writing struct{ p *program }

func (w writing) Write(b []byte) (int, error) {
	n, err := w.p.in.Write(b)
	w.p.n, w.p.of = n, len(b)
	return n, err
}

func (w writing) Close() error { return nil } // reading's Close has closed it

// environment is all that the program gets, with secrets in it.
func (s *server) environment() ([]string, error) {
	all := map[string]string{"PATH": defaultPath, "LANG": "C.UTF-8"}
	if home, err := os.UserHomeDir(); err == nil {
		all["HOME"] = home
	}
	for name, v := range s.cfg.Env {
		all[name] = v
	}
	env := make([]string, 0, len(all))
	for name, v := range all {
		v, err := s.secret(v)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env, nil
}

// lookPath finds a program on the PATH that it will have.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if s, err := os.Stat(path); filepath.IsAbs(path) && err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the program %q is not on its PATH: write its whole path, or set PATH in env", name)
}

// tail keeps the last max bytes that are written to it. Safe for concurrent use.
type tail struct {
	max int
	mu  sync.Mutex
	b   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - t.max; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}

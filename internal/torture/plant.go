package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
	"github.com/daybookhq/daybook/internal/testenv/powercut"
	"github.com/daybookhq/daybook/runtime/system"
)

// Commands are the arguments that make the running program one of the
// torture's processes; the program that embeds this package understands them.
type Commands struct {
	// Program is the path of the binary; empty = this one.
	Program string
	// Worker, Projector and NATS are put before the flags that each gets.
	Worker, Projector, NATS []string
}

// plant is everything that runs: servers, workers, projectors.
type plant struct {
	dir      string
	cmds     Commands
	embedded bool
	ttl      time.Duration
	provider string
	say      func(format string, args ...any)

	pg      *pgserver.Server
	power   *power // nil where no power can be cut
	nats    *process
	natsURL string

	mu      sync.Mutex
	serial  int
	workers []*process
	project []*process
	killed  map[string]time.Time // worker name → when it was killed
	struck  []time.Time          // when anything was done to the plant
	calms   []calm
}

// process is one of the plant's processes.
type process struct {
	name string
	cmd  *exec.Cmd
	hold io.WriteCloser // it ends when this closes, as it does with us
	done chan struct{}
}

// launch starts this program as something else. A process of the torture does
// not outlive it: its standard input ends with us.
func (p *plant) launch(name string, args []string, env []string, stdout io.Writer) (*process, error) {
	program := p.cmds.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	log, err := workerLog(filepath.Join(p.dir, "logs", name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = log, log
	if stdout != nil {
		c.Stdout = stdout
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DAYBOOK_") || strings.HasPrefix(kv, "DAYBOOK_BUG") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is ours to handle
	hold, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	pr := &process{name: name, cmd: c, hold: hold, done: make(chan struct{})}
	go func() { // ends with the process
		_ = c.Wait() // how it ended is in its log
		close(pr.done)
	}()
	return pr, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks for an orderly end and waits for it, at most d.
func (p *process) stop(d time.Duration) {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.kill()
	}
}

// options say where the system is, for whoever looks at it from here.
func (p *plant) options() system.Options {
	o := system.Options{Grace: grace}
	if p.embedded {
		o.Dir = filepath.Join(p.dir, "data")
		return o
	}
	o.Postgres, o.NATS, o.Sync = p.pg.DSN("postgres"), p.natsURL, "always"
	return o
}

// build starts the servers and migrates.
func (p *plant) build(ctx context.Context) error {
	for _, d := range []string{"logs", "data", "nats"} {
		if err := os.MkdirAll(filepath.Join(p.dir, d), 0o700); err != nil {
			return err
		}
	}
	if !p.embedded {
		if err := p.startServers(); err != nil {
			return err
		}
	}
	_, err := system.Migrate(ctx, p.options())
	return err
}

// startServers starts PostgreSQL and NATS, on disks whose power can be cut
// where this machine has such.
func (p *plant) startServers() (err error) {
	var cfg pgserver.Config
	if p.power, err = newPower(); err != nil {
		if !errors.Is(err, powercut.ErrUnavailable) {
			return err
		}
		p.say("no power cuts: %v", err)
	} else {
		cfg.DataDir = filepath.Join(p.power.postgres.Dir, "data")
	}
	if p.pg, err = pgserver.Start(cfg); err != nil {
		return err
	}
	if err := p.startNATS(""); err != nil {
		return err
	}
	if p.power != nil {
		return p.power.sync() // initdb did not
	}
	return nil
}

func (p *plant) natsStore() string {
	if p.power != nil {
		return filepath.Join(p.power.nats.Dir, "store")
	}
	return filepath.Join(p.dir, "nats")
}

// startNATS starts the server again where it was, or on a free port.
func (p *plant) startNATS(listen string) error {
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	r, w := io.Pipe()
	pr, err := p.launch("nats", append(p.cmds.NATS, "--store", p.natsStore(), "--listen", listen), nil, w)
	if err != nil {
		return err
	}
	said := make(chan string, 1)
	go func() { // ends with the process, which closes the pipe
		in := bufio.NewScanner(r)
		for in.Scan() {
			select {
			case said <- in.Text():
			default:
			}
		}
	}()
	go func() {
		<-pr.done
		_ = w.Close()
	}()
	select {
	case url := <-said:
		p.nats, p.natsURL = pr, url
		return nil
	case <-pr.done:
		return fmt.Errorf("start nats: it ended; see %s", filepath.Join(p.dir, "logs", "nats.log"))
	case <-time.After(time.Minute):
		pr.kill()
		return errors.New("start nats: not ready within a minute")
	}
}

// restartNATS brings a dead server back on its port and store.
func (p *plant) restartNATS() error {
	return p.startNATS(strings.TrimPrefix(p.natsURL, "nats://"))
}

func (p *plant) startWorker() error {
	p.mu.Lock()
	p.serial++
	name := fmt.Sprintf("w%03d", p.serial)
	p.mu.Unlock()
	args := append(append([]string(nil), p.cmds.Worker...), "--name", name, "--provider", p.provider, "--lease-ttl", p.ttl.String())
	pr, err := p.launchOn(name, args)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.workers = append(p.workers, pr)
	p.mu.Unlock()
	return nil
}

func (p *plant) startProjector() error {
	p.mu.Lock()
	p.serial++
	name := fmt.Sprintf("p%03d", p.serial)
	p.mu.Unlock()
	pr, err := p.launchOn(name, append([]string(nil), p.cmds.Projector...))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.project = append(p.project, pr)
	p.mu.Unlock()
	return nil
}

// launchOn starts a process that works on this plant's system.
func (p *plant) launchOn(name string, args []string) (*process, error) {
	if p.embedded {
		return p.launch(name, append(args, "--dir", filepath.Join(p.dir, "data")), nil, nil)
	}
	return p.launch(name, args, []string{
		"DAYBOOK_POSTGRES_URL=" + p.pg.DSN("postgres"), "DAYBOOK_NATS_URL=" + p.natsURL, "DAYBOOK_NATS_SYNC=always", "DAYBOOK_GRACE=" + grace.String(),
	}, nil)
}

// alive returns the processes of a list that run.
func alive(ps []*process) (out []*process) {
	for _, pr := range ps {
		if !pr.ended() {
			out = append(out, pr)
		}
	}
	return out
}

// upkeep starts what is missing, as a supervisor of a real plant would.
func (p *plant) upkeep(workers, projectors int) error {
	p.mu.Lock()
	p.workers, p.project = alive(p.workers), alive(p.project)
	w, pr := workers-len(p.workers), projectors-len(p.project)
	p.mu.Unlock()
	for range w {
		if err := p.startWorker(); err != nil {
			return err
		}
	}
	for range pr {
		if err := p.startProjector(); err != nil {
			return err
		}
	}
	return nil
}

// close ends everything.
func (p *plant) close() error {
	var wg sync.WaitGroup
	p.mu.Lock()
	for _, pr := range append(append([]*process(nil), p.workers...), p.project...) {
		wg.Go(func() { pr.stop(15 * time.Second) })
	}
	p.mu.Unlock()
	wg.Wait()
	if p.nats != nil {
		p.nats.stop(10 * time.Second)
	}
	var err error
	if p.pg != nil {
		err = p.pg.Close()
	}
	if p.power != nil {
		err = errors.Join(err, p.power.close())
	}
	return err
}

// undisturbed reports whether nothing was done to the plant between two moments.
func (p *plant) undisturbed(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.struck {
		if at.After(from) && at.Before(to) {
			return false
		}
	}
	return true
}

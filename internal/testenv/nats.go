package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// A NATSServer is a NATS server with JetStream in this process, fsyncing before
// every ack, on a port of 127.0.0.1. Its methods fail the test on errors and may
// not be called concurrently, except URL.
type NATSServer struct {
	t      testing.TB
	store  string
	url    string
	server *embedded.Server // nil while stopped
}

// NATS starts a NATS server that ends with the test.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	s := &NATSServer{t: t, store: t.TempDir()}
	s.start(freeAddress(t))
	t.Cleanup(s.Stop)
	return s
}

// freeAddress is where a server can listen, also once more after it was down.
func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// URL is where clients connect. It stays the same over restarts.
func (s *NATSServer) URL() string { return s.url }

// StoreDir is where the server keeps its streams.
func (s *NATSServer) StoreDir() string { return s.store }

// Stop shuts the server down; clients see a lost connection.
func (s *NATSServer) Stop() {
	if s.server != nil {
		s.server.Shutdown()
		s.server = nil
	}
}

// Start starts a stopped server on the same store and port.
func (s *NATSServer) Start() {
	s.t.Helper()
	s.start(strings.TrimPrefix(s.url, "nats://"))
}

// Restart is Stop and Start.
func (s *NATSServer) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

func (s *NATSServer) start(listen string) {
	s.t.Helper()
	server, err := embedded.Start(embedded.Config{StoreDir: s.store, Listen: listen})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server, s.url = server, server.ClientURL()
}

// A NATSProcess is like a [NATSServer], but a process of its own that can be
// killed.
type NATSProcess struct {
	t      testing.TB
	binary string
	store  string
	url    string

	cmd   *exec.Cmd      // nil while it does not run
	stdin io.WriteCloser // natsd ends when it closes, so with this process
}

// StartNATSProcess builds and starts a NATS server beside this process. It ends
// with the test.
func StartNATSProcess(t testing.TB) *NATSProcess {
	t.Helper()
	return StartNATSProcessOn(t, t.TempDir())
}

// StartNATSProcessOn is StartNATSProcess with the streams in a directory of the
// test's own, such as a disk that can be filled.
func StartNATSProcessOn(t testing.TB, store string) *NATSProcess {
	t.Helper()
	p := &NATSProcess{t: t, binary: Build(t, "internal/testenv/cmd/natsd"), store: store}
	p.start(freeAddress(t))
	t.Cleanup(p.Kill)
	return p
}

// URL is where clients connect. It stays the same over restarts.
func (p *NATSProcess) URL() string { return p.url }

// StoreDir is where the server keeps its streams.
func (p *NATSProcess) StoreDir() string { return p.store }

// PID is the process, or 0 while it does not run.
func (p *NATSProcess) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *NATSProcess) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	p.wait()
}

// Stop lets the server shut down in order and waits for its end.
func (p *NATSProcess) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.stdin.Close()
	p.wait()
}

func (p *NATSProcess) wait() {
	_ = p.cmd.Wait() // a killed process is no news here
	p.cmd = nil
}

// Start starts a stopped or killed server on the same store and port.
func (p *NATSProcess) Start() {
	p.t.Helper()
	p.start(strings.TrimPrefix(p.url, "nats://"))
}

// TryStart is Start for a store that somebody has damaged: the server may take
// 8 GiB of address space, and if it does not start that is the error. The server
// can take a flipped bit for a gap of billions of messages, and all the memory of
// the machine to note them.
func (p *NATSProcess) TryStart() error {
	p.t.Helper()
	return p.begin("sh", "-c", `ulimit -v 8388608 && exec "$0" "$@"`, p.binary, "-store", p.store, "-listen", strings.TrimPrefix(p.url, "nats://"))
}

func (p *NATSProcess) start(listen string) {
	p.t.Helper()
	if err := p.begin(p.binary, "-store", p.store, "-listen", listen); err != nil {
		p.t.Fatal(err)
	}
}

func (p *NATSProcess) begin(name string, args ...string) error {
	p.t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.stdin = cmd, stdin
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.Kill()
		return fmt.Errorf("natsd did not start: %w\n%.2000s", err, stderr.String())
	}
	p.url = strings.TrimSpace(url)
	return nil
}

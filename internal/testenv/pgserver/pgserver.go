// Package pgserver runs a PostgreSQL server of our own from locally installed
// binaries, for tests: on a fresh directory, a free port of 127.0.0.1 and with
// fsync on. The server does not outlive the process that started it, even if
// that one is killed.
package pgserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A StopMode is how a server is asked to stop.
type StopMode string

const (
	Smart     StopMode = "smart"     // when the last client has gone
	Fast      StopMode = "fast"      // roll back, disconnect, checkpoint
	Immediate StopMode = "immediate" // no checkpoint: recovery at the next start
)

// A Config adapts a server. The zero value is good.
type Config struct {
	// Settings are added to postgresql.conf, such as "log_statement": "all".
	Settings map[string]string

	// InMemory puts the data on a memory file system, if there is one with room:
	// a database is made and dropped in 45 ms there instead of 250. The server
	// still syncs, but that neither costs nor saves anything: not for tests of
	// durability or speed.
	InMemory bool

	// DataDir is where the data is kept, apart from log and socket; it is made,
	// below a directory that exists. Empty is beside them.
	DataDir string
}

// A Server is a PostgreSQL server and its data. Its methods may not be called
// concurrently, except DSN. It keeps no goroutine.
type Server struct {
	bin     string
	dir     string // holds log and socket, and data/ unless that is elsewhere
	dataDir string
	port    int
	account *account

	watchdog *exec.Cmd // ends the server when this process ends
	tether   *os.File  // what the watchdog reads; closes with this process
}

// Start makes a data directory and starts a server on it. The error wraps
// [ErrNoBinaries] where PostgreSQL is not installed.
func Start(cfg Config) (*Server, error) {
	s, err := create(cfg)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func create(cfg Config) (*Server, error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	u, err := unprivileged()
	if err != nil {
		return nil, err
	}
	parent := ""
	if cfg.InMemory {
		parent = memoryDir()
	}
	dir, err := freshDir(parent, u)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, dataDir: cfg.DataDir, account: u}
	if s.dataDir == "" {
		s.dataDir = filepath.Join(dir, "data")
	} else if err := ownedDir(s.dataDir, u); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.initialise(cfg); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) initialise(cfg Config) error {
	// --no-sync concerns these first files alone; the server itself syncs.
	err := s.run("initdb", "--no-sync", "--no-instructions", "--auth=trust", "--username=postgres",
		"--encoding=UTF8", "--locale=C", "--pgdata="+s.data())
	if err != nil {
		return err
	}
	if s.port, err = FreePort(); err != nil {
		return err
	}
	if err := s.configure(cfg); err != nil {
		return err
	}
	return s.watch()
}

func (s *Server) configure(cfg Config) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	lines := []string{
		"listen_addresses = '127.0.0.1'",
		fmt.Sprintf("port = %d", s.port),
		"unix_socket_directories = '" + s.dir + "'",
		"max_connections = 200",
	}
	for name, value := range cfg.Settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'", name, strings.ReplaceAll(value, "'", "''")))
	}
	slices.Sort(lines[4:])
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// watch starts a shell that waits for this process to end, by whatever means:
// then its pipe reads end of file, and it stops the server and removes its
// directory. Close tells it that this is done already.
func (s *Server) watch() error {
	const script = `read -r word; [ "$word" = done ] && exit 0
		"$0" -D "$2" -m immediate stop; rm -rf "$1" "$2"`
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := s.account.command("/", "sh", "-c", script, filepath.Join(s.bin, "pg_ctl"), s.dir, s.data())
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		return errors.Join(err, r.Close(), w.Close())
	}
	s.watchdog, s.tether = cmd, w
	return r.Close()
}

// DSN is the URL of a database of this server; "postgres" always exists.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Start starts a stopped or killed server, on the same data and port, and
// returns when it takes connections.
func (s *Server) Start() error {
	if err := s.run("pg_ctl", "-D", s.data(), "-l", s.logFile(), "-w", "-t", "180", "start"); err != nil {
		return fmt.Errorf("%w\nserver log:\n%s", err, s.Log())
	}
	return nil
}

// Stop stops the server and returns when it has ended.
func (s *Server) Stop(mode StopMode) error {
	return s.run("pg_ctl", "-D", s.data(), "-m", string(mode), "-w", "-t", "180", "stop")
}

// Log is the end of what the server wrote to its log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	const most = 8 << 10
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}

// Close ends the server if it runs and removes its data.
func (s *Server) Close() error {
	var err error
	if s.Running() {
		err = s.Stop(Immediate)
	}
	if s.tether != nil {
		_, werr := s.tether.WriteString("done\n")
		err = errors.Join(err, werr, s.tether.Close(), s.watchdog.Wait())
		s.tether = nil
	}
	return errors.Join(err, os.RemoveAll(s.data()), os.RemoveAll(s.dir))
}

func (s *Server) data() string    { return s.dataDir }
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) run(program string, args ...string) error {
	out, err := s.account.command(s.dir, filepath.Join(s.bin, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// FreePort is a port of 127.0.0.1 that was free a moment ago. It is not one of
// those that outgoing connections get (from 32768 on Linux): a server that is
// down for a while would find it taken.
func FreePort() (port int, err error) {
	const low, high = 15_000, 32_000
	for range 100 {
		port = low + rand.IntN(high-low) //nolint:gosec // no secret
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

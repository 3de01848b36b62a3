// Package embedded is a NATS server with JetStream inside this process, on a
// store directory of its own. It is what `runner dev`, `runner demo` and the
// tests run on; production uses a NATS cluster through the same client code.
package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ErrStoreInUse is returned by [Start] when another server, in this process or
// another, holds the store directory.
var ErrStoreInUse = errors.New("store directory is in use")

// readyTimeout bounds the recovery of a store at start. It is generous: a big
// store is read once from end to end.
const readyTimeout = 2 * time.Minute

// A Config says where the server keeps its streams and how it can be reached.
type Config struct {
	// StoreDir is the directory of the streams; it is made if it is missing.
	// Required. At most one server may be on it at a time.
	StoreDir string

	// SyncInterval is how often streams are fsynced. Zero means "always": a
	// publish is acknowledged only after its fsync, the setting Daybook ships
	// with. A positive interval may lose what was acknowledged during it, if
	// the power fails.
	SyncInterval time.Duration

	// MaxStoreBytes bounds all streams together. Zero or less means three
	// quarters of the disk space that is free at the start.
	MaxStoreBytes int64

	// Listen is a TCP address such as "127.0.0.1:4222"; port 0 takes a free
	// one. Empty means no TCP port at all: only [Server.Connect] reaches it.
	Listen string

	// Socket is the path of a Unix socket by which other processes of the same user
	// reach the server with [Dial]. Empty means none; one that cannot be made is
	// a warning.
	Socket string

	// Logger receives what the server says. Nil means silence, except that the
	// reason why a start failed is always part of the error.
	Logger *slog.Logger
}

// A Server is a running NATS server. Its methods may be called concurrently.
type Server struct {
	nats *server.Server
	lock *os.File
	door *doorway
	stop sync.Once
}

// Start recovers the store directory, starts the server and returns once it
// takes connections. The error wraps [ErrStoreInUse] if another server is on
// that directory.
func Start(cfg Config) (*Server, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("start embedded nats: StoreDir is empty; name a directory")
	}
	opts, err := serverOptions(cfg)
	if err != nil {
		return nil, fmt.Errorf("start embedded nats: %w", err)
	}
	lock, err := lockDir(cfg.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("start embedded nats: %w", err)
	}
	ns, err := run(opts, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("start embedded nats on %q: %w", cfg.StoreDir, errors.Join(err, lock.Close()))
	}
	s := &Server{nats: ns, lock: lock}
	if cfg.Socket != "" {
		if s.door, err = openDoorway(ns, cfg.Socket); err != nil && cfg.Logger != nil {
			cfg.Logger.Warn("other processes cannot reach the embedded NATS server", "socket", cfg.Socket, "error", err)
		}
	}
	return s, nil
}

func serverOptions(cfg Config) (*server.Options, error) {
	opts := &server.Options{
		ServerName:        "daybook",
		JetStream:         true,
		StoreDir:          cfg.StoreDir,
		SyncAlways:        cfg.SyncInterval <= 0,
		SyncInterval:      cfg.SyncInterval,
		JetStreamMaxStore: -1,
		NoSigs:            true,
		DontListen:        cfg.Listen == "",
	}
	if cfg.MaxStoreBytes > 0 {
		opts.JetStreamMaxStore = cfg.MaxStoreBytes
	}
	if cfg.Listen == "" {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: write it as host:port: %w", cfg.Listen, err)
	}
	opts.Host = host
	if opts.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("listen address %q: port %q is not a number", cfg.Listen, port)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

// lockDir takes a lock that the kernel drops when the process dies, so that no
// stale lock can outlive a SIGKILL. Two servers on one store would destroy it.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "daybook-nats.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %q", ErrStoreInUse, dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func run(opts *server.Options, out *slog.Logger) (*server.Server, error) {
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	log := &logger{out: out}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	deadline := time.Now().Add(readyTimeout)
	for !ns.ReadyForConnections(100 * time.Millisecond) {
		reason := log.fatal()
		if reason == "" && time.Now().Before(deadline) {
			continue
		}
		if reason == "" {
			reason = fmt.Sprintf("not ready after %v", readyTimeout)
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.New(reason)
	}
	return ns, nil
}

// Connect opens a client connection through memory, whether or not the server
// listens on a port. The caller closes it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	// The other end is a goroutine of this process. If it is slow the machine is,
	// and the client's 2 s would only turn that into a worker that does not start.
	own := []nats.Option{nats.InProcessServer(s.nats), nats.Timeout(30 * time.Second)}
	nc, err := nats.Connect("", append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded nats: %w", err)
	}
	return nc, nil
}

// ClientURL is where other processes reach the server, or "" if it does not
// listen.
func (s *Server) ClientURL() string {
	addr := s.nats.Addr()
	if addr == nil {
		return ""
	}
	return "nats://" + addr.String()
}

// Shutdown closes every connection, flushes the streams and returns when
// nothing of the server runs any more. Calling it again does nothing.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		s.door.close()
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		_ = s.lock.Close() // also drops the flock; nothing was written to it
	})
}

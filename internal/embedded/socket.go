package embedded

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxSocketPath is how long the path of a Unix socket may be everywhere.
const maxSocketPath = 100

// doorway lets other processes of the same user in through a Unix socket: no port is
// open, and who may open the directory may come in.
type doorway struct {
	nats *server.Server
	l    net.Listener
	path string
	wg   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	shut  bool
}

// openDoorway listens on path. A socket that a dead process left is taken away;
// whoever calls holds the lock of the store.
func openDoorway(ns *server.Server, path string) (*doorway, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	d := &doorway{nats: ns, path: path, conns: map[net.Conn]bool{}}
	err := throughDir(path, func(p string) (err error) {
		d.l, err = net.Listen("unix", p)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.l.(*net.UnixListener).SetUnlinkOnClose(false) // the path may be one of a descriptor
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, d.l.Close())
	}
	d.wg.Add(1)
	go d.accept()
	return d, nil
}

// throughDir calls f with path, or with one that is short and leads there.
func throughDir(path string, f func(string) error) error {
	if len(path) <= maxSocketPath {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

func (d *doorway) accept() {
	defer d.wg.Done()
	for {
		c, err := d.l.Accept()
		if err != nil {
			return // closed
		}
		in, err := d.nats.InProcessConn()
		if err != nil || !d.keep(c, in) {
			_ = c.Close() // the server is shutting down
			if err == nil {
				_ = in.Close()
			}
			continue
		}
		for _, way := range [][2]net.Conn{{c, in}, {in, c}} {
			go func() {
				defer d.wg.Done()
				_, _ = io.Copy(way[0], way[1]) // however it ends, both sides do
				d.drop(c, in)
			}()
		}
	}
}

// keep notes a pair of connections and what will copy between them.
func (d *doorway) keep(c, in net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return false
	}
	d.conns[c], d.conns[in] = true, true
	d.wg.Add(2)
	return true
}

func (d *doorway) drop(cs ...net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range cs {
		_ = c.Close()
		delete(d.conns, c)
	}
}

func (d *doorway) close() {
	if d == nil {
		return
	}
	_ = d.l.Close()
	d.mu.Lock()
	d.shut = true
	for c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
	_ = os.Remove(d.path)
}

// Dial connects to a server of another process by [Config.Socket]. The caller closes
// the connection. Nobody listening is an error that wraps syscall.ECONNREFUSED or
// os.ErrNotExist.
func Dial(socket string, opts ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(dialer(socket))}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded nats at %s: %w", socket, err)
	}
	return nc, nil
}

type dialer string

// InProcessConn implements nats.InProcessConnProvider.
func (d dialer) InProcessConn() (c net.Conn, err error) {
	err = throughDir(string(d), func(p string) error {
		c, err = net.Dial("unix", p)
		return err
	})
	return c, err
}

package access_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// pipes is a listener inside a bubble, where waiting costs nothing.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "127.0.0.1:8080" }

type pipeConn struct{ net.Conn }

func (pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }
func (pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

// dial connects to what serves.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- pipeConn{server}
	return client
}

// serve runs the guard's server over pipes until the test ends.
func serve(t *testing.T, h http.HandlerFunc) (*world, *pipes) {
	t.Helper()
	w := newWorld(t, func(o *access.Options) { o.Now = nil })
	srv := w.guard.Server(w.guard.Wrap(h))
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
		<-time.After(time.Second) // a connection lingers for half of one after its last answer
	})
	return w, l
}

// closedAfter is how long a peer goes on with something until the server hangs up.
func closedAfter(conn net.Conn, say func() error) time.Duration {
	start := time.Now()
	hung := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(hung)
	}()
	for {
		if err := say(); err != nil {
			break
		}
		select {
		case <-hung:
			return time.Since(start)
		case <-time.After(time.Second):
		}
	}
	<-hung
	return time.Since(start)
}

func TestThreatSlowClients(t *testing.T) {
	nothing := func(http.ResponseWriter, *http.Request) {}
	t.Run("headers a byte at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := serve(t, nothing)
			c := l.dial()
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
			if d := closedAfter(c, func() error { _, err := c.Write([]byte("a")); return err }); d > 7*time.Second {
				t.Errorf("hung up after %s", d)
			}
		})
	})
	t.Run("a body a byte at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := serve(t, nothing)
			c := l.dial()
			_, _ = io.WriteString(c, "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n")
			if d := closedAfter(c, func() error { _, err := c.Write([]byte("a")); return err }); d > 20*time.Second {
				t.Errorf("hung up after %s", d)
			}
		})
	})
	t.Run("nothing said at all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := serve(t, nothing)
			c := l.dial()
			if d := closedAfter(c, func() error { return nil }); d > 3*time.Minute {
				t.Errorf("hung up after %s", d)
			}
		})
	})
	t.Run("an answer that nobody reads", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan time.Duration, 1)
			w, l := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				start := time.Now()
				for {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						over <- time.Since(start)
						return
					}
				}
			})
			c := l.dial()
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+w.tokenNow("a", access.Read)+"\r\n\r\n")
			if d := <-over; d > 2*time.Minute {
				t.Errorf("given up after %s", d)
			}
		})
	})
	t.Run("headers without an end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, l := serve(t, nothing)
			c := l.dial()
			go func() {
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "+strings.Repeat("a", 64<<10))
			}()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%v, %v", res, err)
			}
			_ = c.Close()
		})
	})
}

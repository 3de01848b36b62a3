package netguard_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

func get(t *testing.T, in *netguardtest.Internet, l netguard.Limits, cut bool) (*netguard.Response, *netguard.Error) {
	t.Helper()
	c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Limits: l, Net: in.Net()})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/", Cut: cut})
	e := (*netguard.Error)(nil)
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error %v is no *netguard.Error", err)
	}
	return resp, e
}

func zipped(b []byte, times int) []byte {
	for range times {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(b)
		_ = z.Close()
		b = out.Bytes()
	}
	return b
}

// Limits of 8.2.
func TestAnswersAreBounded(t *testing.T) {
	zeros := make([]byte, 8<<20)
	noise := []byte(strings.Repeat("a line of text that is not very regular: 0123456789\n", 3000))
	for i := range noise {
		noise[i] ^= byte(i*i>>7) & 15
	}
	for _, tt := range []struct {
		name    string
		limits  netguard.Limits
		headers map[string]string
		body    []byte
		want    netguard.Reason
	}{
		{"body at the limit", netguard.Limits{Body: 1000}, nil, zeros[:1000], ""},
		{"body over the limit", netguard.Limits{Body: 1000}, nil, zeros[:1001], netguard.TooLarge},
		{"gzip that is honest", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, zipped(noise, 1), ""},
		{"gzip bomb by ratio", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, zipped(zeros, 1), netguard.Bomb},
		{"gzip bomb by size", netguard.Limits{Ratio: 1 << 30, Body: 1 << 20}, map[string]string{"Content-Encoding": "gzip"}, zipped(zeros, 1), netguard.TooLarge},
		{"gzip members in a row", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, bytes.Repeat(zipped(zeros[:1<<16], 1), 100), netguard.Bomb},
		{"packed over the limit", netguard.Limits{Packed: 1000}, map[string]string{"Content-Encoding": "gzip"}, zipped(noise, 1), netguard.TooLarge},
		{"gzip in gzip is one layer", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, zipped(zeros, 2), ""},
		{"gzip, gzip", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip, gzip"}, zipped(zeros, 2), netguard.BadEncoding},
		{"brotli", netguard.Limits{}, map[string]string{"Content-Encoding": "br"}, noise, netguard.BadEncoding},
		{"zstd", netguard.Limits{}, map[string]string{"Content-Encoding": "zstd"}, noise, netguard.BadEncoding},
		{"deflate", netguard.Limits{}, map[string]string{"Content-Encoding": "deflate"}, noise, netguard.BadEncoding},
		{"not gzip at all", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, noise, netguard.BadEncoding},
		{"broken gzip", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, append(zipped(noise, 1)[:500], noise[:50]...), netguard.BadEncoding},
		{"gzip that ends early", netguard.Limits{}, map[string]string{"Content-Encoding": "gzip"}, zipped(noise, 1)[:500], netguard.Broken},
		{"one header line", netguard.Limits{}, map[string]string{"X": strings.Repeat("a", 9<<10)}, nil, netguard.TooLarge},
		{"all headers", netguard.Limits{}, map[string]string{"X": strings.Repeat("a", 70<<10)}, nil, netguard.TooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tt.headers {
					w.Header().Set(k, v)
				}
				_, _ = w.Write(tt.body)
			})
			resp, err := get(t, in, tt.limits, false)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Reason != tt.want || !err.Sent) {
				t.Errorf("response %.80v, error %v, want %q", resp, err, tt.want)
			}
		})
	}
	t.Run("a body over the limit is cut where that is asked for", func(t *testing.T) {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(zeros) })
		resp, err := get(t, in, netguard.Limits{Body: 1000}, true)
		if err != nil || !resp.Cut || len(resp.Body) != 1000 {
			t.Errorf("%+v, %v", resp, err)
		}
	})
	t.Run("negative limits", func(t *testing.T) {
		if _, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Limits: netguard.Limits{Body: -1}}); err == nil {
			t.Error("accepted")
		}
	})
}

// raw answers every connection with what write writes.
func raw(in *netguardtest.Internet, write func(conn net.Conn)) {
	in.HandleConns("site.example.com", func(l net.Listener) error {
		var all sync.WaitGroup
		defer all.Wait()
		for {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			all.Go(func() {
				defer conn.Close()
				buf := make([]byte, 4<<10)
				if _, err := conn.Read(buf); err == nil {
					write(conn)
				}
			})
		}
	})
}

func TestBrokenAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         netguard.Reason
	}{
		{"nothing", "", netguard.Broken},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n", netguard.Broken},
		{"ends in its headers", "HTTP/1.1 200 OK\r\nContent-Type: te", netguard.Broken},
		{"shorter than it said", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", netguard.Broken},
		{"a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", netguard.Broken},
		{"informational answers without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100000), netguard.TooLarge},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", netguard.Broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := netguardtest.New(t)
			raw(in, func(conn net.Conn) { _, _ = io.WriteString(conn, tt.answer) })
			if resp, err := get(t, in, netguard.Limits{}, false); err == nil || err.Reason != tt.want || !err.Sent {
				t.Errorf("%+v, %v, want %q", resp, err, tt.want)
			}
		})
	}
}

func TestSlowAnswers(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	slowly := func(conn net.Conn, text string, every time.Duration) {
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
			time.Sleep(every)
		}
	}
	for _, tt := range []struct {
		name  string
		write func(net.Conn)
		after time.Duration
	}{
		{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, 5 * time.Second},
		{"silence in the body", func(c net.Conn) {
			_, _ = io.WriteString(c, head+"1\r\na\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, 5 * time.Second},
		{"headers at a byte a second", func(c net.Conn) { slowly(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 1000), time.Second) }, 30 * time.Second},
		{"a body at a byte a second", func(c net.Conn) {
			_, _ = io.WriteString(c, head)
			slowly(c, "1\r\na\r\n", time.Second)
		}, 30 * time.Second},
		{"events without end", func(c net.Conn) {
			_, _ = io.WriteString(c, head)
			for {
				if _, err := io.WriteString(c, "7\r\ndata: x\r\n"); err != nil {
					return
				}
				time.Sleep(4 * time.Second)
			}
		}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := netguardtest.New(t)
				raw(in, tt.write)
				start := time.Now()
				resp, err := get(t, in, netguard.Limits{}, false)
				if err == nil || err.Reason != netguard.TimedOut {
					t.Fatalf("%+v, %v", resp, err)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("given up after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// A host that takes an upload slowly is not silent, over TLS or without.
func TestSlowUploads(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 12<<10) // at 16 KiB a second, 12 seconds
	slowly := func(r io.Reader) (n int) {
		b := make([]byte, 16<<10)
		for {
			m, err := io.ReadFull(r, b)
			if n += m; err != nil || n >= len(body) {
				return n
			}
			time.Sleep(time.Second)
		}
	}
	post := func(t *testing.T, c *netguard.Client, url string) {
		t.Helper()
		start := time.Now()
		resp, err := c.Do(t.Context(), netguard.Request{Method: http.MethodPost, URL: url, Body: body})
		if err != nil || resp.Status != http.StatusOK {
			t.Errorf("after %v: %+v, %v", time.Since(start), resp, err)
		}
	}
	t.Run("https", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := netguardtest.New(t)
			over := make(chan struct{})
			defer func() { <-over }()
			in.HandleFunc("site.example.com", func(_ http.ResponseWriter, r *http.Request) {
				defer close(over)
				if n := slowly(r.Body); n != len(body) {
					t.Errorf("%d bytes arrived", n)
				}
			})
			c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: in.Net()})
			if err != nil {
				t.Fatal(err)
			}
			post(t, c, "https://site.example.com/")
		})
	})
	t.Run("http", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			c, err := netguard.Pinned("http://10.0.0.1:80", netguard.Limits{}, netguard.Net{
				Connect: func(context.Context, netip.AddrPort) (net.Conn, error) { return here, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			defer all.Wait()
			all.Go(func() {
				defer there.Close()
				r, err := http.ReadRequest(bufio.NewReader(there))
				if err != nil {
					t.Error(err)
					return
				}
				if n := slowly(r.Body); n != len(body) {
					t.Errorf("%d bytes arrived", n)
				}
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			post(t, c, "http://10.0.0.1:80/")
		})
	})
}

func TestErrorsNameNothingPrivate(t *testing.T) {
	in := netguardtest.New(t)
	in.Resolve("down.example.com", []netip.Addr{netip.MustParseAddr("93.184.217.77")})
	in.Resolve("inside.example.com", []netip.Addr{netip.MustParseAddr("10.9.8.7")})
	in.HandleFunc("other.example.com", func(http.ResponseWriter, *http.Request) {})
	in.Resolve("impostor.example.com", []netip.Addr{netip.MustParseAddr("93.184.216.1")}) // other's certificate
	c, err := netguard.New(netguard.Policy{
		Allow: []string{"*"}, Net: in.Net(),
		Headers: []netguard.Header{{Host: ".example.com", Name: "Authorization", Value: "Bearer s3cret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		host string
		ctx  context.Context
		want netguard.Reason
	}{
		{"down.example.com", t.Context(), netguard.Unreachable},
		{"inside.example.com", t.Context(), netguard.NotPublic},
		{"nowhere.example.com", t.Context(), netguard.UnknownHost},
		{"impostor.example.com", t.Context(), netguard.BadTLS},
		{"other.example.com", cancelled, netguard.Cancelled},
	} {
		_, err := c.Do(tt.ctx, netguard.Request{Method: "POST", URL: "https://" + tt.host + "/p4th?token=qu3ry", Body: []byte("b0dy")})
		e := (*netguard.Error)(nil)
		if !errors.As(err, &e) || e.Reason != tt.want || e.Sent {
			t.Errorf("%s: %v (%+v), want %q and nothing sent", tt.host, err, e, tt.want)
			continue
		}
		for _, secret := range []string{"s3cret", "qu3ry", "p4th", "b0dy", "10.9.8.7", "93.184"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %q tells %q", tt.host, err, secret)
			}
		}
	}
}

func TestRetryAfterAndText(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"7", 7 * time.Second},
		{"-7", 0},
		{"soon", 0},
		{"99999999999999999999", 0},
		{"Mon, 30 Nov 2026 10:01:00 GMT", time.Minute},
		{"Mon, 30 Nov 2026 09:00:00 GMT", 0},
	} {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Mon, 30 Nov 2026 10:00:00 GMT")
			w.Header().Set("Retry-After", tt.header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if resp, err := get(t, in, netguard.Limits{}, false); err != nil || resp.RetryAfter != tt.want {
			t.Errorf("Retry-After %q: %+v, %v", tt.header, resp, err)
		}
	}
	for _, tt := range []struct{ typ, body, want string }{
		{"text/plain; charset=utf-8", "café", "café"},
		{"text/plain; charset=ISO-8859-1", "caf\xe9", "café"},
		{"text/html", "<meta charset=windows-1252>caf\xe9", "<meta charset=windows-1252>café"},
		{"text/plain", "caf\xe9", "caf\uFFFD"},
		{"application/json; charset=no-such", "{}", "{}"},
	} {
		r := netguard.Response{Body: []byte(tt.body)}
		typ, cs, _ := strings.Cut(tt.typ, "; charset=")
		r.ContentType, r.Charset = typ, strings.ToLower(cs)
		if got := r.Text(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.typ, got, tt.want)
		}
	}
}

func ExampleNew() {
	client, err := netguard.New(netguard.Policy{Allow: []string{"api.example.com"}})
	if err != nil {
		panic(err)
	}
	_, err = client.Do(context.Background(), netguard.Request{URL: "https://169.254.169.254/latest/meta-data"})
	fmt.Println(err)
	// Output: refused: that address is not public
}

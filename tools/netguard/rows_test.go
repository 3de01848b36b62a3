package netguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

// zone is a name server inside the process, asked by Go's own resolver. A CNAME
// stands as its target, with a dot at the end.
type zone map[string][]string

func (z zone) lookup() func(context.Context, string) ([]netip.Addr, error) {
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go z.serve(there) // until the resolver hangs up
		return here, nil
	}}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		return r.LookupNetIP(ctx, "ip", host+".")
	}
}

// serve answers one connection, in the form of DNS over TCP.
func (z zone) serve(c net.Conn) {
	defer c.Close()
	var size [2]byte
	for {
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(c, b); err != nil || m.Unpack(b) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Authoritative, m.RecursionAvailable, m.Additionals = true, true, true, nil
		z.answer(&m, m.Questions[0].Name.String(), m.Questions[0].Type)
		out, err := m.AppendPack(make([]byte, 2, 512))
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(out, uint16(len(out)-2))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (z zone) answer(m *dnsmessage.Message, name string, want dnsmessage.Type) {
	for _, v := range z[strings.TrimSuffix(name, ".")] {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, TTL: 0}
		if strings.HasSuffix(v, ".") {
			h.Type = dnsmessage.TypeCNAME
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(v)}})
			z.answer(m, v, want)
			continue
		}
		switch a := netip.MustParseAddr(v); {
		case a.Is4() && want == dnsmessage.TypeA:
			h.Type = want
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && want == dnsmessage.TypeAAAA:
			h.Type = want
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
}

// Part E with a real resolver: what DNS can say of one name.
func TestNamesWhoseAnswersArePrivate(t *testing.T) {
	in := netguardtest.New(t)
	public := in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }).String()
	for name, z := range map[string]zone{
		"A private":                    {"site.example.com": {"10.0.0.1"}},
		"AAAA private":                 {"site.example.com": {"fd00::1"}},
		"A public, AAAA private":       {"site.example.com": {public, "::1"}},
		"AAAA public, A private":       {"site.example.com": {"2606:2800:220:1::1", "127.0.0.1"}},
		"A private beside public ones": {"site.example.com": {public, "93.184.217.1", "192.168.0.1"}},
		"CNAME to a private address":   {"site.example.com": {"other.example.com."}, "other.example.com": {"127.0.0.1"}},
		"CNAME to an internal name":    {"site.example.com": {"metadata.google.internal."}, "metadata.google.internal": {"169.254.169.254"}},
		"two CNAMEs":                   {"site.example.com": {"a.example.com."}, "a.example.com": {"b.example.com."}, "b.example.com": {"::ffff:10.0.0.1"}},
	} {
		t.Run("SG-73 "+name, func(t *testing.T) {
			n := in.Net()
			n.Lookup = z.lookup()
			c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: n})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"})
			if e := (*netguard.Error)(nil); !errors.As(err, &e) || e.Reason != netguard.NotPublic || len(in.Dialled()) != 0 {
				t.Errorf("%v, dialled %v", err, in.Dialled())
			}
		})
	}
	t.Run("SG-73 an honest CNAME", func(t *testing.T) {
		n := in.Net()
		n.Lookup = zone{"site.example.com": {"cdn.example.net."}, "cdn.example.net": {public}}.lookup()
		c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: n})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"}); err != nil || string(r.Body) != "hello" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Part E: the private address first, as in a race for the fastest; and with a zone.
func TestPrivateAddressFirst(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1", "fe80::1%eth0", "10.0.0.1", "64:ff9b::a9fe:a9fe"} {
		t.Run("SG-73 "+a, func(t *testing.T) {
			in := netguardtest.New(t)
			public := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
			in.Resolve("site.example.com", []netip.Addr{netip.MustParseAddr(a), public})
			refused(t, in, everything, "https://site.example.com/", 0, netguard.NotPublic)
			in.Resolve("site.example.com", []netip.Addr{netip.MustParseAddr(a)})
			refused(t, in, everything, "https://site.example.com/", 0, netguard.NotPublic)
		})
	}
}

// Part E: nothing that a host said or that was there before leads a later request
// past the guard.
func TestEveryRequestStartsAnew(t *testing.T) {
	ask := func(t *testing.T, in *netguardtest.Internet) error {
		t.Helper()
		c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: in.Net()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second one finds what the first one left
			if _, err = c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"}); err != nil {
				return err
			}
		}
		return nil
	}
	t.Run("SG-73 a name is resolved again", func(t *testing.T) {
		in := netguardtest.New(t)
		public := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
		in.Resolve("site.example.com", []netip.Addr{public}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
		err := ask(t, in)
		if e := (*netguard.Error)(nil); !errors.As(err, &e) || e.Reason != netguard.NotPublic || len(in.Dialled()) != 1 {
			t.Errorf("%v, dialled %v", err, in.Dialled())
		}
	})
	t.Run("SG-73 no connection is kept", func(t *testing.T) {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "keep-alive") })
		if err := ask(t, in); err != nil || len(in.Dialled()) != 2 {
			t.Errorf("%v, dialled %v", err, in.Dialled())
		}
	})
	t.Run("SG-73 Alt-Svc", func(t *testing.T) {
		in := netguardtest.New(t)
		public := in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Alt-Svc", `h2="127.0.0.1:443"; ma=3600, h3="127.0.0.1:443"; ma=3600`)
		})
		err := ask(t, in)
		for _, to := range in.Dialled() {
			if to.Addr() != public {
				t.Errorf("dialled %v", to)
			}
		}
		if err != nil || len(in.Dialled()) != 2 {
			t.Errorf("%v, dialled %v", err, in.Dialled())
		}
	})
	t.Run("SG-73 HTTP/2 is not spoken, and no host answers for another", func(t *testing.T) {
		in := netguardtest.New(t)
		spoken := make(chan string, 2)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, r *http.Request) {
			spoken <- r.Proto + " " + r.TLS.NegotiatedProtocol
			redirect("https://inside.example.com/", http.StatusFound)(w, r)
		})
		in.Resolve("inside.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
		refused(t, in, everything, "https://site.example.com/", 1, netguard.NotPublic)
		if s := <-spoken; s != "HTTP/1.1 " {
			t.Errorf("spoken: %q", s)
		}
	})
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "NO_PROXY"} {
		t.Run("SG-73 "+name, func(t *testing.T) {
			t.Setenv(name, "http://127.0.0.1:3128")
			in := netguardtest.New(t)
			public := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
			err := ask(t, in)
			if got := in.Dialled(); err != nil || len(got) != 2 || got[0].Addr() != public {
				t.Errorf("%v, dialled %v", err, got)
			}
			in.Resolve("inside.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
			refused(t, in, everything, "https://inside.example.com/", 2, netguard.NotPublic)
		})
	}
}

// Part D, as the list writes it: with http, and where the odd part is one that
// parsers agree about.
func TestOddURLsWithHTTP(t *testing.T) {
	for _, url := range []string{
		`http://127.1.1.1:80\@127.2.2.2/`, `http://1.1.1.1 &@2.2.2.2# @3.3.3.3/`, `http:127.0.0.1/`, `http:///127.0.0.1/`, `//127.0.0.1/`,
		`http://a@b@127.0.0.1/`, `http://example.com#@127.0.0.1/`, `http://example.com?@127.0.0.1/`, `http://[::1`, `http://example.com:80:80/`,
		"http://exa\tmple.com/", "http://exa\nmple.com/", `file:///etc/passwd`, `gopher://127.0.0.1:6379/_x`, `http://[::ffff:7f00:1]/`,
		`http://example.com\.evil/`, `http+unix://%2Fvar%2Frun%2Fdocker.sock/info`, `unix:/var/run/docker.sock`,
	} {
		t.Run("SG-73 "+url, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("example.com", func(http.ResponseWriter, *http.Request) {})
			refused(t, in, everything, url, 0, netguard.BadURL, netguard.NotPublic, netguard.BadScheme)
		})
	}
	for _, url := range []string{"https://example.com?@127.0.0.1/", "https://example.com#@127.0.0.1/", "https://example.com/@127.0.0.1/"} {
		t.Run("SG-73 "+url, func(t *testing.T) {
			in := netguardtest.New(t)
			public := in.HandleFunc("example.com", func(http.ResponseWriter, *http.Request) {})
			c, err := netguard.New(netguard.Policy{Allow: []string{"example.com"}, Net: in.Net()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Do(t.Context(), netguard.Request{URL: url})
			if got := in.Dialled(); err != nil || len(got) != 1 || got[0].Addr() != public {
				t.Errorf("%v, dialled %v", err, got)
			}
		})
	}
}

// 8.2: an answer without end that is not slow.
func TestAnswersWithoutEnd(t *testing.T) {
	for name, head := range map[string]string{
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "until it is closed": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
		"a chunk whose extension has no end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
	} {
		t.Run(name, func(t *testing.T) {
			in := netguardtest.New(t)
			part := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
			if strings.HasSuffix(head, ";") {
				part = strings.Repeat("x", 0x1000)
			}
			raw(in, func(c net.Conn) {
				if _, err := io.WriteString(c, head); err != nil {
					return
				}
				for {
					if _, err := io.WriteString(c, part); err != nil {
						return
					}
				}
			})
			resp, err := get(t, in, netguard.Limits{Body: 1 << 20, Total: time.Minute}, false)
			if err == nil || err.Reason != netguard.TooLarge && err.Reason != netguard.Broken {
				t.Errorf("%+v, %v", resp, err)
			}
		})
	}
}

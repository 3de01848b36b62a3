package netguard_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

// refused makes the request and fails unless it was refused for reason, with
// no connection attempted beyond the first few that the test expects.
func refused(t *testing.T, in *netguardtest.Internet, p netguard.Policy, url string, dials int, reasons ...netguard.Reason) {
	t.Helper()
	p.Net = in.Net()
	c, err := netguard.New(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), netguard.Request{URL: url})
	e := (*netguard.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("%s: error %v, want a *netguard.Error", url, err)
	}
	ok := false
	for _, r := range reasons {
		ok = ok || e.Reason == r
	}
	if !ok || !e.Refused() || e.Sent {
		t.Errorf("%s: reason %q (refused %v, sent %v), want %q: %v", url, e.Reason, e.Refused(), e.Sent, reasons, e)
	}
	if got := in.Dialled(); len(got) != dials {
		t.Errorf("%s: connections attempted to %v, want %d", url, got, dials)
	}
}

var everything = netguard.Policy{Allow: []string{"*"}}

// notPublic is part A of the list, with what belongs to the same kinds.
var notPublic = strings.Fields(`
	127.0.0.1 127.255.255.254 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 64:ff9b::7f00:1
	2002:7f00:1:: 2002:a00:1:: 2001:0:7f00:1:: 2001:0:53aa:64c:0:0:80ff:fffe fe80::1 fec0::1 100.64.0.1 100.127.255.255 100.100.100.200
	192.0.0.192 0.0.0.0 0.1.2.3 192.88.99.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:0:127.0.0.1 2001:db8::1 3fff::1 5f00::1
	203.0.113.5 198.51.100.7 192.0.2.1 198.18.0.1 fd00::1 fd00:ec2::254 fc00::1 ff02::1 ff0e::1 224.0.0.1 239.255.255.250
	10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 169.254.169.254 169.254.0.1
	::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0a00:0001 168.63.129.16 100::1 2001:2::1 2001:10::1 2001:20::1 64:ff9b:1:a9fe::1`)

func TestAddressesThatAreNotPublic(t *testing.T) {
	for _, s := range notPublic {
		a := netip.MustParseAddr(s)
		host := s
		if a.Is6() {
			host = "[" + s + "]"
		}
		t.Run("SG-73 literal "+s, func(t *testing.T) {
			refused(t, netguardtest.New(t), everything, "https://"+host+"/", 0, netguard.NotPublic)
			refused(t, netguardtest.New(t), netguard.Policy{Allow: []string{host}}, "https://"+host+"/", 0, netguard.NotPublic)
		})
		t.Run("SG-73 resolved "+s, func(t *testing.T) {
			in := netguardtest.New(t)
			in.Resolve("site.example.com", []netip.Addr{a})
			refused(t, in, everything, "https://site.example.com/", 0, netguard.NotPublic)
		})
		t.Run("SG-73 beside a public one "+s, func(t *testing.T) {
			in := netguardtest.New(t)
			public := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
			in.Resolve("site.example.com", []netip.Addr{public, a})
			refused(t, in, everything, "https://site.example.com/", 0, netguard.NotPublic)
		})
	}
	t.Run("SG-73 hidden behind many", func(t *testing.T) {
		in := netguardtest.New(t)
		var all []netip.Addr
		for i := range 20 {
			all = append(all, netip.AddrFrom4([4]byte{93, 184, 216, byte(i + 1)}))
		}
		in.Resolve("site.example.com", append(all, netip.MustParseAddr("10.0.0.1")))
		refused(t, in, everything, "https://site.example.com/", 0, netguard.NotPublic)
	})
	t.Run("SG-73 this machine, although public", func(t *testing.T) {
		in := netguardtest.New(t)
		own := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
		n := in.Net()
		n.Own = func() ([]netip.Addr, error) { return []netip.Addr{own}, nil }
		c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: n})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"})
		if e := (*netguard.Error)(nil); !errors.As(err, &e) || e.Reason != netguard.NotPublic || len(in.Dialled()) != 0 {
			t.Errorf("error %v, dialled %v", err, in.Dialled())
		}
	})
}

// Part B: spellings that some resolver takes for an address.
func TestHostSpellings(t *testing.T) {
	circled := "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460"
	spellings := append(strings.Fields(`
		127.1 2130706433 0x7f000001 0177.0.0.1 0x7f.1 0 01.02.03.04 127.0.0.1. localhost LOCALHOST localhost. foo.localhost
		ip6-localhost [::1] [::] [::ffff:127.0.0.1] [fe80::1%25lo] metadata.google.internal 127.0.0.1%00.example.com %31%32%37.0.0.1
		[::ffff:7f00:1] 127.0.0.1.. 0x7f.0x0.0x0.0x1 017700000001 1.2.3 example.0x7f [fe80::1%25eth0] -a.example.com a..example.com`),
		circled, "\u24dbocalhost", "127\u30020\u30020\u30021", "127\uff0e0\uff0e0\uff0e1", "examp\u2113e.com", "\uff45xample.com")
	for _, host := range spellings {
		t.Run("SG-73 "+strconv.QuoteToASCII(host), func(t *testing.T) {
			in := netguardtest.New(t)
			for _, name := range []string{host, strings.ToLower(host), strings.TrimSuffix(host, ".")} {
				in.Resolve(name, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
			}
			refused(t, in, everything, "https://"+host+"/", 0, netguard.BadURL, netguard.NotPublic)
		})
	}
}

// Part C: names that mean something inside a network only, even where they
// are listed and resolve to a public address.
func TestInternalNames(t *testing.T) {
	for _, host := range strings.Fields(`
		a.internal x.y.internal printer.local a.localhost nas.home.arpa box.lan db.default.svc.cluster.local api.ns.svc metadata
		router.home x.corp x.intranet x.private x.localdomain abc.onion A.INTERNAL a.internal.`) {
		t.Run("SG-73 "+host, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc(strings.ToLower(strings.TrimSuffix(host, ".")), func(http.ResponseWriter, *http.Request) {})
			refused(t, in, everything, "https://"+host+"/", 0, netguard.NotPublic)
			p := netguard.Policy{Allow: []string{strings.TrimSuffix(host, "."), ".internal", ".local", ".svc"}}
			refused(t, in, p, "https://"+host+"/", 0, netguard.NotPublic)
		})
	}
}

// Part D: URLs that two parsers read in two ways, and schemes.
func TestURLsThatCouldMeanTwoThings(t *testing.T) {
	for _, url := range []string{
		`https://127.1.1.1:80\@127.2.2.2/`, `https://1.1.1.1 &@2.2.2.2# @3.3.3.3/`, `https:127.0.0.1/`, `https:///127.0.0.1/`, `//127.0.0.1/`,
		`https://a@b@127.0.0.1/`, `https://user@site.example.com/`, `https://user:pw@site.example.com/`, `https://site.example.com#@127.0.0.1/x y`,
		`https://site.example.com?@127.0.0.1/` + "\n", `https://[::1`, `https://site.example.com:80:80/`, "https://site.example.com/\tx", "\thttps://site.example.com/",
		"https://site.example.com/\nx", "https://site.example.com/\r\nX-Evil: 1", `https://site.example.com\.evil/`, `https://site.example.com:/`,
		`https://site.example.com:99999/`, `https://site.example.com:-1/`, `https://`, ``, `site.example.com`, `https://site.example.com/` + strings.Repeat("a", 9<<10),
		"https://site.example.com/caf\u00e9", "https://\x00site.example.com/", `https://.site.example.com/`, `https://*/`, `https://[site.example.com]/`,
	} {
		t.Run("SG-73 "+strconv.QuoteToASCII(url[:min(len(url), 60)]), func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
			refused(t, in, everything, url, 0, netguard.BadURL, netguard.NotPublic, netguard.BadScheme, netguard.NotAllowed)
		})
	}
	for _, scheme := range strings.Fields("http file gopher ftp data jar ws wss ldap dict unix javascript") {
		t.Run("SG-73 scheme "+scheme, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
			refused(t, in, everything, scheme+"://site.example.com/", 0, netguard.BadScheme)
			refused(t, in, everything, scheme+":/etc/passwd", 0, netguard.BadURL)
		})
	}
	t.Run("a fragment stays at home", func(t *testing.T) {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
		c, err := netguard.New(netguard.Policy{Allow: []string{"site.example.com"}, Net: in.Net()})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/a?b=c#@127.0.0.1/"})
		if err != nil || string(resp.Body) != "/a?b=c" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func TestAllowList(t *testing.T) {
	hosts := strings.Fields("example.com api.example.com a.b.example.com notexample.com example.com.evil.org")
	for _, tt := range []struct{ allow, host, port, want string }{
		{"example.com", "example.com", "443", "ok"},
		{"EXAMPLE.com", "Example.COM", "443", "ok"},
		{"example.com", "example.com.", "443", "ok"},
		{"example.com", "api.example.com", "443", "no"},
		{".example.com", "api.example.com", "443", "ok"},
		{".example.com", "a.b.example.com", "443", "ok"},
		{".example.com", "example.com", "443", "no"}, // the apex is listed by itself
		{".example.com", "notexample.com", "443", "no"},
		{".example.com", "example.com.evil.org", "443", "no"},
		{"*", "a.b.example.com", "443", "ok"},
		{"*", "example.com", "8443", "no"},
		{"example.com", "example.com", "80", "no"},
		{"example.com:8443", "example.com", "8443", "ok"},
		{"example.com:8443", "example.com", "443", "no"},
		{".example.com:8443", "api.example.com", "8443", "ok"},
		{"93.184.216.1", "93.184.216.1", "443", "certificate"},
		{"*", "93.184.216.1", "443", "certificate"},
	} {
		t.Run(fmt.Sprintf("SG-72 %s for %s:%s", tt.allow, tt.host, tt.port), func(t *testing.T) {
			in := netguardtest.New(t)
			for _, h := range hosts {
				in.HandleFunc(h, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			}
			url := "https://" + tt.host + ":" + tt.port + "/"
			p := netguard.Policy{Allow: []string{tt.allow}, Net: in.Net()}
			if tt.want == "no" {
				refused(t, in, p, url, 0, netguard.NotAllowed)
				return
			}
			c, err := netguard.New(p)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(t.Context(), netguard.Request{URL: url})
			e := (*netguard.Error)(nil)
			if tt.want == "certificate" && (!errors.As(err, &e) || e.Reason != netguard.BadTLS || len(in.Dialled()) != 1) ||
				tt.want == "ok" && (err != nil || resp.Status != http.StatusNoContent) {
				t.Errorf("%+v, %v", resp, err)
			}
		})
	}
	t.Run("SG-72 is required, and read strictly", func(t *testing.T) {
		for _, allow := range [][]string{
			nil,
			{},
			{""},
			{"https://example.com"},
			{"example.com/path"},
			{"*.example.com"},
			{"."},
			{"..example.com"},
			{"exa mple.com"},
			{"example.com:"},
			{"example.com:0"},
			{"example.com:https"},
			{"example.com:070"},
			{"127.1"},
			{"caf\u00e9.com"},
			{"*:8443"},
			{".10.0.0.1"},
		} {
			if _, err := netguard.New(netguard.Policy{Allow: allow}); err == nil {
				t.Errorf("allow %q is accepted", allow)
			}
		}
	})
}

// The real dialler, with a real listener that nobody may reach.
func TestNothingReachesLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{}, 100)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			_ = conn.Close()
		}
	}()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	allow := []string{"127.0.0.1:" + port, "localhost:" + port, "site.example.com:" + port, "[::1]:" + port}
	in := netguardtest.New(t)
	in.Resolve("site.example.com", []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	c, err := netguard.New(netguard.Policy{Allow: allow, Net: netguard.Net{Lookup: in.Net().Lookup}})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range allow {
		if _, err := c.Do(t.Context(), netguard.Request{URL: "https://" + host + "/"}); err == nil {
			t.Errorf("%s was reached", host)
		}
	}
	_ = l.Close()
	<-over
	if len(reached) != 0 {
		t.Errorf("%d connections reached loopback", len(reached))
	}
}

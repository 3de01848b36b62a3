package netguard

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy is whom a [Client] may speak to, and how.
type Policy struct {
	// Allow lists the hosts; there is no default. "api.example.com" is that host,
	// ".example.com" every host below example.com but not example.com itself,
	// "*" every public host. An entry may end in a port, as in
	// "api.example.com:8443"; without one it means port 443.
	Allow []string
	// Headers are sent to the hosts they name, and to no others, also not when
	// one of these redirects.
	Headers []Header
	Limits  Limits
	// Net is the network below the guard. The zero value is the real one.
	Net Net
}

// Header is a header that the operator sends along, such as a credential.
type Header struct {
	// Host is in the form of an entry of [Policy.Allow], but not "*".
	Host        string
	Name, Value string
}

// Limits bound one request with all its redirects. A zero field means the
// default, a negative one is refused.
type Limits struct {
	Body      int64         // bytes of the answer, unpacked; 10 MB
	Packed    int64         // bytes of a packed answer on the wire; 2 MB
	Ratio     int64         // bytes unpacked for each byte packed; 100
	Total     time.Duration // from the first to the last byte; 30 s
	Idle      time.Duration // without a single byte; 5 s
	Redirects int           // 5
}

// Header limits of an answer.
const (
	maxHeaders    = 64 << 10
	maxHeaderLine = 8 << 10
)

var errTotal = errors.New("time for the request is up")

func (l Limits) withDefaults() (Limits, error) {
	if l.Body < 0 || l.Packed < 0 || l.Ratio < 0 || l.Total < 0 || l.Idle < 0 || l.Redirects < 0 {
		return l, errors.New("a limit is negative: leave it zero for the default")
	}
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.Body, 10<<20)
	def(&l.Packed, 2<<20)
	def(&l.Ratio, 100)
	def((*int64)(&l.Total), int64(30*time.Second))
	def((*int64)(&l.Idle), int64(5*time.Second))
	if l.Redirects == 0 {
		l.Redirects = 5
	}
	return l, nil
}

// Net is a network below the guard: what it is asked for was checked already.
// It changes where addresses lead to, never which are allowed.
type Net struct {
	// Lookup resolves a name. Nil means the resolver of Go itself; that of the C
	// library takes 0177.1 for an address.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect opens a connection to an address that may be dialled. Nil means TCP.
	Connect func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// RootCAs are trusted; nil means those of the system.
	RootCAs *x509.CertPool
	// Own lists the addresses of this machine, which are refused although they
	// may be public. Nil means those of its interfaces.
	Own func() ([]netip.Addr, error)
}

// rule is an entry of the allow list.
type rule struct {
	host string // lower case; "" is every host
	sub  bool   // hosts below host, not itself
	port string
}

func (r rule) matches(host, port string) bool {
	switch {
	case r.port != port:
		return false
	case r.host == "":
		return true
	case r.sub:
		return strings.HasSuffix(host, "."+r.host)
	}
	return host == r.host
}

func parseRule(s string) (rule, error) {
	r := rule{host: strings.ToLower(s), port: "443"}
	if s == "*" {
		return rule{port: "443"}, nil
	}
	if i := strings.LastIndexByte(r.host, ':'); i >= 0 && !isAddr(r.host) {
		r.host, r.port = r.host[:i], r.host[i+1:]
		if n, err := strconv.ParseUint(r.port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != r.port {
			return r, fmt.Errorf("entry %q: want a port from 1 to 65535 after the colon", s)
		}
	}
	if r.host, r.sub = strings.CutPrefix(r.host, "."); r.sub && isAddr(r.host) {
		return r, fmt.Errorf("entry %q: an address has no hosts below it", s)
	}
	r.host = strings.Trim(r.host, "[]")
	if !isAddr(r.host) && !isName(r.host) {
		return r, fmt.Errorf(`entry %q: want a host such as "api.example.com", ".example.com" for the hosts below it, or "*"`, s)
	}
	return r, nil
}

func isAddr(s string) bool {
	_, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil
}

// isName reports whether s is a name as DNS knows them, of ASCII, that no
// resolver takes for a number.
func isName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if len(l) == 0 || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		for _, c := range []byte(l) {
			if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9' // 127.1, 0x7f.1 and 2130706433 are addresses to some
}

// internalNames end the names of private networks.
var internalNames = []string{
	"internal", "local", "localhost", "localdomain", "home.arpa", "lan", "home", "corp", "intranet", "private", "svc", "onion",
}

// isInternal reports whether a name can only mean something inside a network.
func isInternal(host string) bool {
	if !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc(internalNames, func(s string) bool { return strings.HasSuffix(host, "."+s) })
}

// target is a URL that was judged.
type target struct {
	url        *url.URL
	host, port string
}

const maxURL = 8 << 10

// judge reads a URL strictly: what two readers could read in two ways is refused.
func (c *Client) judge(raw string) (target, *Error) {
	t := target{}
	if len(raw) > maxURL {
		return t, refuse(BadURL, "", fmt.Sprintf("the URL has %d bytes, at most %d are allowed", len(raw), maxURL))
	}
	for _, b := range []byte(raw) {
		if b <= ' ' || b >= 0x7f || b == '\\' {
			return t, refuse(BadURL, "", "the URL has characters that are not allowed there: encode them with %, a host in its xn-- form")
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return t, refuse(BadURL, "", "want a whole URL, such as https://api.example.com/path")
	}
	t.url, t.host, t.port = u, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	switch {
	case u.User != nil:
		return t, refuse(BadURL, t.host, "the URL has a user name in it")
	case !isAddr(t.host) && !isName(t.host):
		return t, refuse(BadURL, "", "the URL has no valid host name")
	case strings.HasSuffix(u.Host, ":"):
		return t, refuse(BadURL, t.host, "the URL has a colon without a port")
	}
	u.Host = t.host
	if strings.Contains(t.host, ":") {
		u.Host = "[" + t.host + "]"
	}
	switch {
	case t.port != "":
		u.Host += ":" + t.port
	case u.Scheme == "http":
		t.port = "80"
	default:
		t.port = "443"
	}
	u.Fragment, u.RawFragment = "", ""
	if c.origin != "" {
		if originOf(u.Scheme, t.host, t.port) != c.origin {
			return t, refuse(NotAllowed, t.host, "only "+c.origin+" is asked here")
		}
		return t, nil
	}
	return t, c.admit(t)
}

// admit applies the allow list and what holds even for hosts on it.
func (c *Client) admit(t target) *Error {
	if t.url.Scheme != "https" {
		return refuse(BadScheme, t.host, "only https is allowed")
	}
	if a, err := netip.ParseAddr(t.host); err == nil {
		if c.prohibited(a) != nil {
			return refuse(NotPublic, t.host, "that address is not public")
		}
	} else if isInternal(t.host) {
		return refuse(NotPublic, t.host, "the host "+t.host+" is internal")
	}
	if !slices.ContainsFunc(c.allow, func(r rule) bool { return r.matches(t.host, t.port) }) {
		what := "the host " + t.host
		if t.port != "443" {
			what += " with port " + t.port
		}
		return refuse(NotAllowed, t.host, what+" is not on the allow list")
	}
	return nil
}

// headersFor are the operator's headers for one host.
func (c *Client) headersFor(t target) http.Header {
	h := http.Header{}
	for _, x := range c.headers {
		if x.rule.matches(t.host, t.port) {
			h.Set(x.name, x.value)
		}
	}
	return h
}

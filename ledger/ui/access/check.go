package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// refusal is why a request goes no further: a word for the log, and what whoever
// asked is told, which is never more than they know.
type refusal struct {
	status int
	reason string // of a fixed set: a log counts by it
	text   string
}

// peer is the address at the other end of the connection.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

func (g *Guard) isProxy(a netip.Addr) bool {
	return slices.ContainsFunc(g.o.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client is who asks, as far as that can be believed: what a proxy was told by
// another is looked at from the end, and only as far as proxies are ours.
func (g *Guard) client(r *http.Request) netip.Addr {
	a := peer(r)
	if !g.isProxy(a) {
		return a
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, h := range slices.Backward(hops) {
		next, err := netip.ParseAddr(strings.TrimSpace(h))
		if err != nil {
			break
		}
		a = next.Unmap()
		if !g.isProxy(a) {
			break
		}
	}
	return a
}

// limitKey is what is counted as one caller: of IPv6 the network, since a caller
// has as many addresses in it as it likes.
func limitKey(a netip.Addr) string {
	if a.Is6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// reached refuses requests that came a way they should not have come.
func (g *Guard) reached(r *http.Request) *refusal {
	from := peer(r)
	if len(g.o.Proxies) > 0 && !g.o.TLS && !g.isProxy(from) && !from.IsLoopback() {
		return &refusal{http.StatusForbidden, "past_proxy", "This server is reached through its proxy."}
	}
	host, ok := hostName(r.Host)
	switch {
	case !ok:
		return &refusal{http.StatusBadRequest, "host", "The request names no host."}
	case g.loopback && isLoopbackHost(host), slices.Contains(g.hosts, host):
	case g.loopback || len(g.hosts) > 0:
		// A stranger's name that was pointed at this address after the browser had
		// trusted it (DNS rebinding).
		return &refusal{http.StatusMisdirectedRequest, "host", "This server does not answer to that name. If it should, start it with --host."}
	}
	if g.o.Tokens == "" {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local != nil && !isLoopbackHost(addrHost(local)) || !from.IsLoopback() || forwarded(r) {
			return &refusal{http.StatusForbidden, "not_local", "Without tokens only this machine is let in, and not through a proxy."}
		}
	}
	return nil
}

func addrHost(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	return host
}

func forwarded(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
		if r.Header.Get(h) != "" {
			return true
		}
	}
	return false
}

// wellFormed refuses requests that are not what they seem, or hold what they
// should not.
func wellFormed(r *http.Request) *refusal {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		return &refusal{http.StatusMethodNotAllowed, "method", "GET, HEAD and POST are all there is."}
	}
	for _, h := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if r.Header.Get(h) != "" {
			return &refusal{http.StatusBadRequest, "method_override", "A request is what its method says."}
		}
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &refusal{http.StatusBadRequest, "query", "The query cannot be read."}
	}
	if q.Has("_method") {
		return &refusal{http.StatusBadRequest, "method_override", "A request is what its method says."}
	}
	if q.Has("access_token") || tokenIn(r.URL) {
		return &refusal{http.StatusBadRequest, "token_in_url", "A token in an address ends up in histories and logs. Revoke it, make another, and send that in the Authorization header."}
	}
	return nil
}

func tokenIn(u *url.URL) bool {
	raw, err := url.QueryUnescape(u.RawQuery)
	if err != nil {
		raw = u.RawQuery
	}
	return like.MatchString(u.Path) || like.MatchString(raw)
}

// sameSite refuses what another site made the browser do. Whoever came by a link
// may look: that is a navigation, and it changes nothing.
func (g *Guard) sameSite(r *http.Request) *refusal {
	if err := g.cross.Check(r); err != nil {
		return &refusal{http.StatusForbidden, "cross_site", "The request came from another site."}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" {
		return nil
	}
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	if mode != "navigate" || dest != "document" && dest != "" {
		return &refusal{http.StatusForbidden, "cross_site", "The request came from another site."}
	}
	return nil
}

// bodied bounds what a request brings along and reads the form, which is all that
// a write may bring.
func (g *Guard) bodied(w http.ResponseWriter, r *http.Request) *refusal {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "body", "The request is too large."}
	if r.ContentLength > g.o.MaxBody {
		return tooLarge
	}
	r.Body = http.MaxBytesReader(w, r.Body, g.o.MaxBody)
	if r.Method != http.MethodPost {
		return nil
	}
	if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); r.ContentLength != 0 && !strings.EqualFold(strings.TrimSpace(t), "application/x-www-form-urlencoded") {
		return &refusal{http.StatusUnsupportedMediaType, "body", "A form is all that can be sent."}
	}
	if err := r.ParseForm(); err != nil {
		if asTooLarge(err) {
			return tooLarge
		}
		return &refusal{http.StatusBadRequest, "body", "The form cannot be read."}
	}
	if r.PostForm.Has("_method") {
		return &refusal{http.StatusBadRequest, "method_override", "A request is what its method says."}
	}
	return nil
}

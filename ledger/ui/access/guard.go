package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Local is how whoever sits at the machine is called who needs no token.
const Local = "local"

// Guard stands in front of every handler of the page. Made by [New]. Safe for
// concurrent use.
type Guard struct {
	o        Options
	loopback bool
	hosts    []string
	file     *File // nil: no tokens
	sessions *sessions
	failures *limiter // of signing in, by address
	lines    *limiter // of the log, by reason
	cross    *http.CrossOriginProtection
	ids      *events.IDs
	pages    pages
}

// New makes a guard. Errors: [ErrExposed], [ErrPlain], and what is wrong with the
// tokens file.
func New(o Options) (*Guard, error) {
	o = o.withDefaults()
	loopback, err := o.check()
	if err != nil {
		return nil, err
	}
	g := &Guard{
		o: o, loopback: loopback, sessions: newSessions(o),
		// Nobody guesses a token; these keep those who try from costing anything.
		failures: newLimiter(10, time.Minute, 4096),
		lines:    newLimiter(20, 3*time.Second, 256),
		cross:    http.NewCrossOriginProtection(), ids: events.NewIDs(o.Now, nil), pages: newPages(o.Base),
	}
	for _, h := range o.Hosts {
		name, _ := hostName(h)
		g.hosts = append(g.hosts, name)
	}
	if o.Tokens != "" {
		if g.file, err = OpenFile(o.Tokens); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Wrap puts the guard in front of a handler: it authenticates, refuses what came
// from another site, under another name or with too much, puts the [Principal]
// into the context, and serves /login and /logout. A request that could change
// something reaches the handler only from a principal that has more than read.
// What the handler answers is kept in no cache and shown in no frame; its
// Content-Security-Policy it may set itself.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, g.ids.Event()))
		headers(w.Header())
		for _, check := range []func() *refusal{
			func() *refusal { return g.reached(r) },
			func() *refusal { return wellFormed(r) },
			func() *refusal { return g.sameSite(r) },
			func() *refusal { return g.bodied(w, r) },
		} {
			if no := check(); no != nil {
				g.refuse(w, r, no)
				return
			}
		}
		switch r.URL.Path {
		case "/login":
			g.login(w, r)
		case "/logout":
			g.logout(w, r)
		default:
			g.pass(w, r, next)
		}
	})
}

// headers of every answer.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would take the Origin from our own forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
	h.Set("Cache-Control", "no-store")
}

// pass lets a request through whose principal is known and may make it.
func (g *Guard) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p, by, err := g.who(r)
	switch {
	case err != nil:
		g.broken(w, r, err)
		return
	case by == byNobody:
		g.unknown(w, r)
		return
	case by == byWrongBearer:
		g.wrongBearer(w, r)
		return
	}
	ctx := With(r.Context(), p)
	r = r.WithContext(ctx)
	if !safe(r) {
		switch {
		case !p.Can(Resolve) && !p.Can(Approve):
			g.refuse(w, r, &refusal{http.StatusForbidden, "read_only", "This token can only read. What changes something needs one that can resolve or approve."})
			return
		case by == byCookie && !fromBrowser(r):
			g.refuse(w, r, &refusal{http.StatusForbidden, "cross_site", "The request does not say which site it came from."})
			return
		}
	}
	next.ServeHTTP(w, r)
}

func safe(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// fromBrowser reports whether a request says where it came from, as each browser
// does that sends a form; sameSite has looked at what it says.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// proof is by what a request showed who asks.
type proof int

const (
	byNobody proof = iota
	byWrongBearer
	byBearer
	byCookie
	byPlace
)

// who finds out who asks.
func (g *Guard) who(r *http.Request) (Principal, proof, error) {
	now := g.o.Now()
	if auth := r.Header.Values("Authorization"); len(auth) > 0 {
		scheme, text, _ := strings.Cut(auth[0], " ")
		if len(auth) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return Principal{}, byWrongBearer, nil
		}
		t, ok, err := g.token(secret(strings.TrimSpace(text)), now)
		if err != nil || !ok {
			return Principal{}, byWrongBearer, err
		}
		return t.principal(), byBearer, nil
	}
	if id, ok := g.cookie(r); ok && g.file != nil {
		if h, ok := g.sessions.use(id, now); ok {
			t, there, err := g.file.find(h)
			if err != nil {
				return Principal{}, byNobody, err
			}
			if there && t.Live(now) {
				return t.principal(), byCookie, nil
			}
			g.sessions.dropToken(h)
		}
	}
	if g.loopback && (g.file == nil || g.o.LocalRead) && peer(r).IsLoopback() && !forwarded(r) {
		return Principal{Name: Local, Scopes: []Scope{Read}}, byPlace, nil
	}
	return Principal{}, byNobody, nil
}

// token looks a token up; what is wrong with one that is no good is nobody's business.
func (g *Guard) token(s secret, now time.Time) (Token, bool, error) {
	if g.file == nil {
		return Token{}, false, nil
	}
	h, ok := s.hash()
	t, there, err := g.file.find(h)
	return t, ok && there && t.Live(now), err
}

// unknown answers who has not signed in.
func (g *Guard) unknown(w http.ResponseWriter, r *http.Request) {
	if g.file == nil || !wantsPage(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="daybook"`)
		if r.Header.Get("Hx-Request") != "" {
			w.Header().Set("Hx-Redirect", g.o.Base+"/login")
		}
		g.refuse(w, r, &refusal{http.StatusUnauthorized, "unauthenticated", "Sign in, or send a token in the Authorization header."})
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// A link on another site: the browser keeps a strict cookie back, once.
		g.pages.show(w, http.StatusOK, view{Title: "Daybook", Again: true})
		return
	}
	to := g.o.Base + "/login"
	if next := r.URL.RequestURI(); next != "/" && SafeNext(next) {
		to += "?next=" + url.QueryEscape(next)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func wantsPage(r *http.Request) bool {
	return safe(r) && r.Header.Get("Hx-Request") == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (g *Guard) wrongBearer(w http.ResponseWriter, r *http.Request) {
	key, now := limitKey(g.client(r)), g.o.Now()
	if wait := g.failures.wait(key, now); wait > 0 {
		g.tooMany(w, r, wait)
		return
	}
	g.failures.take(key, now)
	w.Header().Set("WWW-Authenticate", `Bearer realm="daybook", error="invalid_token"`)
	g.refuse(w, r, &refusal{http.StatusUnauthorized, "token", wrongToken})
}

func (g *Guard) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	g.refuse(w, r, &refusal{http.StatusTooManyRequests, "attempts", "Too many attempts. Wait a little and try again."})
}

// broken answers when nobody can be told apart because the tokens cannot be read.
func (g *Guard) broken(w http.ResponseWriter, r *http.Request, err error) {
	if g.lines.take("tokens_file", g.o.Now()) {
		g.o.Logger.ErrorContext(r.Context(), "the tokens file cannot be read: nobody is let in until it can", "err", err)
	}
	g.refuse(w, r, &refusal{http.StatusServiceUnavailable, "tokens_file", "Nobody can sign in at the moment. Whoever runs this server finds the reason in its log."})
}

// refuse answers with a refusal and says it in the log, but for one who has just
// not signed in yet. Of each reason there are only so many lines.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	if no.reason != "unauthenticated" {
		g.log(r, slog.LevelWarn, "request refused", no.reason)
	}
	if no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD, POST")
	}
	id := RequestID(r.Context()).String()
	w.Header().Set("X-Request-Id", id)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		g.pages.show(w, no.status, view{Title: http.StatusText(no.status), Text: no.text, Request: id})
		return
	}
	http.Error(w, no.text+" (request "+id+")", no.status)
}

// log writes a line about a request, never its query, form or credentials.
func (g *Guard) log(r *http.Request, level slog.Level, msg, reason string, more ...any) {
	if !g.lines.take(reason, g.o.Now()) {
		return
	}
	args := []any{"reason", reason, "request", RequestID(r.Context()).String(), "method", cut(r.Method, 16), "path", cut(like.ReplaceAllString(r.URL.Path, Prefix+"…"), 200), "from", g.client(r).String()}
	if p, ok := From(r.Context()); ok {
		args = append(args, "actor", p.Actor())
	}
	g.o.Logger.Log(r.Context(), level, msg, append(args, more...)...)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

func asTooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}

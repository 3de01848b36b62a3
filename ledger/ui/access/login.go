package access

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// wrongToken is said of each token that is no good, whatever is wrong with it.
const wrongToken = "That token is not good here. Ask whoever gave it to you for another."

// cookieName is the cookie's. Its prefix makes the browser see to it that no
// other host, path or plain connection has set it.
func (g *Guard) cookieName() string {
	if g.secure() {
		return "__Host-daybook"
	}
	return "daybook"
}

// secure is false only for what never leaves this machine.
func (g *Guard) secure() bool { return !g.loopback || g.o.TLS || len(g.o.Proxies) > 0 }

// cookie returns the session id of a request that has exactly one.
func (g *Guard) cookie(r *http.Request) (string, bool) {
	cs := r.CookiesNamed(g.cookieName())
	if len(cs) != 1 || len(cs[0].Value) > 100 {
		return "", false
	}
	return cs[0].Value, true
}

func (g *Guard) setCookie(w http.ResponseWriter, id string, until time.Time) {
	c := &http.Cookie{
		Name: g.cookieName(), Value: id, Path: "/",
		HttpOnly: true, Secure: g.secure(), SameSite: http.SameSiteStrictMode,
	}
	if id == "" {
		c.MaxAge = -1
	} else {
		c.MaxAge = max(1, int(until.Sub(g.o.Now())/time.Second))
	}
	http.SetCookie(w, c)
}

// login shows the form, and signs in who sends it with a token that is good.
func (g *Guard) login(w http.ResponseWriter, r *http.Request) {
	next := r.URL.Query().Get("next")
	if !safe(r) {
		next = r.PostForm.Get("next")
	}
	if !SafeNext(next) {
		next = "/"
	}
	form := view{Title: "Sign in", Form: true, Next: next}
	switch {
	case g.file == nil:
		g.pages.show(w, http.StatusOK, view{Title: "Read only", Text: "This server has no tokens: who sits at this machine may read. To act, start it with --tokens."})
		return
	case safe(r):
		g.pages.show(w, http.StatusOK, form)
		return
	case !fromBrowser(r):
		g.refuse(w, r, &refusal{http.StatusForbidden, "cross_site", "The request does not say which site it came from."})
		return
	}
	key, now := limitKey(g.client(r)), g.o.Now()
	if wait := g.failures.wait(key, now); wait > 0 {
		g.tooMany(w, r, wait)
		return
	}
	t, ok, err := g.token(secret(strings.TrimSpace(r.PostForm.Get("token"))), now)
	if err != nil {
		g.broken(w, r, err)
		return
	}
	if !ok {
		g.failures.take(key, now)
		g.log(r, slog.LevelWarn, "sign-in refused", "token")
		form.Text = wrongToken
		g.pages.show(w, http.StatusUnauthorized, form)
		return
	}
	if old, ok := g.cookie(r); ok {
		g.sessions.drop(old)
	}
	id, until, err := g.sessions.begin(t, now)
	if err != nil {
		g.broken(w, r, err)
		return
	}
	g.setCookie(w, id, until)
	g.log(r.WithContext(With(r.Context(), t.principal())), slog.LevelInfo, "signed in", "signed_in")
	http.Redirect(w, r, g.o.Base+next, http.StatusSeeOther)
}

// logout ends the session, and asks first who only followed a link.
func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	if safe(r) {
		g.pages.show(w, http.StatusOK, view{Title: "Sign out", Out: true})
		return
	}
	if id, ok := g.cookie(r); ok {
		g.sessions.drop(id)
	}
	g.setCookie(w, "", time.Time{})
	w.Header().Set("Clear-Site-Data", `"cache"`)
	http.Redirect(w, r, g.o.Base+"/login", http.StatusSeeOther)
}

// SafeNext reports whether somebody may be sent on to next, which came with a
// request: a path here, and nothing that a browser might take for another site, also
// once it is decoded.
func SafeNext(next string) bool {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsRune(next, '\\') || len(next) > 2000 {
		return false
	}
	if strings.ContainsFunc(next, func(r rune) bool { return unicode.IsControl(r) || r == ' ' || r == unicode.ReplacementChar }) {
		return false
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Path == "/login" || u.Path == "/logout" {
		return false
	}
	// What it says once it is decoded is read by nobody but us; still no second
	// slash that something in between might make the first.
	return !strings.HasPrefix(u.Path, "//") && !strings.ContainsRune(u.Path, '\\')
}

// view is what one of the guard's own pages says.
type view struct {
	Title, Text, Request, Next, Base string
	Form, Out, Again                 bool
}

// pages are the guard's own: they need nothing from anywhere.
type pages struct {
	t         *template.Template
	csp, base string
}

const style = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:26rem;margin:15vh auto;padding:0 1rem}` +
	`label,input,button{display:block;font:inherit;width:100%;box-sizing:border-box}[hidden]{display:none}input,button{padding:.6rem;margin:.3rem 0 1rem}` +
	`[role=alert]{border-left:.3rem solid;padding-left:.7rem}small{opacity:.8}`

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} · Daybook</title>{{if .Again}}<meta http-equiv="refresh" content="0">{{end}}<style>` + style + `</style></head>
<body><main><h1>{{.Title}}</h1>
{{with .Text}}<p role="alert">{{.}}</p>
{{end}}{{if .Form}}<form method="post" action="{{.Base}}/login"><input type="hidden" name="next" value="{{.Next}}">
<input name="username" value="daybook" autocomplete="username" readonly hidden>
<label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" autocapitalize="none" spellcheck="false" required autofocus>
<button>Sign in</button></form>
<p><small>Tokens are made with <code>ledgerctl tokens new</code>.</small></p>
{{end}}{{if .Out}}<form method="post" action="{{.Base}}/logout"><button>Sign out</button></form>
{{end}}{{if .Again}}<p><a href="">Go on</a></p>
{{end}}{{with .Request}}<p><small>Request {{.}}</small></p>
{{end}}</main></body></html>
`

func newPages(base string) pages {
	sum := sha256.Sum256([]byte(style))
	return pages{
		base: base, t: template.Must(template.New("page").Parse(page)),
		csp: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	}
}

func (p pages) show(w http.ResponseWriter, status int, v view) {
	v.Base = p.base
	h := w.Header()
	h.Set("Content-Security-Policy", p.csp)
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = p.t.Execute(w, v) // to a client that has gone
}

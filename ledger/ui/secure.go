package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/a-h/templ"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// policy lets a page load our own files and nothing else, and run no script that
// stands in it: what a run says could not act even if it became markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured adds what every answer says to browsers, and bounds its time.
func (p *page) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		ctx, cancel := context.WithTimeout(r.Context(), p.Timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// shown is what a page has to show, and under which title.
type shown struct {
	title string
	body  templ.Component
}

// problem is why a page cannot be shown, in words for a person, and what to do.
type problem struct {
	status     int
	title, say string
}

func (e *problem) Error() string { return e.title + ": " + e.say }

var errNoPage = &problem{http.StatusNotFound, "There is no such page", "The address may be mistyped. The list of runs is a good place to begin."}

// gather reads what a page shows, for the principal of its chrome.
type gather func(context.Context, *http.Request, *chrome) (shown, error)

// shows makes a route of what gathers a page. Nobody sees anything without a name.
func (p *page) shows(gather gather) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known := access.From(r.Context())
		c := p.chrome(r, who)
		if !known || !who.Can(access.Read) {
			p.fails(w, r, c, &problem{http.StatusUnauthorized, "Nobody has said who you are", "Whoever embeds this page names its guard, or puts the principal into the context."})
			return
		}
		c.inbox = c.waiting(r.Context())
		s, err := gather(r.Context(), r, c)
		if err != nil {
			p.fails(w, r, c, err)
			return
		}
		p.writes(w, r, http.StatusOK, c, s)
	})
}

func (p *page) writes(w http.ResponseWriter, r *http.Request, status int, c *chrome, s shown) {
	c.title = s.title
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Cookie, HX-Request")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if err := layout(*c, s.body).Render(r.Context(), w); err != nil {
		p.Logger.WarnContext(r.Context(), "page not written to its end", "path", r.URL.Path, "error", err)
	}
}

// fails shows why there is no page. What the database says stays in the log: it
// may name hosts and roles.
func (p *page) fails(w http.ResponseWriter, r *http.Request, c *chrome, err error) {
	var why *problem
	var other *redirect
	switch {
	case errors.As(err, &other):
		other.send(w, r)
		return
	case errors.As(err, &why):
	case errors.Is(err, ledger.ErrNotFound):
		why = &problem{http.StatusNotFound, "Nothing has this name", "It is not in this ledger, or not yours to see. The list of runs shows what is."}
	case errors.Is(err, access.ErrForbidden):
		why = &problem{http.StatusForbidden, "You may not do that", "Reading is allowed; this needs a token that can resolve, or approve."}
	case errors.Is(err, access.ErrReason):
		why = &problem{http.StatusBadRequest, "Say why", "The record keeps it, and a model may read it: 1 to 2,000 bytes of plain text. Go back, and nothing is lost."}
	case errors.Is(err, ledger.ErrDecided):
		why = &problem{http.StatusConflict, "It is decided already", "Somebody was faster. The run shows who, and what they said."}
	case errors.Is(err, ledger.ErrOtherCall):
		why = &problem{http.StatusConflict, "It is for another call", "What you answered is not what the request is for: nothing was decided. Look again at the inbox."}
	case errors.Is(err, ledger.ErrExpired):
		why = &problem{http.StatusConflict, "Its time is over", "The request expired before it was answered: the call was refused, and the model told so."}
	case errors.Is(err, ledger.ErrEnded):
		why = &problem{http.StatusConflict, "The run has ended", "There is nothing to do about it any more."}
	case errors.Is(err, ledger.ErrNotQuiescent):
		why = &problem{http.StatusConflict, "An attempt may still be acting", "Before its time is over only \"it took effect\" can be said, or anything with the box for it ticked: the record says so then."}
	case errors.Is(err, ledger.ErrNotInDoubt):
		why = &problem{http.StatusConflict, "It is settled already", "Late evidence came, or somebody was faster. The call shows which."}
	case errors.Is(err, ledger.ErrAttemptedSince):
		why = &problem{http.StatusConflict, "Another attempt has been made since", "What you said is of an attempt that is no longer the latest, or of a run that no longer has it: nothing was settled. Look again at the inbox."}
	case errors.Is(err, context.DeadlineExceeded):
		why = &problem{http.StatusServiceUnavailable, "That took too long", "The ledger did not answer in time. Narrow the filter, or try again in a moment."}
	case errors.Is(err, ledger.ErrSchema):
		why = &problem{http.StatusServiceUnavailable, "The ledger has another version", "Run ledgerctl migrate with this version, or serve the page with the version that migrated it."}
	case errors.Is(err, ledger.ErrUnavailable):
		why = &problem{http.StatusServiceUnavailable, "The ledger cannot be reached", "Its database is away. Nothing is lost: this page shows it again as soon as it is back."}
	default:
		why = &problem{http.StatusInternalServerError, "This could not be shown", "The log of the process that serves this page says why."}
	}
	if why.status >= http.StatusInternalServerError {
		p.Logger.ErrorContext(r.Context(), "page", "path", r.URL.Path, "error", err)
	}
	p.writes(w, r, why.status, c, shown{why.title, sorry(*c, why)})
}

// theme keeps how a person wants the page to look, and goes back to where they were.
func (p *page) theme(w http.ResponseWriter, r *http.Request) {
	c := &http.Cookie{Name: themeCookie, Path: p.Base + "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: 365 * 24 * 3600}
	switch t := r.PathValue("theme"); t {
	case "dark", "light":
		c.Value = t
	default:
		c.MaxAge = -1 // as the system has it
	}
	http.SetCookie(w, c) //nolint:gosec // no secret; over loopback there is no TLS
	http.Redirect(w, r, p.local(r.URL.Query().Get("back")), http.StatusSeeOther)
}

const themeCookie = "daybook_theme"

// local is where to go on this page: never to another host, whatever was sent.
func (p *page) local(s string) string {
	u, err := url.Parse(s)
	if err != nil || !access.SafeNext(s) || !strings.HasPrefix(u.Path, p.Base+"/") {
		return p.Base + "/runs"
	}
	to := u.EscapedPath() // what is decoded is not what was looked at
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

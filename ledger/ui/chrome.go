package ui

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// chrome is what stands around every page.
type chrome struct {
	base, path, title string
	theme             string // dark, light or empty: as the system has it
	now               time.Time
	files             files
	who               access.Principal
	read              access.Reader // of what who may see
	acts              bool          // anything can be done at all
	inbox             int64         // what waits for a person; negative = not known
}

func (p *page) chrome(r *http.Request, who access.Principal) *chrome {
	c := &chrome{base: p.Base, path: p.Base + r.URL.RequestURI(), now: p.Now(), files: p.files, inbox: -1, who: who, read: access.Scoped(p.Store, who), acts: p.acts != nil}
	if k, err := r.Cookie(themeCookie); err == nil && (k.Value == "dark" || k.Value == "light") {
		c.theme = k.Value
	}
	return c
}

// waiting counts what waits for a person; negative if it is not known, as for those
// who do not see everything.
func (c *chrome) waiting(ctx context.Context) int64 {
	if !c.who.All() {
		return -1
	}
	v, err := c.read.Vitals(ctx)
	if err != nil {
		return -1 // the page itself says that the ledger is away
	}
	return v.InDoubt.Count + v.Approvals.Count
}

// may reports whether what needs a scope is offered.
func (c chrome) may(s access.Scope) bool { return c.acts && c.who.Can(s) }

// to is an address on this page; words are escaped as parts of a path.
func (c chrome) to(words ...string) string {
	s := c.base
	for _, w := range words {
		s += "/" + url.PathEscape(w)
	}
	return s
}

// with is to with a query: pairs of names and values; empty values are left out.
func (c chrome) with(to string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return to
	}
	return to + "?" + q.Encode()
}

// at reports whether the page belongs to a part of the page's menu.
func (c chrome) at(part string) bool {
	u, err := url.Parse(c.path)
	if err != nil {
		return false
	}
	path := u.Path
	if len(path) < len(c.base) {
		return false
	}
	path = path[len(c.base):]
	return path == "/"+part || len(path) > len(part)+1 && path[:len(part)+2] == "/"+part+"/"
}

func (c chrome) themeLink(theme string) string {
	return c.with(c.to("theme", theme), "back", c.path)
}

// every is how often htmx asks again, in its own words.
func every(d time.Duration) string { return "every " + strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

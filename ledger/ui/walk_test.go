package ui

import (
	"context"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// writes counts the transactions that could change something.
type writes struct {
	sqlstore.DB
	n atomic.Int64
}

func (w *writes) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	w.n.Add(1)
	return w.DB.Write(ctx, f)
}

// links are where a page leads without a form being sent.
var links = regexp.MustCompile(`(?:href|src|hx-get)="([^"]+)"`)

// walk gets every page that can be reached from a list of addresses, and what each
// is answered with. Of addresses that differ in what a filter says alone it takes
// five: all of them together are without end.
func walk(t *testing.T, get func(path string) (int, string), from ...string) map[string]string {
	t.Helper()
	pages, alike := map[string]string{}, map[string]int{}
	for next := from; len(next) > 0; {
		path := next[0]
		next = next[1:]
		if _, seen := pages[path]; seen {
			continue
		}
		if len(pages) > 3000 {
			t.Fatal("the walk has no end")
		}
		code, text := get(path)
		if code >= http.StatusInternalServerError {
			t.Errorf("GET %s: %d\n%s", path, code, text)
		}
		pages[path] = text
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			to, err := url.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Errorf("%s links to %q", path, m[1])
				continue
			}
			here, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			to = here.ResolveReference(to)
			if to.Host != "" || to.Scheme != "" {
				t.Errorf("%s links to another site: %q", path, m[1])
				continue
			}
			to.Fragment = ""
			if _, seen := pages[to.String()]; seen {
				continue
			}
			kind := to.Path + "?" + strings.Join(slices.Sorted(maps.Keys(to.Query())), "&")
			if alike[kind]++; alike[kind] <= 5 {
				next = append(next, to.String())
			}
		}
	}
	return pages
}

// visitedAll fails for a route of the page that no address in pages is of.
func visitedAll(t *testing.T, pages map[string]string) {
	t.Helper()
	source, err := os.ReadFile("ui.go")
	if err != nil {
		t.Fatal(err)
	}
	_, routes, ok := strings.Cut(string(source), "func (p *page) routes()")
	if !ok {
		t.Fatal("ui.go has no routes")
	}
	n := 0
	for _, m := range regexp.MustCompile(`"(?:GET )?(/[a-z][^" ]*)"`).FindAllStringSubmatch(routes, -1) {
		n++
		shape := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(m[1]), "[^/?]+") + `(\?|$)`)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(pages)), shape.MatchString) {
			t.Errorf("the walk has not been at %s", m[1])
		}
	}
	if n < 10 {
		t.Errorf("found %d routes", n)
	}
}

// TestGetChangesNothing goes everywhere a link leads, as who may do everything:
// no transaction is begun that could write.
func TestGetChangesNothing(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		ledgertest.Tell(t, h)
		ledgertest.FillSample(t, h.Store, "acme", "ann")
		db := &writes{DB: h.DB}
		h.Store = sqlstore.New(db, sqlstore.Config{Redactor: redact.New(redact.Config{})})
		s, tokens := guarded(t, h, access.Grant{Name: "ann", Scopes: access.Scopes()})
		pages := walk(t, func(path string) (int, string) { return s.see(tokens[0], path) }, "/runs", "/inbox", "/costs", "/queues", "/record")
		visitedAll(t, pages)
		if n := db.n.Load(); n != 0 {
			t.Errorf("%d transactions that could write, over %d pages", n, len(pages))
		}
		// The counter counts.
		if r := s.post(tokens[0], "/runs/"+ledgertest.FillSample(t, h.Store, "acme", "ann").Run.ID.String()+"/cancel", "reason", "n"); r.StatusCode != http.StatusSeeOther || db.n.Load() == 0 {
			t.Errorf("cancel: %d, %d writes", r.StatusCode, db.n.Load())
		}
	})
}

// TestNoPageShowsAnothers goes everywhere that who sees everything gets to, as who
// sees one owner: nothing of others is on any page, nor told apart from nothing.
func TestNoPageShowsAnothers(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		mine := ledgertest.FillSample(t, h.Store, "acme", "ann")
		var canaries []string
		for _, o := range [][2]string{{"acme", "owner-bob"}, {"tenant-other", "ann"}} {
			s := ledgertest.FillSample(t, h.Store, o[0], o[1])
			canaries = append(canaries, s.Run.ID.String(), s.Child.ID.String(), s.Effect.String(), s.Approval.String(), s.Blob.String(), "owner-bob", "tenant-other", s.Run.Queue)
		}
		s, tokens := guarded(t, h, access.Grant{Name: "all", Scopes: access.Scopes()}, access.Grant{Name: "ann", Scopes: access.Scopes(), Tenant: "acme", Owner: "ann"})
		starts := []string{"/runs", "/inbox", "/costs", "/queues", "/record"}
		everything := walk(t, func(path string) (int, string) { return s.see(tokens[0], path) }, starts...)
		own := walk(t, func(path string) (int, string) { return s.see(tokens[1], path) }, starts...)
		if !strings.Contains(own["/runs"], mine.Run.ID.String()) {
			t.Error("she does not see her own run")
		}
		hidden := func(path, text string) {
			t.Helper()
			for _, c := range canaries {
				// What is in the address was hers to say.
				if strings.Contains(text, c) && !strings.Contains(path, c) {
					t.Errorf("%s shows %q", path, c)
				}
			}
		}
		for path, text := range own {
			hidden(path, text)
		}
		shown := 0
		for path, text := range everything {
			for _, c := range canaries {
				if strings.Contains(text, c) {
					shown++
				}
			}
			code, text := s.see(tokens[1], path)
			hidden(path, text)
			u, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(canaries, func(c string) bool { return strings.Contains(u.Path, c) }) && code != http.StatusNotFound {
				t.Errorf("%s: %d, want 404", path, code)
			}
		}
		if shown < len(canaries) {
			t.Errorf("who sees everything was shown %d of what was looked for", shown)
		}
	})
}

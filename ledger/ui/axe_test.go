package ui

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/browser"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// served is a page with tokens at an address, and the token of who may do everything.
func served(t *testing.T, h ledgertest.Harness) (url, token string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	text, tok, err := access.Grant{Name: "ann", Scopes: access.Scopes()}.New(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.Add(path, tok); err != nil {
		t.Fatal(err)
	}
	guard, err := access.New(access.Options{Listen: "127.0.0.1:0", Tokens: path})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, h, func(o *Options) { o.Guard = guard })
	srv := httptest.NewServer(s.h)
	t.Cleanup(srv.Close)
	return srv.URL, text
}

// signIn signs a tab in, as a person does.
func signIn(p *browser.Page, url, token string) {
	p.Go(url + "/login")
	p.Type("input[name=token]", token)
	p.Press("button", "Sign in")
}

// TestAxe has axe-core judge every kind of page, full and empty, light and dark, on a
// telephone and on a desk: it has no objection, and the page is no wider than either.
func TestAxe(t *testing.T) {
	chromium, judge := browser.Open(t), browser.Axe(t)
	full, bare := openSQLite(t), openSQLite(t)
	story := ledgertest.Tell(t, full)
	url, token := served(t, full)
	empty, emptyToken := served(t, bare)

	type kind struct{ name, url, token string }
	pages := []kind{
		{"login", url + "/login", ""},
		{"logout", url + "/logout", token},
		{"no such page", url + "/nothing", token},
		{"no such run", url + "/runs/01KZZZZZZZZZZZZZZZZZZZZZZZ", token},
	}
	paths := []string{"/runs", "/runs?state=failed", "/inbox", "/inbox?done=approve", "/costs?by=tool", "/queues", "/record", "/record?check=newest"}
	for _, tab := range runTabs {
		paths = append(paths, strings.TrimSuffix("/runs/"+story.Done.String()+"/"+tab.path, "/waterfall"))
	}
	hostile, doubt := "/runs/"+story.Hostile.String(), "/runs/"+story.Doubt.String()
	paths = append(
		paths, doubt, doubt+"/calls/t1.c0", "/runs/"+story.Asks.String()+"/calls/t1.c0", "/runs/"+story.Parent.String()+"/tree", "/runs/"+story.Queued.String(), "/runs/"+story.Queued.String()+"/transcript",
		hostile, hostile+"/transcript", hostile+"/artifacts", hostile+"/calls/t1.c0", hostile+"/events/5",
	)
	for _, path := range paths {
		pages = append(pages, kind{path, url + path, token})
	}
	for _, path := range []string{"/runs", "/runs?state=failed", "/inbox", "/costs", "/queues", "/record"} {
		pages = append(pages, kind{"empty " + path, empty + path, emptyToken})
	}
	tabs := map[string]*browser.Page{"": chromium.Page()}
	for token, url := range map[string]string{token: url, emptyToken: empty} {
		tabs[token] = chromium.Page()
		signIn(tabs[token], url, token)
	}
	for _, k := range pages {
		p := tabs[k.token]
		p.Go(k.url)
		for _, l := range []browser.Look{{Width: 320}, {Width: 320, Dark: true}, {Width: 1280, Dark: true}, {Width: 1280}} {
			p.Look(l)
			name := fmt.Sprintf("%s, %d px, dark %v", k.name, l.Width, l.Dark)
			p.Picture(strings.NewReplacer("/", "_", " ", "_", "?", "_").Replace(name))
			for _, v := range judge.Judges(p) {
				t.Errorf("%s: %s", name, v)
			}
			if got, err := strconv.Atoi(string(p.Do(`() => document.documentElement.scrollWidth`))); err != nil || got > l.Width {
				t.Errorf("%s: it is %d px wide, %v", name, got, err)
			}
		}
	}
	// The judge can object.
	p := tabs[""]
	p.Go(url + "/login")
	p.Do(`() => { document.body.append(document.createElement("img")); }`)
	if !slices.ContainsFunc(judge.Judges(p), func(v browser.Violation) bool { return v.ID == "image-alt" }) {
		t.Error("a picture without words is no fault")
	}
}

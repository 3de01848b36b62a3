// Package browser opens pages in a headless Chromium, for tests: what a person
// would see, press and be told, and what the browser itself had to say about it.
package browser

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/launcher"
	"github.com/go-rod/rod/lib/proto"

	"github.com/daybookhq/daybook/internal/testenv"
)

// patience is how long anything may take that a page has to do. The machine may be
// busy with other tests; nothing waits that long that works.
const patience = 2 * time.Minute

// Browser is a Chromium of a test's own. It ends with the test.
type Browser struct {
	t   testing.TB
	rod *rod.Browser
}

// Open starts a Chromium. Without one the test fails wherever one can be installed
// as .ci/run does (root, apt-get), on CI, and with DAYBOOK_TEST_BROWSER set; elsewhere
// it is skipped, and the summary of make test names it.
func Open(t testing.TB) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		const how = "no chromium here; apt-get install chromium"
		_, apt := exec.LookPath("apt-get")
		if os.Getenv("DAYBOOK_TEST_BROWSER") != "" || os.Getenv("CI") != "" || apt == nil && os.Getuid() == 0 {
			t.Fatal(how)
		}
		t.Skip("NOT RUN: " + how)
	}
	// Not the test's own directory: a browser that ends still writes into its profile.
	dir, err := os.MkdirTemp("", "daybook-browser-")
	if err != nil {
		t.Fatal(err)
	}
	l := launcher.New().Bin(path).Leakless(false).NoSandbox(os.Getuid() == 0).UserDataDir(dir).
		Set("disable-dev-shm-usage").Set("disable-gpu").Set("lang", "en")
	url, err := l.Launch()
	if err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		l.Kill()
		l.Cleanup()
	})
	b := rod.New().ControlURL(url)
	if err := b.Connect(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &Browser{t, b}
}

// Page is a tab, with cookies of its own. Its methods end the test if the browser does
// not do as it is told within two minutes.
type Page struct {
	*rod.Page
	t testing.TB

	mu  sync.Mutex
	log []string
}

// Page opens an empty tab, and listens to what the browser says about it.
func (b *Browser) Page() *Page {
	b.t.Helper()
	alone, err := b.rod.Incognito()
	if err != nil {
		b.t.Fatal(err)
	}
	tab, err := alone.Page(proto.TargetCreateTarget{})
	if err != nil {
		b.t.Fatal(err)
	}
	p := &Page{Page: tab, t: b.t}
	ctx, cancel := context.WithCancel(context.Background())
	listen := tab.Context(ctx).EachEvent(
		func(e *proto.RuntimeConsoleAPICalled) {
			var said []string
			for _, a := range e.Args {
				said = append(said, a.Value.String()+a.Description)
			}
			p.said("console: " + strings.Join(said, " "))
		},
		func(e *proto.RuntimeExceptionThrown) { p.said("exception: " + e.ExceptionDetails.Text) },
		func(e *proto.LogEntryAdded) {
			p.said(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		},
	)
	done := make(chan struct{})
	go func() { defer close(done); listen() }()
	b.t.Cleanup(func() { cancel(); <-done })
	return p
}

func (p *Page) said(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, line)
}

// Said is what the browser said since it was last asked: the console, exceptions, what
// the policy refused, answers of servers that were errors.
func (p *Page) Said() []string {
	p.t.Helper()
	p.Do(`() => 0`) // what it says comes in order: all that was said before this is here
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.log
	p.log = nil
	return said
}

func (p *Page) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Go opens an address, and waits until it is loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	page := p.Timeout(patience)
	loaded := page.WaitNavigation(proto.PageLifecycleEventNameLoad)
	p.must("open "+url, page.Navigate(url))
	loaded()
	p.must("open "+url, page.WaitLoad())
}

// Do evaluates a function of JavaScript, awaits it, and returns what it gave.
// The policy of the page does not hold for it.
func (p *Page) Do(function string, args ...any) json.RawMessage {
	p.t.Helper()
	o, err := p.Timeout(patience).Evaluate(rod.Eval(function, args...).ByPromise())
	if err != nil {
		p.t.Fatalf("in the page, %.80s: %v", function, err)
	}
	return json.RawMessage(o.Value.JSON("", ""))
}

// Text is what a person sees of the page.
func (p *Page) Text() string {
	p.t.Helper()
	var s string
	p.must("the text", json.Unmarshal(p.Do(`() => document.body.innerText`), &s))
	return s
}

// Press presses the mouse on the first element that the selector finds and whose
// text the pattern matches, which leads to another page, and waits for that.
func (p *Page) Press(selector, pattern string) {
	p.t.Helper()
	loaded := p.Timeout(patience).WaitNavigation(proto.PageLifecycleEventNameLoad)
	p.Click(selector, pattern)
	loaded()
}

// Click is Press where no other page comes.
func (p *Page) Click(selector, pattern string) {
	p.t.Helper()
	// An element may be replaced at any time: where it is, is asked until it is where the
	// mouse would hit it.
	var at *[2]float64
	find := rod.Eval(`(selector, pattern) => {
		const e = [...document.querySelectorAll(selector)].find(e => new RegExp(pattern).test(e.innerText.trim()));
		if (!e) return false;
		e.scrollIntoView({block: "center"});
		const r = e.getClientRects()[0] ?? new DOMRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
		const hit = document.elementFromPoint(x, y);
		window.pressed = [x, y];
		window.hit = hit && hit.outerHTML.slice(0, 200);
		return hit !== null && e.contains(hit);
	}`, selector, pattern)
	if err := p.Timeout(patience).Wait(find); err != nil {
		p.t.Fatalf("press %s %s: %v; there is %s; the page says:\n%s", selector, pattern, err, p.Do(`() => [window.pressed, window.hit]`), p.Text())
	}
	p.must("where to press", json.Unmarshal(p.Do(`() => window.pressed`), &at))
	p.must("press", p.Mouse.MoveTo(proto.Point{X: at[0], Y: at[1]}))
	p.must("press", p.Mouse.Click(proto.InputMouseButtonLeft, 1))
}

// Until waits until a function of JavaScript says true.
func (p *Page) Until(function string, args ...any) {
	p.t.Helper()
	if err := p.Timeout(patience).Wait(rod.Eval(function, args...)); err != nil {
		p.t.Fatalf("until %.200s %v: %v; the page says:\n%s", function, args, err, p.Text())
	}
}

// Type puts the cursor into a field and types.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	el, err := p.Timeout(patience).Element(selector)
	p.must("type into "+selector, err)
	p.must("type into "+selector, el.Input(text))
}

// Look is how a page is looked at.
type Look struct {
	Width int  // pixels; zero = 1280
	Dark  bool // what the system prefers
	Print bool
}

// Look changes how the page is looked at, from now on.
func (p *Page) Look(l Look) {
	p.t.Helper()
	if l.Width == 0 {
		l.Width = 1280
	}
	p.must("viewport", p.SetViewport(&proto.EmulationSetDeviceMetricsOverride{Width: l.Width, Height: 900, DeviceScaleFactor: 1}))
	m := proto.EmulationSetEmulatedMedia{Media: "screen", Features: []*proto.EmulationMediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	if l.Dark {
		m.Features[0].Value = "dark"
	}
	if l.Print {
		m.Media = "print"
	}
	p.must("media", m.Call(p.Page))
}

// Tab presses Tab until the cursor is back where it began, and returns what the mouse
// can reach and Tab cannot, and what does not show that the cursor is on it.
func (p *Page) Tab() (missed, unseen []string) {
	p.t.Helper()
	p.Do(`() => { document.activeElement.blur(); window.scrollTo(0, 0); window.visited = new Set(); window.dull = []; }`)
	for n := 0; ; n++ {
		if n > 1000 {
			p.t.Fatal("Tab has no end")
		}
		p.must("press Tab", p.Keyboard.Type(input.Tab))
		more := p.Do(`() => {
			const e = document.activeElement;
			if (e === document.body || visited.has(e)) return false;
			visited.add(e);
			const shows = x => x && getComputedStyle(x).outlineStyle !== "none" && parseFloat(getComputedStyle(x).outlineWidth) >= 1;
			if (!shows(e) && !shows(e.nextElementSibling)) dull.push(e.outerHTML.slice(0, 160));
			return true;
		}`)
		if string(more) != "true" {
			break
		}
	}
	var r struct{ Missed, Dull []string }
	b := p.Do(`() => {
		const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
		const there = all.filter(e => e.checkVisibility({checkOpacity: false}));
		const group = e => e.type === "radio" && there.some(o => o.name === e.name && o.form === e.form && visited.has(o));
		return {missed: there.filter(e => !visited.has(e) && !group(e)).map(e => e.outerHTML.slice(0, 160)), dull};
	}`)
	p.must("what Tab reached", json.Unmarshal(b, &r))
	return r.Missed, r.Dull
}

// Picture takes a picture of the whole page into a file, if DAYBOOK_TEST_PICTURES
// names a directory for them.
func (p *Page) Picture(name string) {
	p.t.Helper()
	dir := os.Getenv("DAYBOOK_TEST_PICTURES")
	if dir == "" {
		return
	}
	b, err := p.Screenshot(true, nil)
	p.must("picture", err)
	p.must("picture", os.WriteFile(filepath.Join(dir, name+".png"), b, 0o600))
}

// Violation is a rule of axe that a page breaks.
type Violation struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		FailureSummary string
	}
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.ID, v.Help)
	for _, n := range v.Nodes {
		fmt.Fprintf(&b, "\n\t%.200s\n\t%s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", " "))
	}
	return b.String()
}

//go:embed npm/package.json npm/package-lock.json
var pinned embed.FS

// Judge judges pages by axe-core, by all of its rules.
type Judge struct{ source string }

// Axe returns the judge. It comes from npm (see [testenv.NPM]), pinned by the lock
// file beside this package.
func Axe(t testing.TB) Judge {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, pinned); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(testenv.NPM(t, filepath.Join(dir, "npm")), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return Judge{string(b)}
}

// Judges returns the rules that the page breaks as it looks now. It fails the test if
// not one rule was applied: a judge that did not look has no objections.
func (j Judge) Judges(p *Page) []Violation {
	p.t.Helper()
	p.Do("() => { if (!window.axe) { " + j.source + " } }")
	var r struct {
		Violations []Violation
		Passes     int
	}
	b := p.Do(`async () => {
		const r = await axe.run(document, {resultTypes: ["violations"]});
		return {violations: r.violations, passes: r.passes.length};
	}`)
	p.must("axe", json.Unmarshal(b, &r))
	if r.Passes < 10 {
		p.t.Fatalf("axe found %d rules to hold: it has not looked", r.Passes)
	}
	return r.Violations
}

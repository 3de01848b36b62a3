// Package sharedmemorytest is the conformance kit for providers of shared memory.
package sharedmemorytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Case is a provider, and what it has to show.
type Case struct {
	Provider sharedmemory.Provider
	Context  sharedmemory.Context
	// Stores are the documents that the context sees: by store ID, path → content.
	// At least one store has documents in more than one folder.
	Stores map[string]map[string]string
}

// TestProvider checks that a provider conforms: that it is connected and shows
// exactly these stores and documents, lists by prefix, tells absence as a value,
// honours contexts, survives paths that it never listed, and may be used by
// several goroutines. It stops at the first violation.
func TestProvider(tb testing.TB, c Case) {
	tb.Helper()
	folders := map[string]bool{}
	for _, docs := range c.Stores {
		for p := range docs {
			folders[path.Dir(p)] = true
		}
	}
	if len(folders) < 2 {
		tb.Fatalf("the case has %d folders; it needs two, or prefixes are not tested", len(folders))
	}
	stores := c.stores(tb, context.Background())
	for _, id := range slices.Sorted(maps.Keys(c.Stores)) {
		s, docs := stores[id], c.Stores[id]
		listed(tb, s, "", docs)
		prefixes(tb, s, docs)
		contents(tb, s, docs)
		absent(tb, s, docs)
		stopped(tb, s)
		ended(tb, s, docs)
	}
	endedSnapshot(tb, c)
	together(tb, c)
}

// stores takes a snapshot and ranges over its stores.
func (c *Case) stores(tb testing.TB, ctx context.Context) map[string]sharedmemory.Store {
	tb.Helper()
	stores, err := c.take(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return stores
}

func (c *Case) take(ctx context.Context) (map[string]sharedmemory.Store, error) {
	snap, err := c.Provider.Snapshot(ctx, c.Context)
	switch {
	case err != nil:
		return nil, fmt.Errorf("snapshot: %w", err)
	case snap.State != sharedmemory.Connected:
		return nil, fmt.Errorf("snapshot: state %d, want connected", snap.State)
	case snap.Stores == nil:
		return nil, errors.New("snapshot: connected, and Stores is nil: yield nothing if there are none")
	}
	stores := map[string]sharedmemory.Store{}
	for s := range snap.Stores {
		if s == nil {
			return nil, errors.New("snapshot: a store is nil")
		}
		id := s.Info().ID
		switch {
		case !sharedmemory.ValidStoreID(id):
			return nil, fmt.Errorf("snapshot: store ID %q would be dropped", id)
		case stores[id] != nil:
			return nil, fmt.Errorf("snapshot: store ID %q is there twice", id)
		case c.Stores[id] == nil:
			return nil, fmt.Errorf("snapshot: store %q is not for this context", id)
		}
		stores[id] = s
	}
	if len(stores) != len(c.Stores) || len(stores) > sharedmemory.MaxStores {
		return nil, fmt.Errorf("snapshot: %d stores, want %d, at most %d", len(stores), len(c.Stores), sharedmemory.MaxStores)
	}
	return stores, nil
}

// entries ranges over a list.
func entries(ctx context.Context, s sharedmemory.Store, prefix string) (map[string]bool, error) {
	list := s.List(ctx, prefix)
	if list == nil {
		return nil, errors.New("the list is nil")
	}
	found := map[string]bool{}
	for e, err := range list {
		if err != nil {
			return nil, err
		}
		if r := sharedmemory.CheckDocumentPath(e.Path); r != nil {
			return nil, fmt.Errorf("entry would be dropped: %s", r.Message)
		}
		found[e.Path] = true
	}
	return found, nil
}

// listed checks that a list has what docs have below prefix, and nothing else
// that the tool would show.
func listed(tb testing.TB, s sharedmemory.Store, prefix string, docs map[string]string) {
	tb.Helper()
	found, err := entries(context.Background(), s, prefix)
	if err != nil {
		tb.Fatalf("list %q: %v", prefix, err)
	}
	for p := range docs {
		if sharedmemory.MatchesPrefix(p, prefix) && !found[p] {
			tb.Fatalf("list %q: %s is missing", prefix, p)
		}
	}
	for p := range found {
		if _, ok := docs[p]; !ok && sharedmemory.MatchesPrefix(p, prefix) {
			tb.Fatalf("list %q: %s is no document of the case", prefix, p)
		}
	}
}

func prefixes(tb testing.TB, s sharedmemory.Store, docs map[string]string) {
	tb.Helper()
	for p := range docs {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			listed(tb, s, dir, docs)
		}
		listed(tb, s, p, docs) // a document is no folder
	}
	listed(tb, s, "/sharedmemorytest/nowhere", docs)
}

func contents(tb testing.TB, s sharedmemory.Store, docs map[string]string) {
	tb.Helper()
	for p, want := range docs {
		v, err := s.Read(context.Background(), p)
		if err != nil {
			tb.Fatalf("read %s: %v", p, err)
		}
		if len(want) > sharedmemory.MaxRead {
			if size, ok := v.Size(); !ok || size != int64(len(want)) {
				tb.Fatalf("read %s: size %d, want the whole content or Oversize of %d bytes", p, size, len(want))
			}
			continue
		}
		if d, ok := v.Document(); !ok || d.Content != want {
			tb.Fatalf("read %s: %d bytes, want the %d of the case", p, len(d.Content), len(want))
		}
	}
}

// absent: whatever is no document is Absent, or an error; it is never a document.
func absent(tb testing.TB, s sharedmemory.Store, docs map[string]string) {
	tb.Helper()
	var known string
	for p := range docs {
		known = p
	}
	never := []string{"/sharedmemorytest-nothing.md", "/sharedmemorytest/nothing.md"}
	if known != "" {
		never = append(never, path.Dir(known)+"/sharedmemorytest-nothing.md", known+"/below.md")
	}
	for _, p := range never {
		v, err := s.Read(context.Background(), p)
		if err != nil || !v.IsAbsent() {
			tb.Fatalf("read %s, which is no document: error %v, want Absent", p, err)
		}
	}
	odd := []string{
		"", "/", "//", ".", "..", "/..", "/../x.md", "/a/../../x.md", "../../../../etc/passwd", "/../../../../etc/passwd", "/etc/passwd", "/proc/self/environ",
		"C:\\x.md", "/..\\x.md", "/x.md\x00.txt", "\xff\xfe", "/" + strings.Repeat("a", 5000) + ".md", strings.Repeat("/a", 3000) + ".md",
		"/%2e%2e/x.md", "/" + strings.Repeat("../", 40) + "etc/passwd", "/'; DROP TABLE documents; --.md", "/%.md", "/_.md",
	}
	if known != "" {
		odd = append(odd, path.Dir(known), known+"\x00", known+"/..", "/x/.."+known)
	}
	for _, p := range odd {
		v, err := s.Read(context.Background(), p)
		if d, ok := v.Document(); err == nil && ok {
			tb.Fatalf("read %q: %d bytes, want Absent or an error", p, len(d.Content))
		}
		for _, err := range s.List(context.Background(), p) {
			if err != nil {
				break
			}
		}
	}
}

// stopped: whoever ranges over a list may stop.
func stopped(tb testing.TB, s sharedmemory.Store) {
	tb.Helper()
	for range 2 {
		n := 0
		for range s.List(context.Background(), "") {
			n++
			break
		}
		if n > 1 {
			tb.Fatalf("list went on for %d rows after it was stopped", n)
		}
	}
}

// ended: with a context that has ended, list and read fail.
func ended(tb testing.TB, s sharedmemory.Store, docs map[string]string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if len(docs) == 0 {
		return
	}
	if _, err := entries(ctx, s, ""); err == nil {
		tb.Fatalf("list does not honour its context")
	}
	for p := range docs {
		if _, err := s.Read(ctx, p); err == nil {
			tb.Fatalf("read %s does not honour its context", p)
		}
	}
}

func endedSnapshot(tb testing.TB, c Case) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Provider.Snapshot(ctx, c.Context); err == nil {
		tb.Fatalf("snapshot does not honour its context")
	}
}

// together uses the provider from several goroutines; run it with the race detector.
func together(tb testing.TB, c Case) {
	tb.Helper()
	const workers = 4
	errs := make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { errs[i] = c.useOnce() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("used by several goroutines: %v", err)
	}
}

func (c *Case) useOnce() error {
	stores, err := c.take(context.Background())
	if err != nil {
		return err
	}
	for id, s := range stores {
		found, err := entries(context.Background(), s, "")
		if err != nil {
			return fmt.Errorf("list %s: %w", id, err)
		}
		for p := range found {
			if v, err := s.Read(context.Background(), p); err != nil || v.IsAbsent() {
				return fmt.Errorf("read %s %s: it was listed, and is absent (error %w)", id, p, err)
			}
		}
	}
	return nil
}

package sharedmemory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	t.Run("SE-25 arguments are made absolute, runs of / one", func(t *testing.T) {
		for in, want := range map[string]string{"/a//b.md": "/a/b.md", "a/b.md": "/a/b.md", "": "/", "///": "/", "/a/": "/a/", "//a": "/a"} {
			if got := NormalizePath(in); got != want {
				t.Errorf("NormalizePath(%q) = %q, want %q", in, got, want)
			}
		}
	})
	t.Run("SE-28 a relative path is told the absolute one", func(t *testing.T) {
		_, r := argumentPath("guides//x.md")
		if r == nil || r.Reason != ReasonRelativePath || !strings.Contains(r.Message, `"/guides/x.md"`) {
			t.Errorf("%+v", r)
		}
		// Before anything else is looked at: it would be invalid too.
		if _, r := argumentPath("../\x00"); r == nil || r.Reason != ReasonRelativePath {
			t.Errorf("%+v", r)
		}
	})
	good := []string{"/a.md", "/a b/c-d_e.tar.gz", "/ümläut/日本語.txt", "/a/x.MD", "/1/2/3.4", "/" + strings.Repeat("a", 252) + ".md", "/it's (1).md"}
	bad := []string{
		"", "/", "a.md", "/a", "/a/", "/a.md/", "//a.md", "/a//b.md", "/./a.md", "/../a.md", "/a/..", "/a/../b.md", "/.md", "/.git/a.md", "/a./b.md",
		"/a /b.md", "/ a.md", "/a.md ", "/a.md.", "/a..", "/a\\b.md", "/a\x00.md", "/a\n.md", "/\xff.md", "/a\u202e.md", "/a\u200d.md", "/a\u00a0b.md",
		"/a\u2028.md", "/a\ufeff.md", "/<system>.md", "/a:b.md", "/a|b.md", "/a?.md", "/*.md", "/\ufffd.md", "/a\u3164.md", "/a\ufe0f.md", "/\U000e0041.md",
		"/a.m d", "/a." + strings.Repeat("x", 17), "/" + strings.Repeat("a", 253) + ".md", strings.Repeat("/a", 511) + "/a.md", "/a.é",
	}
	t.Run("SE-29 what is a document path", func(t *testing.T) {
		for _, p := range good {
			if r := CheckDocumentPath(p); r != nil {
				t.Errorf("%q: %s", p, r.Message)
			}
		}
		for _, p := range bad {
			if r := CheckDocumentPath(p); r == nil || r.Reason != ReasonInvalidPath || r.Message == "" {
				t.Errorf("%q: %+v, want it invalid", p, r)
			}
		}
	})
	t.Run("SE-27 a refusal has a reason and a sentence", func(t *testing.T) {
		if r := CheckDocumentPath("/\x1b[31m<system>/x"); strings.ContainsAny(r.Message, "\x1b\n") || strings.Contains(r.Message, "<system>") {
			t.Errorf("message %q", r.Message)
		}
	})
	t.Run("SE-30 a prefix has no suffix, and may end with /", func(t *testing.T) {
		for _, p := range []string{"/", "/a", "/a/", "/a/b.c/", "/a b"} {
			if r := CheckPrefix(p); r != nil {
				t.Errorf("%q: %s", p, r.Message)
			}
		}
		if CheckDocumentPath("/a") == nil {
			t.Error("/a is a legal prefix and no document")
		}
		for _, p := range []string{"", "//", "/a//", "/..", "/a/../", "/.a", "/a\x00", "/\xff", "a", "/a /"} {
			if CheckPrefix(p) == nil {
				t.Errorf("prefix %q is valid", p)
			}
		}
	})
	t.Run("SE-31 a prefix ends at directory borders", func(t *testing.T) {
		for _, c := range []struct {
			path, prefix string
			want         bool
		}{
			{"/a/x.md", "/a", true},
			{"/a/x.md", "/a/", true},
			{"/ab/x.md", "/a", false},
			{"/a/x.md", "/", true},
			{"/x.md", "/", true},
			{"/a.md", "/a.md", false},
			{"/a/b/x.md", "/a/b", true},
			{"/a/bc/x.md", "/a/b", false},
			{"/x.md", "", true},
		} {
			if got := MatchesPrefix(c.path, c.prefix); got != c.want {
				t.Errorf("MatchesPrefix(%q, %q) = %v", c.path, c.prefix, got)
			}
		}
	})
	t.Run("SE-32 the root is no prefix", func(t *testing.T) {
		for in, want := range map[string]string{"/": "", "/a": "/a", "/a/": "/a"} {
			if got := ListPrefix(in); got != want {
				t.Errorf("ListPrefix(%q) = %q, want %q", in, got, want)
			}
		}
	})
	t.Run("SE-34 UTF-16 units decide, not bytes", func(t *testing.T) {
		// Bytes would put U+FFxx before U+1xxxx.
		want := []string{"", "/a", "/a/b", "/b", "/\ud7ff", "/\U00010000", "/\U0010ffff", "/\ue000", "/\uff46"}
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, CompareUTF16)
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		rapid.Check(t, func(t *rapid.T) {
			letters := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 0xD7FF, 0xE000, 0xFFEE, 0x10000, 0x10001, 0x10FFFF}), 0, 5, -1)
			a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
			want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
			if got := CompareUTF16(a, b); got != want {
				t.Fatalf("CompareUTF16(%q, %q) = %d, want %d", a, b, got, want)
			}
		})
	})
}

func TestPages(t *testing.T) {
	t.Run("SE-33 120 documents are 50, 50 and 20", func(t *testing.T) {
		cursor, got := "", ""
		for range 4 {
			var rows []Entry
			for i := range 120 {
				rows = append(rows, Entry{Path: fmt.Sprintf("/%03d.md", (i*77)%120)})
			}
			first, remaining := page(rows, "/", cursor)
			got += fmt.Sprintf("%d/%d ", len(first), remaining)
			if len(first) > 0 {
				cursor = first[len(first)-1].Path
			}
		}
		if got != "50/70 50/20 20/0 0/0 " {
			t.Errorf("pages %s", got)
		}
	})
	t.Run("SE-33 a document that is listed twice is one, the first", func(t *testing.T) {
		var rows []Entry
		for i := range 100 {
			rows = append(rows, Entry{Path: []string{"/b.md", "/a.md"}[i%2], UpdatedAt: fmt.Sprint(i)})
		}
		first, remaining := page(rows, "/", "")
		if len(first) != 2 || remaining != 0 || first[0].UpdatedAt != "1" || first[1].UpdatedAt != "0" {
			t.Errorf("%+v, %d remain", first, remaining)
		}
	})
	t.Run("SE-35 any string is a cursor", func(t *testing.T) {
		rows := func() []Entry { return []Entry{{Path: "/a.md"}, {Path: "/b.md"}, {Path: "/c.md"}} }
		for cursor, want := range map[string]int{"/a.md": 2, "/b": 2, "/gone.md": 0, "zzz": 0, "\x00": 3, "/c.md": 0, "": 3, "\xff": 0} {
			if first, _ := page(rows(), "/", cursor); len(first) != want {
				t.Errorf("cursor %q: %d documents, want %d", cursor, len(first), want)
			}
		}
	})
	t.Run("SE-33 pages of any list are the sorted list, each document once", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', '/', 0xE000 + 0x1D00, 0xFF46, 0x10000, 0x1D4B0}), 1, 4, -1)
			all := rapid.SliceOfN(name, 0, 400).Draw(t, "names")
			prefix := rapid.SampledFrom([]string{"/", "/a", "/a/", "/b"}).Draw(t, "prefix")
			want := map[string]bool{}
			var rows []Entry
			for i, n := range all {
				p := fmt.Sprintf("/%s%d.md", strings.Trim(n, "/"), i%90)
				for range rapid.IntRange(1, 3).Draw(t, "times listed") {
					rows = append(rows, Entry{Path: p})
				}
				if MatchesPrefix(p, prefix) {
					want[p] = true
				}
			}
			sorted := slices.SortedFunc(maps.Keys(want), func(a, b string) int {
				return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
			})
			var got []string
			cursor := ""
			for {
				first, remaining := page(slices.Clone(rows), prefix, cursor)
				for _, e := range first {
					got = append(got, e.Path)
				}
				if len(got)+remaining != len(sorted) || len(first) > PageSize || remaining > 0 && len(first) != PageSize {
					t.Fatalf("after %d of %d: page of %d, %d remain", len(got), len(sorted), len(first), remaining)
				}
				if remaining == 0 {
					break
				}
				cursor = first[len(first)-1].Path
			}
			if !slices.Equal(got, sorted) {
				t.Fatalf("pages %q, want %q", got, sorted)
			}
		})
	})
}

// FuzzPaths: SE-26, SE-29: what is a document is in canonical form, and can stand
// on a line; a document's folders are prefixes that it matches.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/a/b.md", "a//b.md", "/../x.md", "/\u202ea.md", "/.git/x", "/a\x00.md", "/\U0001d4b0.md", "/a\ufe64b.md"} {
		f.Add(s, "/a")
	}
	f.Fuzz(func(t *testing.T, p, prefix string) {
		n := NormalizePath(p)
		if NormalizePath(n) != n || n[0] != '/' || strings.Contains(n, "//") {
			t.Fatalf("NormalizePath(%q) = %q", p, n)
		}
		if CompareUTF16(p, prefix) != -CompareUTF16(prefix, p) {
			t.Fatalf("order of %q and %q", p, prefix)
		}
		if CheckPrefix(prefix) == nil && strings.HasPrefix(ListPrefix(prefix), "//") {
			t.Fatalf("prefix %q", prefix)
		}
		if listable(p) != (CheckDocumentPath(p) == nil) {
			t.Fatalf("%q is listable: %v", p, listable(p))
		}
		if r := CheckDocumentPath(p); r != nil {
			if EchoUntrusted(r.Message) == "" {
				t.Fatal("no sentence")
			}
			return
		}
		if n != p || len(p) > maxPath || defuse(scar(p)) != p || strings.Contains(p, "/.") || strings.ContainsAny(p, "<>\\\n") {
			t.Fatalf("document %q", p)
		}
		for i := 1; i < len(p); i++ {
			if p[i] == '/' && (CheckPrefix(p[:i]) != nil || CheckPrefix(p[:i+1]) != nil || !MatchesPrefix(p, p[:i])) {
				t.Fatalf("prefix %q of %q", p[:i], p)
			}
		}
	})
}

package sharedmemory

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of paths in bytes.
const (
	maxPath    = 1024
	maxSegment = 255
)

// NormalizePath makes a path of an argument absolute and collapses runs of "/".
// What a store lists is never normalised: it could turn into another document.
func NormalizePath(path string) string {
	var b strings.Builder
	b.Grow(len(path) + 1)
	b.WriteByte('/')
	last := byte('/')
	for i := range len(path) {
		if path[i] == '/' && last == '/' {
			continue
		}
		last = path[i]
		b.WriteByte(last)
	}
	return b.String()
}

// argumentPath normalises a path that the model gave; a relative one it teaches.
func argumentPath(path string) (string, *Refusal) {
	if !strings.HasPrefix(path, "/") {
		return "", refuse(ReasonRelativePath, "Paths are absolute: write %q instead of %q.", EchoUntrusted(NormalizePath(path)), EchoUntrusted(path))
	}
	return NormalizePath(path), nil
}

// suffix is that of a file's name: ".md", ".tar.gz".
var suffix = regexp.MustCompile(`[^.]\.[A-Za-z0-9]{1,16}$`)

// CheckDocumentPath returns nil if path is that of a document, in canonical
// form: "/" and segments divided by single "/", the last with a suffix such as
// ".md", and no character that could be mistaken. See docs/decisions/0019.
func CheckDocumentPath(path string) *Refusal {
	if problem := segmentProblem(path); problem != "" {
		return invalidPath(path, problem)
	}
	if !suffix.MatchString(path) {
		return refuse(ReasonInvalidPath, "%q is no document: its name needs a suffix such as .md. To browse a folder call memory_list.", EchoUntrusted(path))
	}
	return nil
}

// listable is CheckDocumentPath for rows, of which there may be many and nobody
// is told what is wrong with one.
func listable(path string) bool { return segmentProblem(path) == "" && suffix.MatchString(path) }

// CheckPrefix returns nil if prefix can be listed: "/", or the path of a folder
// with or without a "/" at its end.
func CheckPrefix(prefix string) *Refusal {
	if prefix == "/" {
		return nil
	}
	if problem := segmentProblem(strings.TrimSuffix(prefix, "/")); problem != "" {
		return invalidPath(prefix, problem)
	}
	return nil
}

func invalidPath(path, problem string) *Refusal {
	return refuse(ReasonInvalidPath, "%q is no valid path: %s.", EchoUntrusted(path), problem)
}

// segmentProblem says what keeps path from being canonical, empty if nothing does.
func segmentProblem(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "it must begin with /"
	case len(path) > maxPath:
		return "it is longer than 1024 bytes"
	case !utf8.ValidString(path):
		return "it is no UTF-8"
	case strings.ContainsFunc(path, misleading):
		return `it has a character that paths may not have: controls, invisible ones, special spaces, \ < > : " | * ?`
	}
	for s := range strings.SplitSeq(path[1:], "/") {
		switch {
		case s == "":
			return "a segment is empty"
		case len(s) > maxSegment:
			return "a segment is longer than 255 bytes"
		case s[0] == '.':
			return "a segment begins with a dot"
		case s[0] == ' ' || s[len(s)-1] == ' ' || s[len(s)-1] == '.':
			return "a segment begins or ends with a space, or ends with a dot"
		}
	}
	return ""
}

// misleading characters cannot be seen, look like a space, or mean something
// to a shell, to a file system or in a tag.
func misleading(r rune) bool {
	return strings.ContainsRune("\\<>:\"|*?", r) || r == utf8.RuneError || r != ' ' && !unicode.IsGraphic(r) ||
		r != ' ' && unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

// MatchesPrefix reports whether path is in the folder prefix: "/a" and "/a/" are
// the same, "/ab/x.md" is in neither, and "/" has everything.
func MatchesPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

// ListPrefix is how a store is asked for prefix: the root is empty, since a store
// that adds a "/" would look for "//".
func ListPrefix(prefix string) string { return strings.TrimSuffix(prefix, "/") }

// CompareUTF16 orders by UTF-16 units: unlike bytes do, it puts what is above
// U+FFFF before U+E000 to U+FFFF.
func CompareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			if (x > 0xFFFF) != (y > 0xFFFF) {
				return cmp.Compare(firstUnit(x), firstUnit(y))
			}
			return cmp.Compare(x, y)
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

func firstUnit(r rune) rune {
	if r > 0xFFFF {
		return 0xD800 + (r-0x10000)>>10
	}
	return r
}

// page sorts what a list has beyond cursor, takes twice named documents once, and
// returns the first [PageSize] and how many remain. It may reorder rows.
func page(rows []Entry, prefix, cursor string) (first []Entry, remaining int) {
	rows = slices.DeleteFunc(rows, func(e Entry) bool { return !candidate(e.Path, prefix, cursor) })
	slices.SortStableFunc(rows, func(a, b Entry) int { return CompareUTF16(a.Path, b.Path) })
	rows = slices.CompactFunc(rows, func(a, b Entry) bool { return a.Path == b.Path })
	n := min(len(rows), PageSize)
	return rows[:n], len(rows) - n
}

// candidate reports whether a document belongs to a listing. Any string is a cursor.
func candidate(path, prefix, cursor string) bool {
	return MatchesPrefix(path, prefix) && (cursor == "" || CompareUTF16(path, cursor) > 0)
}

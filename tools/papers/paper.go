// Package papers is the tool paper_search, and the sources it asks: OpenAlex,
// Semantic Scholar, Consensus, and several of them as one.
package papers

import (
	"context"
	"strings"
	"unicode"
)

// Query is a search for papers. Text alone is required.
type Query struct {
	Text string
	// YearMin and YearMax are inclusive; 0 leaves that end open.
	YearMin, YearMax int
	MinCitations     int
	// OpenAccess: only papers that can be read for free.
	OpenAccess bool
	// Max is how many papers are wanted, from 1.
	Max int
}

// Paper is one publication. What a source does not know is zero.
type Paper struct {
	Title      string
	Year       int
	Authors    []string
	Venue      string
	Citations  *int
	DOI        string // lower case, without https://doi.org/
	OpenPDF    string // URL
	Page       string // URL of the source's own page
	StudyType  string // such as rct, meta-analysis
	SampleSize int
	Takeaway   string // one line
	Abstract   string
}

// URL is where the paper can be read: its open PDF, else the source's page,
// else its DOI. Empty if there is none.
func (p *Paper) URL() string {
	for _, u := range []string{p.OpenPDF, p.Page} {
		if isLink(u) {
			return u
		}
	}
	if p.DOI != "" {
		return "https://doi.org/" + p.DOI
	}
	return ""
}

func isLink(u string) bool {
	return strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://")
}

// Found is what a source found.
type Found struct {
	Papers []Paper
	// CostMicroUSD is what the search cost; nil is unmeasured, which is not free.
	CostMicroUSD *int64
	// Failed names the sources of a merged search that did not answer.
	Failed []Failure
}

// Failure is a source that did not answer.
type Failure struct{ Source, Text string }

// Source is where papers can be searched. Safe for concurrent use.
type Source interface {
	// Name is how failures call it.
	Name() string
	// Search returns the papers in the order of the source, best first.
	Search(ctx context.Context, q Query) (Found, error)
}

// bareDOI makes the many ways to write a DOI one.
func bareDOI(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	for _, prefix := range []string{"https://", "http://", "dx.", "doi.org/", "doi:"} {
		s = strings.TrimPrefix(s, prefix)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ""
	}
	return s
}

// titleKey is a title without case, punctuation and space.
func titleKey(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

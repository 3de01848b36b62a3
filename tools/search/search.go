// Package search is the tool web_search, and the searchers it asks: Perplexity's
// Sonar, a SearXNG of one's own, and several of them as one.
package search

import (
	"context"

	"github.com/daybookhq/daybook/tools/extract"
)

// Depth is how much a search may do.
type Depth string

// Depths, from the cheapest on.
const (
	Quick Depth = "quick"
	Pro   Depth = "pro"
	Deep  Depth = "deep"
)

var depths = []Depth{Quick, Pro, Deep}

// Recency is how old results may be; empty is any age.
type Recency string

// Recencies.
const (
	Day   Recency = "day"
	Week  Recency = "week"
	Month Recency = "month"
	Year  Recency = "year"
)

// Query is one search.
type Query struct {
	Text    string
	Depth   Depth
	Recency Recency
}

// Hit is a page that an answer rests on.
type Hit struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Usage is what a search took of models, in tokens.
type Usage struct{ Input, Output, CacheRead, CacheWrite, Reasoning int64 }

func (u Usage) plus(v Usage) Usage {
	return Usage{
		u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Reasoning + v.Reasoning,
	}
}

// Result is what every searcher returns.
type Result struct {
	Answer  string
	Results []Hit
	// Model is what wrote the answer, as the service names it.
	Model string
	// Truncated: the answer goes on, or a page behind it does.
	Truncated bool
	Usage     Usage
	// CostMicroUSD is what the search cost; nil is unmeasured.
	CostMicroUSD *int64
	// Domains are the only ones that results come from; nil if they may come from anywhere.
	Domains []string
	// Failed names the searchers of a merged search that did not answer.
	Failed []Failure
}

// Failure is a searcher that did not answer.
type Failure struct{ Searcher, Text string }

// Searcher searches the web. Safe for concurrent use.
type Searcher interface {
	// Name is how failures call it.
	Name() string
	Search(ctx context.Context, q Query) (Result, error)
}

// Reader reads a page behind the network guard. [extract.Reader] is one.
type Reader interface {
	Read(ctx context.Context, url string) (extract.Page, error)
}

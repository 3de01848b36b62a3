package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// Options configure [Web].
type Options struct {
	// Searcher is one searcher, or several as [Every].
	Searcher Searcher
	// MaxDepth caps the depth that a model asks for; [Deep] if empty.
	MaxDepth Depth
	// Read reads the page where the query is a link. Nil: links are refused,
	// since whoever can have links read can send what it knows to their hosts.
	Read Reader
	// Price is what one search costs at most, in micro-USD, for budgets.
	Price int64
}

// Web returns web_search.
func Web(o Options) (tools.Tool, error) {
	if o.Searcher == nil {
		return nil, errors.New("web_search: a searcher is required")
	}
	o.MaxDepth = cmp.Or(o.MaxDepth, Deep)
	most := slices.Index(depths, o.MaxDepth)
	if most < 0 {
		return nil, fmt.Errorf("web_search: MaxDepth is %q, want quick, pro or deep", o.MaxDepth)
	}
	t, err := tools.New(tools.Definition{
		Name:        "web_search",
		Description: "Searches the web and returns an answer with its sources. A query that is a link reads that page instead.",
		Aliases:     []string{"search", "web", "internet", "google", "news", "look up", "browse"},
		Args: []tools.Arg{
			{Name: "depth", Type: tools.Enum, Options: []string{string(Quick), string(Pro), string(Deep)}},
			{Name: "recency", Type: tools.Enum, Options: []string{string(Day), string(Week), string(Month), string(Year)}},
		},
		Effect:  tools.Readonly,
		Trust:   tools.External,
		Timeout: sonarTime,
		Price:   o.Price,
	}, func(ctx context.Context, _ *tools.Invocation, in arguments) (*answer, error) {
		return o.search(ctx, in, most)
	})
	if err != nil {
		return nil, err
	}
	return tools.WithCost(t, costOf), nil
}

type arguments struct {
	Query   string  `json:"query" jsonschema:"what to find, or the link of a page to read"`
	Depth   Depth   `json:"depth,omitempty" jsonschema:"how thorough: quick if left out"`
	Recency Recency `json:"recency,omitempty" jsonschema:"how old results may be; any age if left out"`
}

// answer is read by its text; its results are the sources of the call.
type answer struct {
	Answer       string `json:"answer"`
	Results      []Hit  `json:"results"`
	Model        string `json:"model"`
	Truncated    bool   `json:"truncated"`
	Usage        Usage  `json:"usage"`
	CostMicroUSD *int64 `json:"costMicroUsd,omitempty"`
}

func costOf(v any) (int64, bool) {
	if a, ok := v.(*answer); ok && a.CostMicroUSD != nil {
		return *a.CostMicroUSD, true
	}
	return 0, false
}

const maxQuery = 2000

var linkRule = regexp.MustCompile(`(?i)\bhttps?://[^\s<>"]+`)

// linkIn returns the first link of a text, without the punctuation of the
// sentence around it. A text that is a link is taken as it is.
func linkIn(text string) string {
	link := linkRule.FindString(text)
	if link == text {
		return link
	}
	for link != "" {
		last := link[len(link)-1]
		if i := strings.IndexByte(")]}", last); i >= 0 {
			if strings.Count(link, "([{"[i:i+1]) >= strings.Count(link, ")]}"[i:i+1]) {
				break // its partner is in the link, as in https://en.wikipedia.org/wiki/Go_(game)
			}
		} else if strings.IndexByte(".,;:!?'", last) < 0 {
			break
		}
		link = link[:len(link)-1]
	}
	return link
}

func (o *Options) search(ctx context.Context, in arguments, most int) (*answer, error) {
	q := Query{Text: strings.TrimSpace(in.Query), Depth: cmp.Or(in.Depth, Quick), Recency: in.Recency}
	if q.Text == "" || len(q.Text) > maxQuery {
		return nil, &tools.ArgumentError{Tool: "web_search", Problems: []string{fmt.Sprintf("query has %d bytes: want 1 to %d", len(q.Text), maxQuery)}}
	}
	if link := linkIn(q.Text); link != "" {
		return o.page(ctx, link)
	}
	q.Depth = depths[min(slices.Index(depths, q.Depth), most)]
	r, err := o.Searcher.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	text := r.Answer
	if r.Truncated {
		text = strings.TrimRight(text, "\n") + "\n\n[cut: there is more than this]\n"
	}
	for _, f := range r.Failed {
		text = strings.TrimRight(text, "\n") + fmt.Sprintf("\n\n%s did not answer: %s\n", f.Searcher, line(f.Text))
	}
	if r.Results == nil {
		r.Results = []Hit{}
	}
	return &answer{text, r.Results, r.Model, r.Truncated, r.Usage, r.CostMicroUSD}, nil
}

func (o *Options) page(ctx context.Context, link string) (*answer, error) {
	if o.Read == nil {
		return nil, errors.New("links are not read here: say in words what to find")
	}
	p, err := o.Read.Read(ctx, link)
	if err != nil {
		return nil, err
	}
	text := p.Text
	if p.Title != "" {
		text = p.Title + "\n\n" + text
	}
	if p.Cut {
		text += "\n\n[cut: the page goes on]\n"
	}
	zero := int64(0)
	return &answer{Answer: text, Results: []Hit{{p.Title, p.URL}}, Model: "page", Truncated: p.Cut, CostMicroUSD: &zero}, nil
}

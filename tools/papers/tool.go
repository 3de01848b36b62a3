package papers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/fanout"
)

// DefaultMaxResults is how many papers a search returns unless told otherwise.
const DefaultMaxResults = 10

// Bounds of texts, in bytes.
const (
	maxLine     = 400
	maxAbstract = 1500
	maxQuery    = 1000
	maxPapers   = 100
)

// Options configure [Search].
type Options struct {
	// Source is one source, or several as [Every].
	Source Source
	// MaxResults is [DefaultMaxResults] if zero, and at most 100.
	MaxResults int
	// Price is what one search costs at most, in micro-USD, for budgets.
	Price int64
}

// Search returns paper_search. Several sources belong into one tool, through
// [Every]: a tool for each would take the places of others in what is offered.
func Search(o Options) (tools.Tool, error) {
	if o.Source == nil {
		return nil, errors.New("paper_search: a source is required")
	}
	if o.MaxResults < 0 || o.MaxResults > maxPapers {
		return nil, fmt.Errorf("paper_search: MaxResults is %d, want 0 to %d", o.MaxResults, maxPapers)
	}
	if o.MaxResults == 0 {
		o.MaxResults = DefaultMaxResults
	}
	t, err := tools.New(tools.Definition{
		Name:        "paper_search",
		Description: "Searches scientific papers and returns title, year, authors, venue, citations, finding and abstract of each, with links.",
		Aliases:     []string{"papers", "literature", "studies", "research", "science", "citations", "articles"},
		Effect:      tools.Readonly,
		Trust:       tools.External,
		Price:       o.Price,
		Wants: &tools.Wants{
			Name:        "search_phrase",
			Description: "the subject in a few words, as a catalogue is searched: a whole question finds nothing",
		},
	}, func(ctx context.Context, _ *tools.Invocation, in arguments) (*Result, error) {
		q, err := in.query(o.MaxResults)
		if err != nil {
			return nil, err
		}
		f, err := o.Source.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		return show(f), nil
	})
	if err != nil {
		return nil, err
	}
	return tools.WithCost(t, costOf), nil
}

type arguments struct {
	Query        string `json:"query" jsonschema:"the subject in a few words"`
	YearMin      int    `json:"year_min,omitempty" jsonschema:"published in this year or later"`
	YearMax      int    `json:"year_max,omitempty" jsonschema:"published in this year or earlier"`
	MinCitations int    `json:"min_citations,omitempty" jsonschema:"cited at least so often"`
	OpenAccess   bool   `json:"open_access,omitempty" jsonschema:"only what can be read for free"`
}

func (a arguments) query(most int) (Query, error) {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	q := Query{
		Text: strings.TrimSpace(a.Query), YearMin: a.YearMin, YearMax: a.YearMax, MinCitations: a.MinCitations, OpenAccess: a.OpenAccess, Max: most,
	}
	if q.Text == "" || len(q.Text) > maxQuery {
		bad("query has %d bytes: want 1 to %d", len(q.Text), maxQuery)
	}
	if a.YearMin < 0 || a.YearMin > 9999 || a.YearMax < 0 || a.YearMax > 9999 {
		bad("year_min is %d and year_max %d: want years", a.YearMin, a.YearMax)
	}
	if a.YearMin != 0 && a.YearMax != 0 && a.YearMin > a.YearMax {
		bad("year_min %d is after year_max %d", a.YearMin, a.YearMax)
	}
	if a.MinCitations < 0 {
		bad("min_citations is %d: want 0 or more", a.MinCitations)
	}
	if problems != nil {
		return q, &tools.ArgumentError{Tool: "paper_search", Problems: problems}
	}
	return q, nil
}

// Result is what paper_search returns: the model reads Answer, Results are the
// sources of the call.
type Result struct {
	Answer       string          `json:"answer"`
	Results      []events.Source `json:"results"`
	CostMicroUSD *int64          `json:"costMicroUsd,omitempty"`
}

func costOf(v any) (int64, bool) {
	if r, ok := v.(*Result); ok && r.CostMicroUSD != nil {
		return *r.CostMicroUSD, true
	}
	return 0, false
}

func show(f Found) *Result {
	r := &Result{Results: []events.Source{}, CostMicroUSD: f.CostMicroUSD}
	var b strings.Builder
	if len(f.Papers) == 0 {
		b.WriteString("no papers found; try fewer or other words\n")
	}
	for i := range f.Papers {
		p := &f.Papers[i]
		describe(&b, i+1, p)
		r.Results = append(r.Results, events.Source{Title: fanout.Line(p.Title, maxLine), URL: p.URL()})
	}
	for _, x := range f.Failed {
		fmt.Fprintf(&b, "%s did not answer: %s\n", x.Source, fanout.Line(x.Text, maxLine))
	}
	r.Answer = b.String()
	return r
}

func describe(b *strings.Builder, n int, p *Paper) {
	fmt.Fprintf(b, "%d. %s", n, fanout.Line(p.Title, maxLine))
	if p.Year != 0 {
		fmt.Fprintf(b, " (%d)", p.Year)
	}
	b.WriteByte('\n')
	var facts []string
	fact := func(ok bool, format string, args ...any) {
		if ok {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	fact(len(p.Authors) > 0, "%s", authors(p.Authors))
	fact(p.Venue != "", "%s", fanout.Line(p.Venue, maxLine))
	if p.Citations != nil {
		fact(true, "cited %d times", *p.Citations)
	}
	fact(p.StudyType != "", "%s", fanout.Line(p.StudyType, maxLine))
	fact(p.SampleSize > 0, "n = %d", p.SampleSize)
	if len(facts) > 0 {
		fmt.Fprintf(b, "   %s\n", strings.Join(facts, "; "))
	}
	if u := p.URL(); u != "" {
		fmt.Fprintf(b, "   %s\n", fanout.Line(u, maxLine))
	}
	if p.Takeaway != "" {
		fmt.Fprintf(b, "   finding: %s\n", fanout.Line(p.Takeaway, maxLine))
	}
	if p.Abstract != "" {
		fmt.Fprintf(b, "   abstract: %s\n", fanout.Line(p.Abstract, maxAbstract))
	}
}

func authors(all []string) string {
	const few = 3
	s := fanout.Line(strings.Join(all[:min(len(all), few)], ", "), maxLine)
	if len(all) > few {
		s += " and others"
	}
	return s
}

// SpentOn sums what the calls cost that say so.
func SpentOn(results ...events.ToolResult) events.PicoUSD {
	var sum events.PicoUSD
	for _, r := range results {
		if r.Cost != nil {
			sum += *r.Cost
		}
	}
	return sum
}

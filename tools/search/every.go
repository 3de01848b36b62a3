package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Every asks several searchers at once. Each answer stands under a line
// "# via <model>"; links are united, tokens and costs summed. A searcher that
// does not answer is named in Result.Failed; if none does, that is an error.
func Every(searchers ...Searcher) Searcher { return every(searchers) }

type every []Searcher

func (e every) Name() string {
	names := make([]string, len(e))
	for i, s := range e {
		names[i] = s.Name()
	}
	return strings.Join(names, "+")
}

func (e every) Search(ctx context.Context, q Query) (Result, error) {
	if len(e) == 0 {
		return Result{}, errors.New("no searcher is configured")
	}
	results, errs := make([]Result, len(e)), make([]error, len(e))
	var all sync.WaitGroup
	for i, s := range e {
		all.Go(func() { results[i], errs[i] = ask(ctx, s, q) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	var m Result
	var answers, models []string
	seen := map[string]bool{}
	pinned := true
	for i, r := range results {
		if errs[i] != nil {
			m.Failed = append(m.Failed, Failure{e[i].Name(), line(errs[i].Error())})
			continue
		}
		answers = append(answers, "# via "+line(r.Model)+"\n\n"+unmarked(strings.TrimSpace(r.Answer)))
		models = append(models, r.Model)
		for _, h := range r.Results {
			if !seen[h.URL] {
				seen[h.URL] = true
				m.Results = append(m.Results, h)
			}
		}
		m.Truncated = m.Truncated || r.Truncated
		m.Usage = m.Usage.plus(r.Usage)
		m.CostMicroUSD = plus(m.CostMicroUSD, r.CostMicroUSD)
		m.Failed = append(m.Failed, r.Failed...)
		pinned = pinned && len(r.Domains) > 0
		m.Domains = append(m.Domains, r.Domains...)
	}
	if answers == nil {
		said := make([]string, len(m.Failed))
		for i, f := range m.Failed {
			said[i] = f.Searcher + ": " + f.Text
		}
		return Result{}, fmt.Errorf("no searcher answered: %s", strings.Join(said, "; "))
	}
	if !pinned {
		m.Domains = nil
	}
	slices.Sort(m.Domains)
	m.Domains = slices.Compact(m.Domains)
	m.Answer, m.Model = strings.Join(answers, "\n\n"), strings.Join(models, "+")
	return m, nil
}

// unmarked puts a space before the lines of an answer that look like those that
// Every writes: what a page says must not pass for another searcher's.
func unmarked(answer string) string {
	return markRule.ReplaceAllString(answer, "${1} ${2}")
}

var markRule = regexp.MustCompile(`(^|[\n\r\v\f\x{85}\x{2028}\x{2029}])(# via )`)

// ask survives a searcher that panics.
func ask(ctx context.Context, s Searcher, q Query) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("crashed")
		}
	}()
	return s.Search(ctx, q)
}

func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

package search

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools/internal/fanout"
)

// Every asks several searchers at once. Each answer stands under a line
// "# via <model>"; links are united, tokens and costs summed. A searcher that
// does not answer is named in Result.Failed; if none does, that is an error.
func Every(searchers ...Searcher) Searcher { return every(searchers) }

type every []Searcher

func (e every) Name() string { return fanout.Name(e) }

func (e every) Search(ctx context.Context, q Query) (Result, error) {
	if len(e) == 0 {
		return Result{}, errors.New("no searcher is configured")
	}
	all, err := fanout.Ask(ctx, e, func(s Searcher) (Result, error) { return s.Search(ctx, q) })
	if err != nil {
		return Result{}, err
	}
	var m Result
	var answers, models []string
	seen := map[string]bool{}
	pinned := true
	for _, one := range all {
		if one.Err != nil {
			m.Failed = append(m.Failed, Failure{one.Name, line(one.Err.Error())})
			continue
		}
		r := one.R
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
		m.CostMicroUSD = fanout.Add(m.CostMicroUSD, r.CostMicroUSD)
		m.Failed = append(m.Failed, r.Failed...)
		pinned = pinned && len(r.Domains) > 0
		m.Domains = append(m.Domains, r.Domains...)
	}
	if answers == nil {
		said := make([][2]string, len(m.Failed))
		for i, f := range m.Failed {
			said[i] = [2]string{f.Searcher, f.Text}
		}
		return Result{}, fanout.NoAnswer("searcher", said)
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

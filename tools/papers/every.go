package papers

import (
	"cmp"
	"context"
	"errors"

	"github.com/daybookhq/daybook/tools/internal/fanout"
)

// Every asks several sources at once and makes one list of what they find: the
// first of each, then the second of each, and so on. The same paper from two
// sources is one paper, which knows what both knew. A source that does not
// answer is named in Found.Failed; if none does, that is an error.
func Every(sources ...Source) Source { return every(sources) }

type every []Source

func (e every) Name() string { return fanout.Name(e) }

func (e every) Search(ctx context.Context, q Query) (Found, error) {
	if len(e) == 0 {
		return Found{}, errors.New("no source of papers is configured")
	}
	all, err := fanout.Ask(ctx, e, func(s Source) (Found, error) { return s.Search(ctx, q) })
	if err != nil {
		return Found{}, err
	}
	var merged Found
	lists := make([][]Paper, 0, len(e))
	for _, one := range all {
		if one.Err != nil {
			merged.Failed = append(merged.Failed, Failure{one.Name, fanout.Line(one.Err.Error(), maxLine)})
			continue
		}
		merged.Failed = append(merged.Failed, one.R.Failed...)
		merged.CostMicroUSD = fanout.Add(merged.CostMicroUSD, one.R.CostMicroUSD)
		lists = append(lists, one.R.Papers)
	}
	if len(lists) == 0 {
		said := make([][2]string, len(merged.Failed))
		for i, f := range merged.Failed {
			said[i] = [2]string{f.Source, f.Text}
		}
		return Found{}, fanout.NoAnswer("source of papers", said)
	}
	merged.Papers = merge(lists)
	if len(merged.Papers) > q.Max {
		merged.Papers = merged.Papers[:q.Max]
	}
	return merged, nil
}

// merge takes turns, and folds what is the same.
func merge(lists [][]Paper) []Paper {
	var out []Paper
	byDOI, byTitle := map[string]int{}, map[string][]int{}
	for i := 0; ; i++ {
		more := false
		for _, l := range lists {
			if i >= len(l) {
				continue
			}
			more = true
			p := l[i]
			at, ok := find(out, byDOI, byTitle, p)
			if ok {
				fold(&out[at], p)
			} else {
				at, out = len(out), append(out, p)
				byTitle[titleKey(p.Title)] = append(byTitle[titleKey(p.Title)], at)
			}
			if d := out[at].DOI; d != "" {
				byDOI[d] = at
			}
		}
		if !more {
			return out
		}
	}
}

// find looks for p by its DOI; by its title only where one of both has no DOI.
func find(out []Paper, byDOI map[string]int, byTitle map[string][]int, p Paper) (int, bool) {
	if p.DOI != "" {
		if at, ok := byDOI[p.DOI]; ok {
			return at, true
		}
	}
	key := titleKey(p.Title)
	if key == "" {
		return 0, false
	}
	for _, at := range byTitle[key] {
		if p.DOI == "" || out[at].DOI == "" {
			return at, true
		}
	}
	return 0, false
}

// fold fills the gaps of p; the higher count of citations wins.
func fold(p *Paper, q Paper) {
	p.Title, p.Year, p.Venue = cmp.Or(p.Title, q.Title), cmp.Or(p.Year, q.Year), cmp.Or(p.Venue, q.Venue)
	p.DOI, p.OpenPDF, p.Page = cmp.Or(p.DOI, q.DOI), cmp.Or(p.OpenPDF, q.OpenPDF), cmp.Or(p.Page, q.Page)
	p.StudyType, p.SampleSize = cmp.Or(p.StudyType, q.StudyType), cmp.Or(p.SampleSize, q.SampleSize)
	p.Takeaway, p.Abstract = cmp.Or(p.Takeaway, q.Takeaway), cmp.Or(p.Abstract, q.Abstract)
	if len(p.Authors) == 0 {
		p.Authors = q.Authors
	}
	if p.Citations == nil || q.Citations != nil && *q.Citations > *p.Citations {
		p.Citations = q.Citations
	}
}

package papers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Every asks several sources at once and makes one list of what they find: the
// first of each, then the second of each, and so on. The same paper from two
// sources is one paper, which knows what both knew. A source that does not
// answer is named in Found.Failed; if none does, that is an error.
func Every(sources ...Source) Source { return every(sources) }

type every []Source

func (e every) Name() string {
	names := make([]string, len(e))
	for i, s := range e {
		names[i] = s.Name()
	}
	return strings.Join(names, "+")
}

func (e every) Search(ctx context.Context, q Query) (Found, error) {
	if len(e) == 0 {
		return Found{}, errors.New("no source of papers is configured")
	}
	found, errs := make([]Found, len(e)), make([]error, len(e))
	var all sync.WaitGroup
	for i, s := range e {
		all.Go(func() { found[i], errs[i] = ask(ctx, s, q) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return Found{}, context.Cause(ctx)
	}
	var merged Found
	answered := 0
	lists := make([][]Paper, 0, len(e))
	for i, s := range e {
		if errs[i] != nil {
			merged.Failed = append(merged.Failed, Failure{s.Name(), line(errs[i].Error(), maxLine)})
			continue
		}
		answered++
		merged.Failed = append(merged.Failed, found[i].Failed...)
		merged.CostMicroUSD = plus(merged.CostMicroUSD, found[i].CostMicroUSD)
		lists = append(lists, found[i].Papers)
	}
	if answered == 0 {
		return Found{}, allFailed(merged.Failed)
	}
	merged.Papers = merge(lists)
	if len(merged.Papers) > q.Max {
		merged.Papers = merged.Papers[:q.Max]
	}
	return merged, nil
}

// ask survives a source that panics.
func ask(ctx context.Context, s Source, q Query) (f Found, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("crashed")
		}
	}()
	return s.Search(ctx, q)
}

func allFailed(failed []Failure) error {
	said := make([]string, len(failed))
	for i, f := range failed {
		said[i] = f.Source + ": " + f.Text
	}
	return fmt.Errorf("no source of papers answered: %s", strings.Join(said, "; "))
}

func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
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

package tools

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Weights of a word by where it stands. A name and an alias are what callers
// type; an argument's name is a hint.
const (
	weightName        = 4
	weightAlias       = 4
	weightDescription = 2
	weightArgument    = 1
)

// Parameters of BM25: how soon a repeated word counts no more, and how much a
// long declaration is held against it.
const (
	bm25K = 1.2
	bm25B = 0.75
)

// index finds tools by words. All that BM25 multiplies is known when it is
// built, so a look-up only adds whole numbers: the same query has the same
// ranks on every machine, in whatever order its words come.
type index struct {
	terms    map[string]int32
	postings [][]posting
}

// posting is what a word adds to the score of a tool.
type posting struct {
	tool   int32
	impact uint32
}

// manyTools is from how many tools on a word that most of them have counts as a
// stop word. Among few it can still be the only one that the query has.
const manyTools = 256

// impactUnit is a score of 1: with 128 words at most, scores fit 32 bits.
const impactUnit = 1024

func newIndex(defs []*Definition) *index {
	x := &index{terms: map[string]int32{}}
	type weighted struct {
		tool   int32
		weight float64
	}
	var (
		found   [][]weighted
		lengths = make([]float64, len(defs))
		total   float64
	)
	for i, d := range defs {
		weights := map[string]float64{}
		add := func(weight float64, text string) { words(text, func(w string) { weights[w] += weight }) }
		add(weightName, d.Name)
		add(weightDescription, d.Description)
		for _, a := range d.Aliases {
			add(weightAlias, a)
		}
		for _, name := range argumentNames(d) {
			add(weightArgument, name)
		}
		for w, weight := range weights {
			id, ok := x.terms[w]
			if !ok {
				id = int32(len(found))
				x.terms[strings.Clone(w)] = id
				found = append(found, nil)
			}
			found[id] = append(found[id], weighted{int32(i), weight})
			lengths[i] += weight
		}
		total += lengths[i]
	}
	n := float64(len(defs))
	mean := max(total/max(n, 1), 1)
	x.postings = make([][]posting, len(found))
	for id, ws := range found {
		if len(defs) >= manyTools && 2*len(ws) > len(defs) {
			continue // it tells too little apart to be worth its time
		}
		have := float64(len(ws))
		idf := math.Log(1 + (n-have+0.5)/(have+0.5))
		ps := make([]posting, len(ws))
		for j, w := range ws {
			norm := bm25K * (1 - bm25B + bm25B*lengths[w.tool]/mean)
			score := idf * w.weight * (bm25K + 1) / (w.weight + norm)
			ps[j] = posting{w.tool, uint32(max(math.Round(score*impactUnit), 1))}
		}
		x.postings[id] = ps
	}
	return x
}

// argumentNames are those declared, or the top-level properties of a schema.
func argumentNames(d *Definition) []string {
	var names []string
	for _, a := range d.Args {
		names = append(names, a.Name)
	}
	if names != nil || len(d.Schema) == 0 {
		return names
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.Schema, &s) != nil {
		return nil // properties of another shape: there is nothing to find
	}
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// query returns the different words of a query, at most maxQueryWords.
func queryWords(query string, into []string) []string {
	if len(query) > maxQuery {
		cut := maxQuery
		for cut > 0 && !utf8.RuneStart(query[cut]) {
			cut--
		}
		query = query[:cut]
	}
	words(query, func(w string) {
		if len(into) < maxQueryWords && !slices.Contains(into, w) {
			into = append(into, w)
		}
	})
	return into
}

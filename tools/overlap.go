package tools

import (
	"slices"
	"strings"
)

// Overlap is a pair of tools whose descriptions are nearly the same.
type Overlap struct{ A, B string }

const (
	// nearlySame is how many tenths of the words of two descriptions they share.
	nearlySame      = 8
	maxOverlaps     = 10
	maxOverlapTries = 1 << 20
)

// overlapping finds pairs of descriptions that share nearly all their words. Of
// two sets that do, the rarest words of each must meet, so only tools that
// share one of those are compared.
func overlapping(defs []*Definition) []Overlap {
	common := map[string]int{}
	sets := make([][]string, len(defs))
	for i, d := range defs {
		for w := range wordSet(d.Description) {
			sets[i] = append(sets[i], w)
			common[w]++
		}
	}
	var (
		found []Overlap
		tries int
		by    = map[string][]int{} // a rare word → earlier tools that have it among their rarest
	)
	for i, set := range sets {
		slices.SortFunc(set, func(a, b string) int {
			if common[a] != common[b] {
				return common[a] - common[b]
			}
			return strings.Compare(a, b)
		})
		rare := set[:len(set)-(nearlySame*len(set)+9)/10+min(len(set), 1)]
		compared := map[int]bool{}
		for _, w := range rare {
			for _, j := range by[w] {
				if compared[j] {
					continue
				}
				compared[j] = true
				if tries++; tries > maxOverlapTries {
					return found
				}
				if alike(set, sets[j]) {
					if found = append(found, Overlap{defs[j].Name, defs[i].Name}); len(found) == maxOverlaps {
						return found
					}
				}
			}
			by[w] = append(by[w], i)
		}
	}
	return found
}

func alike(a, b []string) bool {
	have := make(map[string]bool, len(a))
	for _, w := range a {
		have[w] = true
	}
	shared := 0
	for _, w := range b {
		if have[w] {
			shared++
		}
	}
	return 10*shared >= nearlySame*(len(a)+len(b)-shared)
}

package fault

import (
	"fmt"
	"os"
	"strings"
)

// A Count says how often a point was reached.
type Count struct {
	Hits  int // times the point was reached
	Fired int // times a rule of it fired
}

// Counts reads a file of hits: point → count, without the points that were
// never reached. A file that does not exist yet holds no hits. A last line
// without its end, torn by a crash, does not count.
func Counts(path string) (map[string]Count, error) {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read fault counts: %w", err)
	}
	counts := map[string]Count{}
	lines := strings.Split(string(b), "\n")
	for i, line := range lines[:len(lines)-1] {
		point, actions, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("read fault counts: %s:%d: %q is not a point and its actions", path, i+1, line)
		}
		c := counts[point]
		c.Hits++
		if actions != "-" {
			c.Fired++
		}
		counts[point] = c
	}
	return counts, nil
}

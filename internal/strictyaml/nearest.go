package strictyaml

// Nearest returns the name that is at most two typing slips away from s, or "",
// as a suggestion.
func Nearest(s string, names []string) string {
	best, at := "", 3
	for _, n := range names {
		if d := distance(s, n); d < at && d < len(n) {
			best, at = n, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

package wire

import (
	"encoding/json"
	"math"
	"strconv"
)

// maxCount is more tokens than anybody is billed for; sums of a few such counts do
// not overflow.
const maxCount = 1 << 60

// Count reads a number of tokens as servers write it, 1.0 included. ok is false for
// what is no such number: half a token, more than 2⁶⁰, a word, null.
func Count(raw json.RawMessage) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > maxCount {
			return 0, false
		}
		n = int64(f)
	}
	return n, -maxCount <= n && n <= maxCount
}

package netguard

import (
	"encoding/json"
	"math/big"
)

// MicroUSD reads what a service says it charged, US dollars as JSON writes
// them, in whole micro-USD; not ok means that it is no price.
func MicroUSD(usd json.Number) (micro int64, ok bool) {
	const longest = 40
	if len(usd) == 0 || len(usd) > longest {
		return 0, false
	}
	f, _, err := big.ParseFloat(usd.String(), 10, 256, big.ToNearestEven)
	if err != nil || f.Sign() < 0 || f.Cmp(big.NewFloat(1e6)) > 0 {
		return 0, false
	}
	f.Mul(f, big.NewFloat(1e6))
	f.Add(f, big.NewFloat(0.5))
	micro, _ = f.Int64()
	return micro, true
}

package model

import "time"

// Bounds of [Backoff] without a wish of the provider.
const (
	BackoffBase = time.Second
	BackoffCap  = 2 * time.Minute
)

// Backoff returns how long to wait after the failed attempt (from 1): between
// half and all of a second, doubled with each attempt, two minutes at most. A
// provider's wish (Retry-After) is never undercut, whatever the cap; up to a
// quarter is added to it, so that many runs told the same moment don't all
// come at it. rnd gives [0, 1); nil means no jitter: the longest wait without
// a wish, the wish itself with one.
func Backoff(attempt int, retryAfter time.Duration, rnd func() float64) time.Duration {
	d := BackoffCap
	if shift := max(attempt, 1) - 1; shift < 7 { // 1s << 7 is over the cap
		d = min(BackoffBase<<shift, BackoffCap)
	}
	if rnd != nil {
		d = d/2 + time.Duration(rnd()*float64(d/2))
	}
	if retryAfter <= 0 {
		return d
	}
	spread := time.Duration(0)
	if rnd != nil {
		spread = time.Duration(rnd() * float64(retryAfter/4))
	}
	if retryAfter+spread < retryAfter { // overflow
		spread = 0
	}
	return max(d, retryAfter+spread)
}

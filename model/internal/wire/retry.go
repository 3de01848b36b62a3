package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait bounds what a provider may wish for: a header with a slip in it must
// not park a run for years.
const maxWait = 24 * time.Hour

// RetryAfter returns how long a provider wants to be left alone: Retry-After-Ms,
// else Retry-After (seconds or a date), else when the limit that is used up
// resets (x-ratelimit-*, anthropic-ratelimit-*). 0 = it does not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if v, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return wait(v / 1000)
	}
	if s := h.Get("Retry-After"); s != "" {
		if v, err := strconv.ParseFloat(s, 64); err == nil {
			return number(v, now)
		}
		if t, err := http.ParseTime(s); err == nil {
			return wait(t.Sub(now).Seconds())
		}
	}
	longest := time.Duration(0)
	for name, vs := range h {
		prefix, what, ok := strings.Cut(strings.ToLower(name), "ratelimit-remaining-")
		if !ok { // anthropic-ratelimit-tokens-remaining
			if what, ok = strings.CutSuffix(strings.ToLower(name), "-remaining"); !ok {
				continue
			}
			prefix = ""
		}
		if left, err := strconv.ParseFloat(vs[0], 64); err != nil || left > 0 {
			continue
		}
		reset := what + "-reset"
		if prefix != "" {
			reset = prefix + "ratelimit-reset-" + what
		}
		longest = max(longest, until(h.Get(reset), now))
	}
	return longest
}

// until reads a reset as providers write it: 1s, 6m0s, 20ms; seconds; a date.
func until(s string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return wait(d.Seconds())
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return number(v, now)
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return wait(t.Sub(now).Seconds())
	}
	return 0
}

// number reads seconds from now. Some servers mean a moment instead, in seconds or
// milliseconds since 1970; one that is past or over [maxWait] away says nothing.
func number(v float64, now time.Time) time.Duration {
	switch {
	case v > 1e12:
		v /= 1000
	case v > 1e9:
	default:
		return wait(v)
	}
	if v -= float64(now.UnixMilli()) / 1000; v > maxWait.Seconds() {
		return 0
	}
	return wait(v)
}

func wait(seconds float64) time.Duration {
	switch {
	case math.IsNaN(seconds) || seconds <= 0:
		return 0
	case seconds >= maxWait.Seconds():
		return maxWait
	}
	return time.Duration(seconds * float64(time.Second))
}

package redact

import (
	"strings"
	"testing"
	"time"
)

// TestHostileText: text that customers write must not take more than linear
// time. The bound is generous; what it guards against takes minutes.
func TestHostileText(t *testing.T) {
	r := newTest(t, random(1, 20, alnum))
	for _, unit := range []string{
		`\`, "[", "&#x", "token=", "token: ", "password=x ", "://", "[REDACTED:", "secret://", "secret://a ", "card ", "-----BEGIN PRIV" + "ATE KEY-----",
		"eyJ", "a:", "%25", "bearer ", "\x1b[", "\x1b]", `\\u0025`, `{"a":`, `"`, "cookie:", "https://a:", "?key=", "1 ", "key ", "sk-", random(1, 7, alnum),
		marker("x", "01234567"), "password=abc1234 secret://a ",
	} {
		text := strings.Repeat(unit, (256<<10)/len(unit))
		start := time.Now()
		r.String(text)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%d times %q: %v", len(text)/len(unit), unit, d)
		} else if d > 200*time.Millisecond {
			t.Logf("%q: %v", unit, d)
		}
	}
}

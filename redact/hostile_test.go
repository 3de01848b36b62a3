package redact

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// spent is how long processors have worked for this process so far. Unlike the
// time of day it says the same on a machine with other things to do.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
		start := spent(t)
		r.String(text)
		if d := spent(t) - start; d > 30*time.Second {
			t.Errorf("%d times %q: %v", len(text)/len(unit), unit, d)
		} else if d > 200*time.Millisecond {
			t.Logf("%q: %v", unit, d)
		}
	}
}

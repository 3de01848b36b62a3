package redact

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// What a redactor would take out is found, and what it has taken out is not.
func TestFind(t *testing.T) {
	secret := random(70, 24, lowers)
	r := newTest(t, secret)
	for name, text := range map[string]string{
		"plain":            "a " + secret + " b",
		"between bytes":    "\x00\xff" + secret + "\x00",
		"base64":           base64.StdEncoding.EncodeToString([]byte("ab" + secret + "c")),
		"in JSON":          `{"a":["` + secret + `"]}`,
		"in JSON as bytes": `{"a":"` + base64.StdEncoding.EncodeToString([]byte(`{"x":"`+secret+`"}`)) + `"}`,
	} {
		if got := r.Find(text); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
		if got := r.FindByRules(text); len(got) != 1 {
			t.Errorf("%s by rules: %v", name, got)
		}
		clean := r.String(text)
		if got := append(r.Find(clean), r.FindByRules(clean)...); len(got) != 0 {
			t.Errorf("%s redacted: %v in %s", name, got, clean)
		}
	}
	key := strings.Join([]string{"sk", "live", random(71, 24, lowers) + "1"}, "_")
	if got := r.Find(key); len(got) != 0 {
		t.Errorf("it is registered: %v", got)
	}
	if got := r.FindByRules("it is " + key); !slices.ContainsFunc(got, func(f Found) bool { return f.Name == "api_key" && len(f.Fingerprint) == fingerprintLen }) {
		t.Errorf("by rules: %v", got)
	}
}

package redact_test

import (
	"regexp"
	"testing"

	"github.com/daybookhq/daybook/redact"
)

var fingerprint = regexp.MustCompile(`\[REDACTED:[^:\]]+:([0-9a-f]{8})\]`)

func printOf(t *testing.T, r *redact.Redactor, text string) string {
	t.Helper()
	m := fingerprint.FindStringSubmatch(r.String(text))
	if m == nil {
		t.Fatalf("no marker in %q", r.String(text))
	}
	return m[1]
}

func TestFingerprintsAreATenantsOwn(t *testing.T) {
	base := redact.New(redact.Config{TenantKey: []byte("base")})
	a, again, b := base.ForTenant([]byte("a")), base.ForTenant([]byte("a")), base.ForTenant([]byte("b")).ForTenant([]byte("b"))
	if err := a.Register("token", "correct-horse-battery"); err != nil { // after the views were made, through one of them
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a registered secret": "it is correct-horse-battery, keep it",
		"a pattern":           "the key is ghp_16C7e42F292c6912E7710c838347Ae178B4a ok",
		"a key name":          `{"password":"hunter2hunter2"}`,
	} {
		if printOf(t, a, text) != printOf(t, again, text) {
			t.Errorf("%s: one tenant has two fingerprints", name)
		}
		if printOf(t, a, text) == printOf(t, b, text) || printOf(t, a, text) == printOf(t, base, text) {
			t.Errorf("%s: two tenants have one fingerprint", name)
		}
	}
	if redact.New(redact.Config{TenantKey: []byte("a")}).ForTenant([]byte("b")).String("x") != "x" {
		t.Error("plain text changed")
	}
}

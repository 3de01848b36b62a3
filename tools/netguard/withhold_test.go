package netguard_test

import (
	"testing"

	"github.com/daybookhq/daybook/tools/netguard"
)

func TestWithhold(t *testing.T) {
	c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Headers: []netguard.Header{
		{Host: "a.example.com", Name: "Authorization", Value: "Bearer abc/d+f=="},
		{Host: "b.example.com", Name: "X-Key", Value: "abc/d+f==more"},
		{Host: "b.example.com", Name: "X-Quoted", Value: `k"<e>y`},
		{Host: "b.example.com", Name: "X-Version", Value: "2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"version 2 of a Bear":                        "version 2 of a Bear",
		"Authorization: Bearer abc/d+f==":            "Authorization: [withheld]",
		"token abc/d+f==":                            "token [withheld]",
		"key abc/d+f==more":                          "key [withheld]", // and not only its beginning
		`{"token":"abc\/d+f=="}`:                     `{"token":"[withheld]"}`,
		`{"k":"k\"\u003ce\u003ey"} k"<e>y`:           `{"k":"[withheld]"} [withheld]`,
		"https://b.example.com/?t=abc%2Fd%2Bf%3D%3D": "https://b.example.com/?t=[withheld]",
		"https://b.example.com/abc%2Fd+f==":          "https://b.example.com/[withheld]",
	} {
		if got := c.Withhold(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	pinned, err := netguard.Pinned("http://search:8080", netguard.Limits{}, netguard.Net{})
	if err != nil || pinned.Withhold("text") != "text" {
		t.Errorf("without headers: %v", err)
	}
}

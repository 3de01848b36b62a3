package netguard

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/redact"
)

// Withheld is what stands in an answer where a credential stood.
const Withheld = "[withheld]"

// Withhold takes the client's credentials out of a text that a host sent: one
// that echoes what it was asked would hand them to the model. They are the values
// of its headers, and the words in these, in every encoding that package redact
// knows. Answers and errors of the client have been through it; what is made of
// a body by decoding, unpacking or parsing has not. A host that means to give
// credentials away finds a form that is not known here.
func (c *Client) Withhold(text string) string { return c.withheld.Replace(text, Withheld) }

// Credentials are what of the value of a header is not to be seen again: the
// value, its words, the values in it (a=b), and what is in the base64 of Basic
// authentication. Words under [redact.MinValue] bytes are no secret. Of headers that
// many send alike, such as Accept, there are none.
func Credentials(name, value string) []string {
	switch name = http.CanonicalHeaderKey(name); {
	case name == "User-Agent", name == "Content-Type", name == "Accept", strings.HasPrefix(name, "Accept-"):
		return nil // what many say
	}
	all := []string{value}
	words := strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ';' })
	for i, w := range words {
		if i == 0 && len(words) > 1 && isScheme(w) {
			continue
		}
		all = append(all, w)
		if _, v, ok := strings.Cut(w, "="); ok && strings.Trim(v, `="`) != "" { // not the end of base64
			all = append(all, strings.Trim(v, `"`))
		}
		if i == 1 && strings.EqualFold(words[0], "Basic") {
			b, err := base64.StdEncoding.DecodeString(w)
			if err == nil && utf8.Valid(b) {
				_, password, _ := strings.Cut(string(b), ":")
				all = append(all, string(b), password)
			}
		}
	}
	return all
}

// isScheme reports whether a word may be that of an authentication, such as
// Bearer: letters and hyphens alone, and few.
func isScheme(w string) bool {
	for _, c := range []byte(w) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' {
			return false
		}
	}
	return len(w) <= 16
}

// withhold sets what the client does not show.
func (c *Client) withhold(values []string) { c.withheld = redact.NewValues(values...) }

// clean takes the credentials out of an answer.
func (c *Client) clean(r *Response) *Response {
	r.URL, r.Location, r.ContentType, r.Charset = c.Withhold(r.URL), c.Withhold(r.Location), c.Withhold(r.ContentType), c.Withhold(r.Charset)
	if body := string(r.Body); len(body) > 0 {
		if kept := c.Withhold(body); kept != body {
			r.Body = []byte(kept)
		}
	}
	return r
}

// hide takes the credentials out of an error: a host may redirect to one that has
// them in its name.
func (c *Client) hide(e *Error) *Error {
	e.text, e.Host = c.Withhold(e.text), c.Withhold(e.Host)
	return e
}

package netguardtest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// Canary is a credential for tests, of which each encoding differs from the others.
const Canary = `ca/na+ry_7f"3e&5d==`

// Echoes are a credential as a host may send it back: by the name of an encoding,
// the text.
func Echoes(credential string) map[string]string {
	b64 := func(e *base64.Encoding, before, after string) string {
		return e.EncodeToString([]byte(before + credential + after))
	}
	quoted, _ := json.Marshal(credential) // of a string: no error
	percent := strings.Builder{}
	for _, b := range []byte(credential) {
		fmt.Fprintf(&percent, "%%%02x", b)
	}
	return map[string]string{
		"as it is": credential, "lower case": strings.ToLower(credential), "upper case": strings.ToUpper(credential),
		"JSON": string(quoted[1 : len(quoted)-1]), "HTML": html.EscapeString(credential),
		"query": url.QueryEscape(credential), "path": url.PathEscape(credential), "percent": percent.String(),
		"hex": hex.EncodeToString([]byte(credential)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(credential))),
		"base64": b64(base64.StdEncoding, "", ""), "base64 of URLs": b64(base64.RawURLEncoding, "", ""),
		"base64 after one byte": b64(base64.StdEncoding, "u", "tail"), "base64 after two": b64(base64.StdEncoding, "us", "t"),
		"Basic": "Basic " + b64(base64.StdEncoding, "user:", ""), "base64 of the header": b64(base64.StdEncoding, "Bearer ", "\r\n"),
		"base64 in a query": url.QueryEscape(b64(base64.StdEncoding, "", "")),
	}
}

// Leaks names the encodings of a credential that stand in what is left the
// process by: as text, or inside JSON.
func Leaks(credential, text string) (found []string) {
	for name, form := range Echoes(credential) {
		for name, f := range map[string]string{name: core(form), name + " in JSON": inJSON(core(form))} {
			if strings.Contains(text, f) {
				found = append(found, name)
			}
		}
	}
	return found
}

// core is what of a form depends on the credential alone: the ends of base64 may
// belong to its neighbours.
func core(form string) string {
	form = strings.TrimPrefix(form, "Basic ")
	if len(form) > 24 {
		return form[len(form)/4 : len(form)-len(form)/4]
	}
	return form
}

func inJSON(s string) string {
	b, _ := json.Marshal(s) // of a string: no error
	return string(b[1 : len(b)-1])
}

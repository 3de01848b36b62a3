package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

func wide(s string, big bool) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	return string(b)
}

func jsonQuote(s string, escapeHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func wrap(s, with string, n int) string {
	var b strings.Builder
	for i := 0; i < len(s); i += n {
		b.WriteString(s[i:min(len(s), i+n)])
		b.WriteString(with)
	}
	return b.String()
}

func each(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// encodings are the forms of §6.3.2 in the security notes, and some more.
func encodings() map[string]func(string) string {
	b64 := func(e *base64.Encoding, before, after string) func(string) string {
		return func(s string) string { return e.EncodeToString([]byte(before + s + after)) }
	}
	return map[string]func(string) string{
		"raw":           func(s string) string { return s },
		"percent form":  url.QueryEscape,
		"percent path":  url.PathEscape,
		"percent lower": func(s string) string { return each(s, "%%%02x") },
		"percent upper": func(s string) string { return each(s, "%%%02X") },
		"percent twice": func(s string) string { return url.PathEscape(url.PathEscape(s)) },
		"json go":       func(s string) string { return jsonQuote(s, true) },
		"json strict":   func(s string) string { return jsonQuote(s, false) },
		"json in json":  func(s string) string { return jsonQuote(jsonQuote(s, true), false) },
		"json 4 deep":   func(s string) string { return jsonQuote(jsonQuote(jsonQuote(jsonQuote(s, true), true), true), true) },
		"html":          html.EscapeString,
		"html hex": func(s string) string {
			var b strings.Builder
			for _, r := range s {
				fmt.Fprintf(&b, "&#x%x;", r)
			}
			return b.String()
		},
		"base64 0":          b64(base64.StdEncoding, "", ""),
		"base64 1":          b64(base64.StdEncoding, "u", "tail"),
		"base64 2":          b64(base64.StdEncoding, "us", "t"),
		"base64 basic":      b64(base64.StdEncoding, "user:", ""),
		"base64 url":        b64(base64.URLEncoding, "", ""),
		"base64 raw url 1":  b64(base64.RawURLEncoding, "x", "y"),
		"base64 raw url 2":  b64(base64.RawURLEncoding, "xx", "yyy"),
		"base64 wrapped":    func(s string) string { return wrap(b64(base64.StdEncoding, "u", "")(s), "\r\n", 5) },
		"base64 in percent": func(s string) string { return url.QueryEscape(b64(base64.StdEncoding, "", "")(s)) },
		"base64 utf16":      func(s string) string { return b64(base64.StdEncoding, "", "")(wide(s, false)) },
		"base64 utf16 1":    func(s string) string { return b64(base64.StdEncoding, "u\x00", "")(wide(s, false)) },
		"hex lower":         func(s string) string { return hex.EncodeToString([]byte(s)) },
		"hex upper":         func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"hex spaced":        func(s string) string { return each(s, "%02x ") },
		"hex escaped":       func(s string) string { return each(s, `\x%02x`) },
		"%q":                strconv.Quote,
		"%+q":               strconv.QuoteToASCII,
		"byte slice %v":     func(s string) string { return fmt.Sprint([]byte(s)) },
		"byte slice %#v":    func(s string) string { return fmt.Sprintf("%#v", []byte(s)) },
		"shell":             func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		"shell python":      func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" },
		"sql":               func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
		"csv":               func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` },
		"ansi":              func(s string) string { return wrap(s, "\x1b[0m\x1b[31m", 3) },
		"zero width":        func(s string) string { return wrap(s, "\u200b", 4) },
		"wrapped":           func(s string) string { return wrap(s, "\n    ", 6) },
		"utf16 little":      func(s string) string { return wide(s, false) },
		"utf16 in json":     func(s string) string { return jsonQuote(wide(s, false), true) },
		"newlines as \\n":   func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) },
	}
}

// asciiOnly are the encodings that are promised for ASCII secrets only.
func asciiOnly(name string) bool {
	return strings.Contains(name, "utf16") || name == "zero width" || name == "ansi" || name == "wrapped"
}

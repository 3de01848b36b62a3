package redact

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"strings"
)

// isGitHubToken checks the six base62 digits at the end, a CRC-32 of what
// stands before them. Which digits come first has never been documented, so
// each order is tried.
func isGitHubToken(s string) bool {
	prefix, body := s[:4], s[4:]
	random, sum := body[:len(body)-6], body[len(body)-6:]
	const digits, upper, lower = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
	for _, alphabet := range [...]string{digits + upper + lower, digits + lower + upper} {
		for _, data := range [...]string{random, prefix + random} {
			if base62(crc32.ChecksumIEEE([]byte(data)), alphabet) == sum {
				return true
			}
		}
	}
	return false
}

// base62 writes v with six digits.
func base62(v uint32, alphabet string) string {
	var b [6]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = alphabet[v%62]
		v /= 62
	}
	return string(b[:])
}

// isJWT reports whether the first part is a JOSE header.
func isJWT(s string) bool {
	head, _, _ := strings.Cut(s, ".")
	data, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return false
	}
	var h struct {
		Algorithm string `json:"alg"`
	}
	return json.Unmarshal(data, &h) == nil && h.Algorithm != ""
}

// isNkeySeed checks the CRC-16 of a NATS seed.
func isNkeySeed(s string) bool {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s)
	if err != nil || len(raw) != 36 {
		return false
	}
	crc := uint16(0)
	for _, b := range raw[:34] {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return binary.LittleEndian.Uint16(raw[34:]) == crc
}

// isCard reports whether s is 13 to 19 digits, perhaps grouped, with a right
// check digit.
func isCard(s string) bool {
	sum, n, first := 0, 0, byte(0)
	same := true
	for i := len(s) - 1; i >= 0; i-- {
		c := s[i]
		if c == ' ' || c == '-' {
			continue
		}
		if !isDigit(c) {
			return false
		}
		same = same && (n == 0 || c == first)
		first = c
		d := int(c - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return n >= 13 && n <= 19 && sum%10 == 0 && !same && '2' <= first && first <= '6'
}

// isULID reports whether s is 26 digits of Crockford's base 32.
func isULID(s string) bool {
	if len(s) != 26 || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && (!isUpper(c) || c == 'I' || c == 'L' || c == 'O' || c == 'U') {
			return false
		}
	}
	return true
}

// isIdentifier reports whether s has the looks of something public: a UUID, a
// hash, a ULID (perhaps with a prefix), a number, a time, a version.
func isIdentifier(s string) bool {
	if i := strings.LastIndexAny(s, "_:/."); i >= 0 && isULID(s[i+1:]) || isULID(s) {
		return true
	}
	for _, prefix := range [...]string{"sha1", "sha256", "sha384", "sha512", "md5", "h1"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok && rest != "" && strings.IndexByte(":-=", rest[0]) >= 0 {
			return true
		}
	}
	hex := true
	for i := range len(s) {
		c := s[i] | 0x20
		if !isDigit(s[i]) && (c < 'a' || c > 'f') && strings.IndexByte("-:.+ tTzZ", s[i]) < 0 {
			hex = false
			break
		}
	}
	return hex
}

// isPlaceholder reports whether s stands for a value instead of being one.
func isPlaceholder(s string) bool {
	low := strings.ToLower(s)
	for _, w := range [...]string{
		"example", "placeholder", "changeme", "change-me", "change_me", "your-", "your_", "yourapi", "yourtoken",
		"dummy", "redacted", "****", "....", "xxxx", "${", "{{", "<", "insert", "todo",
	} {
		if strings.Contains(low, w) {
			return true
		}
	}
	switch low {
	case "", "null", "nil", "none", "undefined", "true", "false", "string", "required", "secret", "password", "token", "secret:":
		return true
	}
	if s[0] == '$' && len(s) > 1 && strings.Trim(s[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789()") == "" {
		return true
	}
	return s[0] == '%' && s[len(s)-1] == '%' || strings.Count(s, s[:1]) == len(s)
}

// isRandom reports whether s is one word that looks drawn at random: 20 to 200
// characters of the alphabets of tokens, with digits and letters, and more
// entropy than words, paths and public identifiers have.
func isRandom(s string) bool {
	if len(s) < 20 || len(s) > 200 || isIdentifier(s) || isPlaceholder(s) {
		return false
	}
	var count [256]int
	digits, upper, lower, marks := 0, 0, 0, 0
	for i := range len(s) {
		c := s[i]
		count[c]++
		switch {
		case isDigit(c):
			digits++
		case isUpper(c):
			upper++
		case isLower(c):
			lower++
		case strings.IndexByte("+/=_-.~", c) >= 0:
			marks++
		default:
			return false
		}
	}
	if digits == 0 || upper+lower == 0 || marks*5 > len(s) {
		return false
	}
	h := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			h -= p * math.Log2(p)
		}
	}
	if upper > 0 && lower > 0 {
		return h >= 3.6 && digits+upper >= 4
	}
	// One case only: names with a version are like that, so more digits.
	return h >= 3.4 && digits*6 >= len(s) && marks*10 <= len(s)
}

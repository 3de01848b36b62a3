package redact

import (
	"maps"
	"strings"
	"sync/atomic"
)

// keyNames is a set of key names in compact form: lower case, no separators.
type keyNames map[string]struct{}

// maxKeyWords is how many words at the end of a key are looked up together.
const maxKeyWords = 4

func newKeyNames(extra []string) keyNames {
	names := keyNames{}
	for _, n := range []string{
		"password", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets",
		"authorization", "cookie", "cookies", "set cookie", "credential", "credentials",
		"api key", "api keys", "api secret", "api token", "access key", "secret key", "private key",
		"signing key", "encryption key", "master key", "account key", "shared access key", "ssh key",
		"access token", "refresh token", "id token", "auth token", "bearer token", "session token",
		"csrf token", "xsrf token", "bot token", "oauth token", "security token", "github token",
		"gitlab token", "slack token", "npm token", "vault token", "jwt", "client secret",
		"connection string", "cvv", "cvc", "otp", "totp", "mfa code",
	} {
		names.add(n)
	}
	for _, n := range extra {
		names.add(n)
	}
	return names
}

func (k keyNames) add(name string) {
	var b [64]byte
	if compact, _ := compactKey(name, &b); compact != "" {
		k[compact] = struct{}{}
	}
}

// denied reports whether the values of key are secret by its name: its last
// one to four words, taken together, are in the set. "max_tokens" and
// "client_key" end in no such word.
func (k keyNames) denied(key string) bool {
	if len(key) < 3 {
		return false
	}
	var b [64]byte
	compact, starts := compactKey(key, &b)
	for _, at := range starts {
		if at < 0 {
			break
		}
		if _, ok := k[compact[at:]]; ok {
			return true
		}
	}
	return false
}

// keyRules judges keys. It remembers its verdicts: the keys of events are few
// and come again and again. It is safe for concurrent use.
type keyRules struct {
	names keyNames
	seen  atomic.Pointer[map[string]keyVerdict] // the map is never modified
}

type keyVerdict struct {
	denied bool
	hint   keyHint
}

// maxSeen bounds the verdicts that are remembered, and maxSeenKey their keys.
const (
	maxSeen    = 512
	maxSeenKey = 40
)

// judge returns what key says about its values. A key in which there is a
// secret must not be remembered.
func (k *keyRules) judge(key string, remember bool) keyVerdict {
	seen := k.seen.Load()
	if seen != nil {
		if v, ok := (*seen)[key]; ok {
			return v
		}
	}
	v := keyVerdict{k.names.denied(key), hintOf(key)}
	if remember && len(key) <= maxSeenKey && (seen == nil || len(*seen) < maxSeen) {
		grown := map[string]keyVerdict{strings.Clone(key): v}
		if seen != nil {
			maps.Copy(grown, *seen)
		}
		k.seen.CompareAndSwap(seen, &grown) // lost a race: another time
	}
	return v
}

// compactKey returns the last 64 letters and digits of key in lower case, and
// where its last words begin in that, the last one first; -1 ends the list. A
// word ends at a separator and before a capital letter, but APIKey is two.
func compactKey(key string, buf *[64]byte) (compact string, starts [maxKeyWords]int) {
	at, words := len(buf), 0
	for w := range starts {
		starts[w] = -1
	}
	mark := func() {
		if words < maxKeyWords && at < len(buf) && (words == 0 || starts[words-1] != at) {
			starts[words] = at
			words++
		}
	}
	for i := len(key) - 1; i >= 0 && at > 0; i-- {
		c := key[i]
		if !isAlnum(c) && c < 0x80 {
			mark()
			continue
		}
		at--
		buf[at] = c
		if !isUpper(c) {
			continue
		}
		buf[at] = c | 0x20
		nextLower := i+1 < len(key) && isLower(key[i+1])
		prevUpper := i > 0 && isUpper(key[i-1])
		if nextLower || !prevUpper {
			mark()
		}
	}
	mark()
	for w := range words {
		starts[w] -= at
	}
	return string(buf[at:]), starts
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// keyHint is what a key says about its values short of making them secret.
type keyHint uint8

const (
	noHint     keyHint = iota
	tokenHint          // the key is "token": an attempt's ULID, or a credential
	secretHint         // a random-looking value is a credential
	cardHint           // digits with a right check digit are a card number
)

func hintOf(key string) keyHint {
	if len(key) < 3 || len(key) > 64 {
		return noHint
	}
	var b [64]byte
	compact, _ := compactKey(key, &b)
	if compact == "token" {
		return tokenHint
	}
	for _, w := range [...]string{"apikey", "secret", "apitoken", "authtoken", "accesstoken", "accesskey", "credential", "passw", "bearer", "privatekey"} {
		if strings.Contains(compact, w) {
			return secretHint
		}
	}
	if strings.Contains(compact, "card") || compact == "pan" {
		return cardHint
	}
	return noHint
}

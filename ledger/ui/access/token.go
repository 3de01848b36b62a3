package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
)

// Prefix begins every token, so that scanners for secrets, and our own redactor,
// know one wherever it turns up.
const Prefix = "dbk_"

const (
	secretLen = 32 // bytes: nobody guesses 256 random bits, so a plain hash is enough at rest
	tokenLen  = len(Prefix) + 2*secretLen + 8
	maxName   = 64
)

// secret is what a token looks like: its bits and their CRC-32, which tells a
// mistyped one from one that is not known.
type secret string

// newSecret makes a token from r.
func newSecret(r io.Reader) (secret, error) {
	b := make([]byte, secretLen)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return secret(Prefix + hex.EncodeToString(b) + checksum(b)), nil
}

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)) }

// hash is what is kept of it; false if s is no token.
func (s secret) hash() (events.Hash, bool) {
	if len(s) != tokenLen || !strings.HasPrefix(string(s), Prefix) {
		return events.Hash{}, false
	}
	b, err := hex.DecodeString(string(s[len(Prefix) : tokenLen-8]))
	if err != nil || checksum(b) != string(s[tokenLen-8:]) {
		return events.Hash{}, false
	}
	return sha256.Sum256([]byte(s)), true
}

// like finds what looks like a token in a text, whole or cut.
var like = regexp.MustCompile(`(?i)dbk_[0-9a-f]{16,}`)

// Token is what the tokens file keeps of one: never the token itself.
type Token struct {
	Name   string
	Scopes []Scope
	// Tenant and Owner bound what it sees; empty is all. An owner is one of a tenant.
	Tenant, Owner string
	Hash          events.Hash // SHA-256 of the token
	Created       time.Time
	Expires       time.Time
	Revoked       time.Time // zero = it is not
}

// ID is how people and the record name the token: the first 12 digits of its
// hash, so that whoever finds a token can tell which one it is.
func (t Token) ID() string { return hex.EncodeToString(t.Hash[:6]) }

// Live reports whether the token is good at a moment.
func (t Token) Live(now time.Time) bool { return t.Revoked.IsZero() && now.Before(t.Expires) }

func (t Token) principal() Principal {
	return Principal{Name: t.Name, Scopes: slices.Clone(t.Scopes), Tenant: t.Tenant, Owner: t.Owner, Token: t.ID()}
}

// Grant is what a new token is for.
type Grant struct {
	Name          string
	Scopes        []Scope
	Tenant, Owner string
	// Life is how long it is good; zero means [DefaultLife], at most [MaxLife].
	Life time.Duration
}

// How long tokens are good.
const (
	DefaultLife = 90 * 24 * time.Hour
	MaxLife     = 366 * 24 * time.Hour
)

// ErrGrant: a token cannot be like that; the text says what to change.
var ErrGrant = errors.New("no such token can be made")

// New makes a token at a moment. The text is the token: show it once, keep it nowhere.
func (g Grant) New(now time.Time, random io.Reader) (text string, t Token, err error) {
	if g.Life == 0 {
		g.Life = DefaultLife
	}
	if g.Life < 0 || g.Life > MaxLife {
		return "", t, fmt.Errorf("%w: a life of %s; between 0 and %s", ErrGrant, g.Life, MaxLife)
	}
	if random == nil {
		random = rand.Reader
	}
	s, err := newSecret(random)
	if err != nil {
		return "", t, err
	}
	h, _ := s.hash()
	t = Token{
		Name: g.Name, Scopes: normal(g.Scopes), Tenant: g.Tenant, Owner: g.Owner,
		Hash: h, Created: now.UTC().Truncate(time.Second),
	}
	t.Expires = t.Created.Add(g.Life)
	if says := t.faults(); len(says) > 0 {
		texts := make([]string, len(says))
		for i, f := range says {
			texts[i] = f.field + ": " + f.text
		}
		return "", t, fmt.Errorf("%w: %s", ErrGrant, strings.Join(texts, "; "))
	}
	return string(s), t, nil
}

// normal puts scopes in their order, each once.
func normal(ss []Scope) []Scope {
	var out []Scope
	for _, s := range Scopes() {
		if slices.Contains(ss, s) {
			out = append(out, s)
		}
	}
	for _, s := range ss {
		if !slices.Contains(Scopes(), s) {
			out = append(out, s) // faults names it
		}
	}
	return out
}

type tokenFault struct{ field, text string }

// faults says what is wrong with a token, whoever wrote it.
func (t Token) faults() (fs []tokenFault) {
	add := func(field, format string, args ...any) {
		fs = append(fs, tokenFault{field, fmt.Sprintf(format, args...)})
	}
	if !ValidName(t.Name) {
		add("name", "want 1 to %d letters, digits, spaces and . @ _ + - : /, which is who the record names", maxName)
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Scopes(), s) {
			add("scopes", "there is no scope %q: read, resolve, approve", s)
		}
	}
	if !slices.Contains(t.Scopes, Read) {
		add("scopes", "read is missing: nobody can decide about what they cannot see")
	}
	if t.Tenant != "" && !events.ValidName(t.Tenant) {
		add("tenant", "want 1 to 64 letters, digits, _ and -, or nothing for all tenants")
	}
	if t.Owner != "" && t.Tenant == "" {
		add("owner", "an owner is one of a tenant: name the tenant too")
	}
	if len(t.Owner) > 256 || !utf8.ValidString(t.Owner) || strings.ContainsFunc(t.Owner, unicode.IsControl) {
		add("owner", "want at most 256 bytes, none of them a control character")
	}
	if !t.Expires.After(t.Created) || t.Expires.Sub(t.Created) > MaxLife {
		add("expires", "want a time after created, by %s at most", MaxLife)
	}
	return fs
}

// ValidName reports whether a token may be called so. The record adds in
// brackets what was proved, so a name has no brackets, quotes or line ends.
func ValidName(s string) bool {
	if s == "" || utf8.RuneCountInString(s) > maxName || strings.TrimSpace(s) != s {
		return false
	}
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" .@_+-:/", r) {
			return false
		}
	}
	return true
}

// same compares in a time that does not depend on where two hashes differ.
func same(a, b events.Hash) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

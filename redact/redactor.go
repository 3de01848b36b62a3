// Package redact is the gate that everything leaving the process goes through:
// it replaces secrets in JSON, text, errors and logs by markers of the form
// [REDACTED:name:fingerprint].
//
// Three tiers work together: values that were registered, in every common
// encoding; patterns of well-known credentials; and names of keys whose values
// are secret whatever they look like. What a model spells out backwards or in
// a code of its own cannot be found; that is why secrets reach tools only as
// handles (see [Vault]).
package redact

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Config says how a [Redactor] works. The zero value is usable.
type Config struct {
	// TenantKey is the HMAC key of the fingerprints in markers: with the same
	// key, the same secret has the same fingerprint in every process. Nil
	// means a random key per Redactor. The bytes are copied by New.
	TenantKey []byte
	// KeyNames are further key names whose values are redacted at any depth.
	// Case and separators don't count, and a name also stands for longer keys
	// that end in it: "pin" is found in "cardPin" and "card-pin".
	KeyNames []string
}

// A Redactor replaces secrets by markers. It is safe for concurrent use, and a
// copy shares everything with the original. Make one with [New].
type Redactor struct {
	// A function, because fmt follows even an unexported pointer if the verb
	// doesn't fit its type.
	state func() *state
}

// state is what a Redactor knows.
type state struct {
	base *state // of a view: what it looks at; see ForTenant

	key       []byte
	keys      *keyRules
	detectors []detector

	current atomic.Pointer[matcher] // nil after a registration

	mu      sync.Mutex
	known   map[string]bool // values
	names   map[string]bool // under which values were registered
	secrets []secret
	forms   []form
}

// New returns a Redactor that knows the detectors and key names, but no
// registered secret.
func New(cfg Config) *Redactor {
	key := slices.Clone(cfg.TenantKey)
	if key == nil {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
	}
	s := &state{
		key:       key,
		keys:      &keyRules{names: newKeyNames(cfg.KeyNames)},
		detectors: detectors(),
		known:     map[string]bool{},
		names:     map[string]bool{},
	}
	return &Redactor{func() *state { return s }}
}

// SecretError is returned for a value that cannot be registered because
// looking for it would redact ordinary text. It does not contain the value.
type SecretError struct {
	Name   string
	Reason string
}

func (e *SecretError) Error() string { return fmt.Sprintf("register secret %q: %s", e.Name, e.Reason) }

// Register makes value known under name, which is shown in its markers. The
// strings inside a value that is a JSON object or array are registered too. An
// empty value is ignored. A value of fewer than 8 bytes, white space not
// counted, or one that is part of the syntax of markers and handles, is
// refused with a [*SecretError]. A value that is known keeps its first name.
func (r *Redactor) Register(name, value string) error {
	if value == "" {
		return nil
	}
	if reason := unfit(value); reason != "" {
		return &SecretError{name, reason}
	}
	shown := markerName(name)
	if strings.Contains(shown, markerName(value)) {
		shown = "secret"
	}
	s := r.state()
	if s.base != nil {
		s = s.base
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = true
	s.add(shown, value)
	for _, leaf := range leaves(value) {
		if unfit(leaf) == "" {
			s.add(shown, leaf)
		}
	}
	s.current.Store(nil)
	return nil
}

// unfit says why value cannot be looked for; it is empty if it can.
func unfit(value string) (reason string) {
	tight := squeeze(value)
	if len(tight) < minSecret {
		return fmt.Sprintf("shorter than %d bytes", minSecret)
	}
	for _, syntax := range []string{markerOpen, handleScheme, circular} {
		if strings.Contains(syntax, tight) || strings.Contains(tight, syntax) {
			return fmt.Sprintf("collides with the syntax %q", syntax)
		}
	}
	return ""
}

func (s *state) add(name, value string) {
	if s.known[value] {
		return
	}
	s.known[value] = true
	id := len(s.secrets)
	s.secrets = append(s.secrets, secret{name, fingerprint(s.key, value), value})
	s.forms = append(s.forms, forms(id, value, minSecret)...)
}

// matcher returns the matcher for what is registered now. It is built on the
// first use after a registration.
func (s *state) matcher() *matcher {
	if s.base != nil {
		return s.view()
	}
	if m := s.current.Load(); m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.current.Load(); m != nil {
		return m
	}
	m := &matcher{
		tenantKey: s.key,
		keys:      s.keys,
		detectors: s.detectors,
		names:     maps.Clone(s.names),
	}
	m.build(slices.Clone(s.forms), slices.Clone(s.secrets))
	s.current.Store(m)
	return m
}

// String redacts free text: log lines, error texts, command output. Text that
// is a JSON object or array is redacted as such.
func (r *Redactor) String(s string) string { return r.state().matcher().text(s, textOptions{}) }

// Format writes the name of the type, whatever the verb.
func (r *Redactor) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redact.Redactor") }

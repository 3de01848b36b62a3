package redact

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Vault holds the values behind secret://name handles. Models, events and
// tables see only handles; the runtime resolves them when it calls a tool. It
// is safe for concurrent use. No formatting verb, logger or encoder shows a
// value. Make one with [NewVault].
type Vault struct{ v *vault }

type vault struct {
	r      *Redactor
	mu     sync.RWMutex
	values map[string]func() string // a function: reflection cannot print it
}

// NewVault returns an empty vault whose values r will redact.
func NewVault(r *Redactor) *Vault {
	return &Vault{&vault{r: r, values: map[string]func() string{}}}
}

// UnknownSecretError is returned for a handle that has no value.
type UnknownSecretError struct {
	Name string // without secret://
}

func (e UnknownSecretError) Error() string {
	return fmt.Sprintf("unknown secret %q", handleScheme+e.Name)
}

// Set gives name a value, or a new one, and registers the value with the
// redactor, whose errors it returns. A name is letters, digits, ".", "_" and
// "-", and ends in a letter or digit. An empty value is ignored, so that the
// handle stays unknown.
func (v *Vault) Set(name, value string) error {
	handle := handleScheme + name
	if start, end := nextHandle(handle, 0); start != 0 || end != len(handle) || len(name) > maxName {
		return &SecretError{name, "not a name for a handle"}
	}
	if value == "" {
		return nil
	}
	if err := v.v.r.Register(name, value); err != nil {
		return err
	}
	v.v.mu.Lock()
	defer v.v.mu.Unlock()
	v.v.values[name] = func() string { return value }
	return nil
}

// Names returns the names that have a value, sorted.
func (v *Vault) Names() []string {
	v.v.mu.RLock()
	defer v.v.mu.RUnlock()
	return slices.Sorted(maps.Keys(v.v.values))
}

// Resolve returns raw, a JSON value, with every handle in its strings and keys
// replaced by its value. Values are not searched for handles. The result must
// go to a tool and nowhere else. It returns an [UnknownSecretError] for a
// handle without a value. raw is not modified; without handles, it is returned.
func (v *Vault) Resolve(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, fmt.Errorf("resolve secrets: not valid JSON")
	}
	var out []byte
	last := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end++
		var s string
		if err := json.Unmarshal(raw[i:end], &s); err != nil {
			return nil, fmt.Errorf("resolve secrets: %w", v.v.r.Error(err))
		}
		t, err := v.v.resolve(s)
		if err != nil {
			return nil, fmt.Errorf("resolve secrets: %w", err)
		}
		if t != s {
			quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(t, "\ufffd"))
			if err != nil {
				return nil, fmt.Errorf("resolve secrets: %w", v.v.r.Error(err))
			}
			out = append(append(out, raw[last:i]...), quoted...)
			last = end
		}
		i = end - 1
	}
	if last == 0 {
		return raw, nil
	}
	return append(out, raw[last:]...), nil
}

func (v *vault) resolve(s string) (string, error) {
	start, end := nextHandle(s, 0)
	if start < 0 {
		return s, nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	var b strings.Builder
	last := 0
	for start >= 0 {
		name := s[start+len(handleScheme) : end]
		value, ok := v.values[name]
		if !ok {
			return "", UnknownSecretError{Name: name}
		}
		b.WriteString(s[last:start])
		b.WriteString(value())
		last = end
		start, end = nextHandle(s, end)
	}
	b.WriteString(s[last:])
	return b.String(), nil
}

// Format writes the name of the type, whatever the verb.
func (v *Vault) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redact.Vault") }

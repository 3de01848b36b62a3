package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/netguard"
)

// handleRule is a handle as a [redact.Vault] reads it.
var handleRule = regexp.MustCompile(handleMark + `[A-Za-z0-9._-]*[A-Za-z0-9]`)

// looksSecret reports whether the redactor would take something out of a value
// beside its handles, by what it looks like or what it is called.
func looksSecret(r *redact.Redactor, name, v string) bool {
	if strings.Contains(v, handleMark) {
		rest := handleRule.ReplaceAllString(v, "")
		return r.String(rest) != rest
	}
	given, err := json.Marshal(v)
	if err != nil {
		return true
	}
	shown, err := r.JSON(map[string]json.RawMessage{name: given})
	if err != nil {
		return true
	}
	var back map[string]string
	return json.Unmarshal(shown.Bytes(), &back) != nil || back[name] != v
}

// secret puts in what handles in a value of the configuration stand for, and sees
// to it that nothing of them is shown again: every value goes to the redactor,
// which knows those of a vault already, and to what is withheld of the server's
// answers. Errors name the handle at most.
func (s *server) secret(v string) (string, error) {
	if !strings.Contains(v, handleMark) {
		return v, nil
	}
	if s.host.Secrets == nil {
		return "", errors.New("there is a secret:// handle in it, and the host has no secrets")
	}
	out, err := s.resolve(v)
	if err != nil {
		return "", err
	}
	for _, h := range handleRule.FindAllString(v, -1) {
		part, err := s.resolve(h)
		if err != nil {
			continue // the host's handles are longer than a vault's: the whole will do
		}
		if err := s.host.Redactor.Register(strings.TrimPrefix(h, handleMark), part); err != nil {
			return "", fmt.Errorf("what %s stands for could not be kept out of what is shown: %w", h, err)
		}
		s.hide(part)
	}
	if err := s.host.Redactor.Register(s.cfg.Name, out); err != nil {
		return "", fmt.Errorf("its value could not be kept out of what is shown: %w", err)
	}
	s.hide(out)
	return out, nil
}

func (s *server) resolve(v string) (string, error) {
	quoted, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	raw, err := s.host.Secrets.Resolve(quoted)
	if err != nil {
		return "", err
	}
	var out string
	if err := json.Unmarshal(raw, &out); err != nil {
		return "", errors.New("what the secret stands for is no text")
	}
	return out, nil
}

// hide adds to what is withheld. Values of earlier starts stay in it.
func (s *server) hide(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.hidden)
	for _, v := range values {
		if !slices.Contains(s.hidden, v) {
			s.hidden = append(s.hidden, v)
		}
	}
	if len(s.hidden) > n {
		known := redact.NewValues(s.hidden...)
		s.withheld.Store(&known)
	}
}

// withhold takes the server's own credentials out of what it says, in every
// encoding that package redact knows: one that echoes them would hand them to the
// model.
func (s *server) withhold(text string) string {
	if known := s.withheld.Load(); known != nil {
		return known.Replace(text, netguard.Withheld)
	}
	return text
}

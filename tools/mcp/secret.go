package mcp

import (
	"encoding/json"
	"errors"
	"strings"
)

// secret puts in what handles in a value of the configuration stand for. Errors
// name the handle at most.
func (s *server) secret(v string) (string, error) {
	if !strings.Contains(v, handleMark) {
		return v, nil
	}
	if s.host.Secrets == nil {
		return "", errors.New("there is a secret:// handle in it, and the host has no secrets")
	}
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

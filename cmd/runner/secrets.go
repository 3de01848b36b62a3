package main

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/ledger"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// readSecrets reads NAME=FILE pairs. The values are known to the redactor from
// the start, and tools get them for secret://NAME; they stand in files, since
// arguments and environments are shown to everybody who may list processes.
func readSecrets(pairs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, p := range pairs {
		name, file, ok := strings.Cut(p, "=")
		if !ok || file == "" || !secretName.MatchString(name) {
			return nil, usagef("--secret %q: want NAME=FILE, the name of letters, digits, dot, - and _", name)
		}
		if _, twice := all[name]; twice {
			return nil, usagef("--secret %s is given twice", name)
		}
		b, err := os.ReadFile(file)
		var pe *fs.PathError
		switch {
		case errors.As(err, &pe):
			return nil, usagef("--secret %s: %s: %w", name, file, pe.Err)
		case err != nil:
			return nil, usagef("--secret %s: %w", name, err)
		}
		if all[name] = strings.TrimRight(string(b), "\r\n"); len(all[name]) < 8 {
			return nil, usagef("--secret %s: %s holds fewer than 8 bytes: a shorter value stands everywhere and cannot be redacted", name, file)
		}
	}
	return all, nil
}

// readSealKey reads the key file of --seal-key; without one nothing is sealed.
func readSealKey(file string) (*ledger.Sealer, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--seal-key: %w", err)
	}
	s, err := ledger.ParseSealKey(string(b))
	if err != nil {
		return nil, usagef("--seal-key %s: %w", file, err)
	}
	return s, nil
}

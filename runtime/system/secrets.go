package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ReadSecrets reads NAME=FILE pairs for [Options.Secrets]: what --secret is given.
// The values stand in files, since arguments and environments are shown to
// everybody who may list processes. No error repeats one.
func ReadSecrets(pairs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, p := range pairs {
		name, file, ok := strings.Cut(p, "=")
		if !ok || file == "" || !secretName.MatchString(name) {
			return nil, fmt.Errorf("--secret %q: want NAME=FILE, the name of letters, digits, dot, - and _", name)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("--secret %s is given twice", name)
		}
		b, err := os.ReadFile(file)
		var pe *fs.PathError
		switch {
		case errors.As(err, &pe):
			return nil, fmt.Errorf("--secret %s: %s: %w", name, file, pe.Err)
		case err != nil:
			return nil, fmt.Errorf("--secret %s: %w", name, err)
		}
		if all[name] = strings.TrimRight(string(b), "\r\n"); len(all[name]) < 8 {
			return nil, fmt.Errorf("--secret %s: %s holds fewer than 8 bytes: a shorter value stands everywhere and cannot be redacted", name, file)
		}
	}
	return all, nil
}

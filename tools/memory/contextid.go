package memory

import (
	"fmt"
	"strings"
	"unicode"
)

// maxContextID is how long the id of a context may be, in bytes.
const maxContextID = 256

// NormalizeContextID is the one form of an id that a model typed:
// "Person: Alice Smith" is person:alice_smith. Ids that come from elsewhere are
// left as they are.
func NormalizeContextID(typed string) (string, error) {
	kind, name, ok := strings.Cut(typed, ":")
	kind, name = normal(kind), normal(name)
	switch {
	case !ok || kind == "" || name == "":
		return "", fmt.Errorf("%.80q is no context: write type:name, such as person:alice_smith", typed)
	case strings.ContainsFunc(kind+name, invisible):
		return "", fmt.Errorf("%.80q has characters that nobody can see", typed)
	case len(kind)+1+len(name) > maxContextID:
		return "", fmt.Errorf("a context of %d bytes, at most %d are allowed", len(kind)+1+len(name), maxContextID)
	}
	return kind + ":" + name, nil
}

// invisible characters would make two ids of what looks like one.
func invisible(r rune) bool { return unicode.In(r, unicode.C) || r == unicode.ReplacementChar }

func normal(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), "_") }

// normalized is a list of ids in their one form, each once.
func normalized(argument string, typed []string) (ids, problems []string) {
	if len(typed) > maxLinks {
		return nil, []string{fmt.Sprintf("%s: %d contexts, at most %d are allowed", argument, len(typed), maxLinks)}
	}
	seen := map[string]bool{}
	for _, t := range typed {
		id, err := NormalizeContextID(t)
		if err != nil {
			problems = append(problems, argument+": "+err.Error())
			continue
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, problems
}

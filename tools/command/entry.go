package command

import (
	"fmt"
	"strings"
)

// Entry is one of the tools that somebody allows, as a skill or a permission
// rule names it: "Name" for all of the tool, or "Name(specifier)" for some of it.
// An entry only narrows: it allows nothing that is not allowed without it.
type Entry struct {
	Raw  string // as it was written
	Name string // as it was written
	// Specifier says which commands; empty means all of the tool. It has one of
	// three forms: "git:*" is git, alone or with anything after a space; "git *",
	// with a "*" that is not escaped, is a pattern for the whole command; anything
	// else is the command itself. \* is a star.
	Specifier string
}

// ParseEntry reads an entry. In a specifier parentheses are written \( and \).
// An entry that cannot be read allows nothing.
func ParseEntry(raw string) (Entry, error) {
	name, rest, narrowed := strings.Cut(raw, "(")
	e := Entry{Raw: raw, Name: name}
	if !isName(name) {
		return Entry{}, fmt.Errorf("read entry %q: %q is no name of a tool", raw, name)
	}
	if !narrowed {
		return e, nil
	}
	var spec strings.Builder
	closed := false
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case closed:
			return Entry{}, fmt.Errorf("read entry %q: there is something after the closing parenthesis", raw)
		case c == '\\' && i+1 < len(rest) && (rest[i+1] == '(' || rest[i+1] == ')'):
			i++
			spec.WriteByte(rest[i])
		case c == '(':
			return Entry{}, fmt.Errorf(`read entry %q: write \( for a parenthesis in a specifier`, raw)
		case c == ')':
			closed = true
		default:
			spec.WriteByte(c)
		}
	}
	if !closed {
		return Entry{}, fmt.Errorf("read entry %q: the closing parenthesis is missing", raw)
	}
	if s := spec.String(); s != "*" {
		e.Specifier = s
	}
	return e, nil
}

// isName reports whether s can be the name of a program, and nothing else.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.' && c != '+') {
			return false
		}
	}
	return s != ""
}

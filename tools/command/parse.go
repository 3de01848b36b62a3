//go:build unix

package command

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is how long a command may be, in bytes. Beyond it nothing is asked
// of anybody: it is refused.
const maxCommand = 4096

// line is a simple command, taken apart.
type line struct {
	argv []string
	// normal is the command as it was written, with one space between words.
	normal string
}

// Parse takes a simple command apart into the program and its arguments, which
// are to be executed as they are, by no shell. It is the only reader of commands
// here, so that no two can disagree. It refuses whatever a shell would do more
// with than split it at its spaces: operators, substitutions, redirections,
// background, assignments, comments, globs, braces, tildes, backslashes; a
// program that is not a plain name; what is not printable ASCII; and anything
// longer than 4,096 bytes. Quotes may hold what they make literal.
func Parse(command string) ([]string, error) {
	l, err := parse(command)
	return l.argv, err
}

func parse(command string) (line, error) {
	if len(command) > maxCommand {
		return line{}, fmt.Errorf("the command is %d bytes long, more than %d", len(command), maxCommand)
	}
	for i := range len(command) {
		if c := command[i]; c != '\t' && (c < ' ' || c > '~') {
			return line{}, fmt.Errorf("the command has the character %q at byte %d: only printable ASCII on one line is allowed", c, i)
		}
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
	if err != nil {
		return line{}, fmt.Errorf("the command cannot be read: %w", err)
	}
	call, err := simple(f)
	if err != nil {
		return line{}, err
	}
	var l line
	var raw []string
	for i, w := range call.Args {
		s, err := literal(w, i == 0)
		if err != nil {
			return line{}, err
		}
		l.argv = append(l.argv, s)
		raw = append(raw, command[w.Pos().Offset():w.End().Offset()])
	}
	l.normal = strings.Join(raw, " ")
	return l, nil
}

var errSimple = errors.New("only one simple command is allowed: a program and its arguments, no operators, substitutions, redirections, assignments or other shell syntax")

// simple returns the one call that f consists of.
func simple(f *syntax.File) (*syntax.CallExpr, error) {
	if len(f.Stmts) != 1 || len(f.Last) > 0 {
		return nil, errSimple
	}
	s := f.Stmts[0]
	if s.Negated || s.Background || s.Coprocess || s.Disown || s.Semicolon.IsValid() || len(s.Redirs) > 0 || len(s.Comments) > 0 {
		return nil, errSimple
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, errSimple
	}
	return call, nil
}

// literal returns what a word says if no shell could make anything else of it.
func literal(w *syntax.Word, program bool) (string, error) {
	var b strings.Builder
	for i, part := range w.Parts {
		var s string
		switch p := part.(type) {
		case *syntax.Lit:
			s = p.Value
			if at := strings.IndexAny(s, "*?[]{}\\$`<>|&;()"); at >= 0 {
				return "", fmt.Errorf("%q outside quotes is not allowed: quote it if it is meant as it stands", s[at])
			}
			if tilde(s, i == 0) {
				return "", errors.New("\"~\" outside quotes is not allowed where a shell puts a home directory")
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", errSimple
			}
			s = p.Value
		case *syntax.DblQuoted:
			var err error
			if s, err = quoted(p); err != nil {
				return "", err
			}
		default:
			return "", errSimple
		}
		if _, plain := part.(*syntax.Lit); program && (!plain || !isName(s)) {
			return "", errors.New("the program must be a plain name, without a path, quotes or other signs")
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// tilde reports whether a shell may put a home directory into s.
func tilde(s string, start bool) bool {
	return start && strings.HasPrefix(s, "~") || strings.Contains(s, "=~") || strings.Contains(s, ":~")
}

func quoted(q *syntax.DblQuoted) (string, error) {
	if q.Dollar {
		return "", errSimple
	}
	var b strings.Builder
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return "", errSimple
		}
		if strings.ContainsAny(lit.Value, "\\$`") {
			return "", errors.New("backslash, dollar and backtick are not allowed in double quotes: use single ones")
		}
		b.WriteString(lit.Value)
	}
	return b.String(), nil
}

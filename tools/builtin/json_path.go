package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// step is one step of a path: a key, an index or every element.
type step struct {
	key   *string
	index int
	every bool
}

// Bounds of a path: its bytes and its steps.
const (
	maxPath  = 1024
	maxSteps = 64
)

// parsePath reads key, key.key, key[0], key[-1], key[*], ["any key"] and ['any
// key'], with $ for the document in front if one likes; $ alone is the document.
func parsePath(path string) ([]step, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(path), maxPath)
	}
	p := &pathParser{rest: path}
	if path == "$" {
		return nil, nil
	}
	if strings.HasPrefix(path, "$.") || strings.HasPrefix(path, "$[") {
		p.rest = path[1:]
	} else if path == "" {
		return nil, errors.New("empty; want one as in invoices[0].total, or $ for the whole document")
	} else if path[0] != '[' {
		p.rest = "." + path
	}
	var steps []step
	for p.rest != "" {
		if len(steps) == maxSteps {
			return nil, fmt.Errorf("more than %d steps", maxSteps)
		}
		s, err := p.step()
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

type pathParser struct{ rest string }

func (p *pathParser) step() (step, error) {
	if p.rest[0] == '.' {
		p.rest = p.rest[1:]
		n := strings.IndexFunc(p.rest, func(r rune) bool { return !wordRune(r) })
		if n < 0 {
			n = len(p.rest)
		}
		if n == 0 {
			return step{}, p.unexpected(`a key`)
		}
		key := p.rest[:n]
		p.rest = p.rest[n:]
		return step{key: &key}, nil
	}
	if p.rest[0] != '[' {
		return step{}, p.unexpected("a point or a bracket")
	}
	p.rest = p.rest[1:]
	s, err := p.inside()
	if err != nil {
		return step{}, err
	}
	if !strings.HasPrefix(p.rest, "]") {
		return step{}, p.unexpected("a closing bracket")
	}
	p.rest = p.rest[1:]
	return s, nil
}

// inside reads what stands between brackets.
func (p *pathParser) inside() (step, error) {
	if strings.HasPrefix(p.rest, "*") {
		p.rest = p.rest[1:]
		return step{every: true}, nil
	}
	if p.rest != "" && (p.rest[0] == '"' || p.rest[0] == '\'') {
		key, err := p.quoted(p.rest[0])
		return step{key: &key}, err
	}
	n := 0
	for n < len(p.rest) && (isDigit(p.rest[n]) || n == 0 && p.rest[n] == '-') {
		n++
	}
	digits := p.rest[:n]
	i, err := strconv.Atoi(digits)
	if err != nil || n > 10 {
		return step{}, p.unexpected(`an index, * or a key in quotes`)
	}
	p.rest = p.rest[n:]
	return step{index: i}, nil
}

// quoted reads a key in quotes; a backslash keeps the character behind it.
func (p *pathParser) quoted(quote byte) (string, error) {
	var key strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\' && i+1 < len(p.rest):
			i++
			key.WriteByte(p.rest[i])
		case c == quote:
			p.rest = p.rest[i+1:]
			return key.String(), nil
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("a quote is not closed")
}

func (p *pathParser) unexpected(want string) error {
	if p.rest == "" {
		return fmt.Errorf("it ends where %s should stand", want)
	}
	_, size := utf8.DecodeRuneInString(p.rest)
	return fmt.Errorf(`%s stands where %s should; a key that is no word is written ["so"]`, strconv.Quote(p.rest[:size]), want)
}

// wordRune may stand in a key that is not quoted.
func wordRune(r rune) bool {
	return r == '_' || r == '-' || r == '@' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// walk follows a path through a document that is known to be JSON.
type walk struct {
	ctx     context.Context //nolint:containedctx // of one query
	values  []json.RawMessage
	many    bool // a [*] was gone through, and there was a list
	missing int
}

func (w *walk) result() found {
	switch {
	case w.many && (len(w.values) > 0 || w.missing == 0):
		list := append([]byte{'['}, bytes.Join(toBytes(w.values), []byte(","))...)
		return found{Found: true, Value: append(list, ']'), Missing: w.missing}
	case !w.many && len(w.values) == 1:
		return found{Found: true, Value: w.values[0]}
	case !w.many:
		return found{}
	}
	return found{Missing: w.missing}
}

func toBytes(rs []json.RawMessage) [][]byte {
	bs := make([][]byte, len(rs))
	for i, r := range rs {
		bs[i] = r
	}
	return bs
}

// take follows steps from v.
func (w *walk) take(v json.RawMessage, steps []step) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if len(steps) == 0 {
		w.values = append(w.values, v)
		return nil
	}
	s, rest := steps[0], steps[1:]
	if s.key != nil {
		m, ok, err := member(v, *s.key)
		if err != nil {
			return err
		}
		return w.next(m, ok, rest)
	}
	if v[0] != '[' {
		return w.next(nil, false, rest)
	}
	var es []json.RawMessage
	if err := json.Unmarshal(v, &es); err != nil {
		return err
	}
	if !s.every {
		i := s.index
		if i < 0 {
			i += len(es)
		}
		if i < 0 || i >= len(es) {
			return w.next(nil, false, rest)
		}
		return w.next(es[i], true, rest)
	}
	w.many = true
	for _, e := range es {
		if err := w.next(e, true, rest); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) next(v json.RawMessage, ok bool, rest []step) error {
	if !ok {
		w.missing++
		return nil
	}
	return w.take(trim(v), rest)
}

func trim(v json.RawMessage) json.RawMessage { return bytes.TrimSpace(v) }

// member returns the value of a key. A key that stands there twice has no value
// that two readers would agree about.
func member(v json.RawMessage, key string) (value json.RawMessage, ok bool, err error) {
	if v[0] != '{' {
		return nil, false, nil
	}
	d := json.NewDecoder(bytes.NewReader(v))
	if _, err := d.Token(); err != nil {
		return nil, false, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false, err
		}
		var m json.RawMessage
		if err := d.Decode(&m); err != nil {
			return nil, false, err
		}
		if name != key {
			continue
		}
		if ok {
			return nil, false, fmt.Errorf("the key %s stands twice in one object", strconv.Quote(key))
		}
		value, ok = slices.Clone(m), true
	}
	return value, ok, nil
}

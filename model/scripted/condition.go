package scripted

import (
	"math/big"
	"regexp"
	"strings"
)

// condition holds if all its parts do; the zero condition always holds.
type condition []func(c *conversation) bool

func (w condition) holds(c *conversation) bool {
	c.groups = nil // those of the rule before, which did not hold
	for _, part := range w {
		if !part(c) {
			return false
		}
	}
	return true
}

// test is what a value is held against. found is false if it is not there.
type test func(c *conversation, v any, found bool) bool

func allOf(ts []test) test {
	return func(c *conversation, v any, found bool) bool {
		for _, t := range ts {
			if !t(c, v, found) {
				return false
			}
		}
		return true
	}
}

// isMissing: not there, null, or nothing but blanks.
func isMissing(v any, found bool) bool {
	if !found || v == nil {
		return true
	}
	s, ok := v.(string)
	return ok && strings.TrimSpace(s) == ""
}

func missing(want bool) test {
	return func(_ *conversation, v any, found bool) bool { return isMissing(v, found) == want }
}

func matches(re *regexp.Regexp, want bool) test {
	return func(c *conversation, v any, found bool) bool {
		if !found {
			return !want
		}
		return c.matches(re, plain(v)) == want
	}
}

// equals compares numbers by value ("10.50" is 10.5) and all else as text. An
// operand that refers to nothing is equal to nothing.
func equals(operand template, want bool) test {
	return func(c *conversation, v any, found bool) bool {
		o, err := operand.value(c)
		if err != nil || !found {
			return !want
		}
		a, b := number(v), number(o)
		if a != nil && b != nil {
			return (a.Cmp(b) == 0) == want
		}
		return (plain(v) == plain(o)) == want
	}
}

// compare holds numbers against each other, exactly. What is no number, or not
// there, is neither above nor below anything.
func compare(operand template, ok func(cmp int) bool) test {
	return func(c *conversation, v any, found bool) bool {
		o, err := operand.value(c)
		if err != nil || !found {
			return false
		}
		a, b := number(v), number(o)
		return a != nil && b != nil && ok(a.Cmp(b))
	}
}

var decimal = regexp.MustCompile(`^-?\d{1,40}(\.\d{1,40})?$`)

// number returns a decimal number or a text that is one, else nil.
func number(v any) *big.Rat {
	s := strings.TrimSpace(plain(v))
	if !decimal.MatchString(s) {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

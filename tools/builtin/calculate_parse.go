package builtin

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression: its bytes, how deep brackets, signs and powers may
// nest, and the digits of one number.
const (
	maxExpression = 4096
	maxDepth      = 100
	maxLiteral    = 400
)

// functions of one argument.
var functions = map[string]func(value) (value, error){
	"sqrt": sqrt, "abs": abs, "round": round, "floor": floor, "ceil": ceil, "ln": ln, "log": log10,
}

const known = "sqrt, abs, round, floor, ceil, ln and log"

// parser evaluates while it reads:
//
//	expression = term { ("+" | "-") term }
//	term       = signed { ("*" | "/" | "%") signed }
//	signed     = { "+" | "-" } power
//	power      = atom [ "^" signed ]
//	atom       = number | "(" expression ")" | function "(" expression ")"
//
// so that -2^2 is -4, 2^-1 is 0.5 and 2^3^2 is 512.
type parser struct {
	ctx   context.Context //nolint:containedctx // of one evaluation
	src   string
	pos   int
	depth int
}

func (p *parser) errorf(pos int, format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", utf8.RuneCountInString(p.src[:pos])+1, fmt.Sprintf(format, args...))
}

// enter counts nesting, without which recursion would end with the stack.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.errorf(p.pos, "nested deeper than %d", maxDepth)
	}
	return context.Cause(p.ctx)
}

func (p *parser) leave() { p.depth-- }

// peek skips white space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

// operator takes the next byte if it is one of ops.
func (p *parser) operator(ops string) (op byte, at int, ok bool) {
	c := p.peek()
	if c == 0 || strings.IndexByte(ops, c) < 0 {
		return 0, 0, false
	}
	p.pos++
	return c, p.pos - 1, true
}

// end reports what is left over.
func (p *parser) end() error {
	if p.peek() == 0 && p.pos == len(p.src) {
		return nil
	}
	return p.unexpected("an operator or the end")
}

// unexpected says what stands at the position instead of what was wanted.
func (p *parser) unexpected(want string) error {
	if p.pos >= len(p.src) {
		return p.errorf(p.pos, "the expression ends, want %s", want)
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	hint := map[rune]string{
		',': "; write numbers without thousands separators, and a point before the fraction", '=': "; nothing can be assigned or compared",
		'×': "; write * to multiply", '·': "; write * to multiply", '÷': "; write / to divide", '−': "; write - for minus", '*': "; write ^ for a power",
		'(': "; write * to multiply",
	}[r]
	return p.errorf(p.pos, "%s stands where %s should%s", strconv.Quote(p.src[p.pos:p.pos+size]), want, hint)
}

func (p *parser) expression() (value, error) {
	if err := p.enter(); err != nil {
		return value{}, err
	}
	defer p.leave()
	return p.chain("+-", p.term)
}

func (p *parser) term() (value, error) { return p.chain("*/%", p.signed) }

// chain reads operands between operators that bind to the left.
func (p *parser) chain(ops string, operand func() (value, error)) (value, error) {
	v, err := operand()
	if err != nil {
		return value{}, err
	}
	for {
		op, at, ok := p.operator(ops)
		if !ok {
			return v, nil
		}
		w, err := operand()
		if err != nil {
			return value{}, err
		}
		if v, err = apply(op, v, w); err != nil {
			return value{}, p.errorf(at, "%v", err)
		}
	}
}

func (p *parser) signed() (value, error) {
	if err := p.enter(); err != nil {
		return value{}, err
	}
	defer p.leave()
	negative := false
	for {
		op, _, ok := p.operator("+-")
		if !ok {
			break
		}
		negative = negative != (op == '-')
	}
	v, err := p.power()
	if err == nil && negative {
		v.r = new(big.Rat).Neg(v.r)
	}
	return v, err
}

func (p *parser) power() (value, error) {
	base, err := p.atom()
	if err != nil {
		return value{}, err
	}
	_, at, ok := p.operator("^")
	if !ok {
		return base, nil
	}
	exponent, err := p.signed()
	if err != nil {
		return value{}, err
	}
	v, err := pow(base, exponent)
	if err != nil {
		return value{}, p.errorf(at, "%v", err)
	}
	return v, nil
}

func (p *parser) atom() (value, error) {
	c := p.peek()
	switch {
	case c == '(':
		return p.bracket()
	case isDigit(c) || c == '.':
		return p.number()
	case isLetter(c):
		return p.call()
	}
	return value{}, p.unexpected("a number, a bracket or a function")
}

func (p *parser) bracket() (value, error) {
	if p.peek() != '(' {
		return value{}, p.unexpected("an opening bracket")
	}
	p.pos++
	v, err := p.expression()
	if err != nil {
		return value{}, err
	}
	if p.peek() != ')' {
		return value{}, p.unexpected("an operator or a closing bracket")
	}
	p.pos++
	return v, nil
}

func (p *parser) call() (value, error) {
	at := p.pos
	for p.pos < len(p.src) && (isLetter(p.src[p.pos]) || isDigit(p.src[p.pos])) {
		p.pos++
	}
	name := p.src[at:p.pos]
	f := functions[name]
	if f == nil {
		if len(name) > 32 {
			name = name[:32] + "…"
		}
		return value{}, p.errorf(at, "%s is not known: there are no variables, and the functions are %s", name, known)
	}
	arg, err := p.bracket()
	if err != nil {
		return value{}, err
	}
	v, err := f(arg)
	if err != nil {
		return value{}, p.errorf(at, "%v", err)
	}
	return v, nil
}

// number reads 12, 1.5, .5 or 1.5e-3.
func (p *parser) number() (value, error) {
	at := p.pos
	run := func() int {
		n := p.pos
		for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
			p.pos++
		}
		return p.pos - n
	}
	n := run()
	if p.pos < len(p.src) && p.src[p.pos] == '.' {
		p.pos++
		if run() == 0 {
			return value{}, p.errorf(at, "a point must be followed by digits")
		}
	} else if n == 0 {
		return value{}, p.unexpected("a number")
	}
	if p.pos < len(p.src) && (p.src[p.pos] == 'e' || p.src[p.pos] == 'E') {
		p.pos++
		if p.pos < len(p.src) && (p.src[p.pos] == '+' || p.src[p.pos] == '-') {
			p.pos++
		}
		exp := p.pos
		if n := run(); n == 0 || n > 3 || p.src[exp:p.pos] > "308" && n == 3 {
			return value{}, p.errorf(at, "the exponent of a number must be between -308 and 308")
		}
	}
	text := p.src[at:p.pos]
	if len(text) > maxLiteral {
		return value{}, p.errorf(at, "a number has %d digits, at most %d are allowed", len(text), maxLiteral)
	}
	if c := p.peekRaw(); c == '.' || isLetter(c) || c == '_' {
		return value{}, p.unexpected("an operator")
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return value{}, p.errorf(at, "%s is no number", text)
	}
	v := value{r: r}
	if v.beyond() {
		return value{}, p.errorf(at, "%v", errBeyond)
	}
	return v, nil
}

func (p *parser) peekRaw() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

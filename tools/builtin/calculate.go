package builtin

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// Calculate returns calculate, which evaluates one expression: numbers, + - * /
// % ^, brackets, and the functions sqrt, abs, round, floor, ceil, ln and log.
// Nothing of the expression is ever run as code. Fractions are exact inside;
// docs/decisions/0010 says what is printed and what is refused.
func Calculate() tools.Tool {
	return must(tools.New(tools.Definition{
		Name: "calculate",
		Description: "Evaluates one arithmetic expression and returns the number. It knows + - * / % ^ and brackets, and the functions " +
			"sqrt, abs, round, floor, ceil, ln (base e) and log (base 10), as in (1200 + 3*49.95) * 1.19. " +
			"It knows no variables, units or thousands separators. % is the remainder, with the sign of the dividend.",
		Aliases: []string{"calculator", "arithmetic", "math", "compute"},
		Effect:  tools.Readonly,
		Trust:   tools.Own,
		Timeout: 10 * time.Second,
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		Expression string `json:"expression" jsonschema:"the expression, as in 2 * (3 + 4)^2 / sqrt(2)"`
	},
	) (string, error) {
		text, err := evaluate(ctx, in.Expression)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			return "", &tools.ArgumentError{Tool: "calculate", Problems: []string{err.Error()}}
		}
		return text, nil
	}))
}

// evaluate returns what is printed of an expression.
func evaluate(ctx context.Context, expr string) (string, error) {
	if len(expr) > maxExpression {
		return "", fmt.Errorf("the expression has %d bytes, at most %d are allowed: do it in parts", len(expr), maxExpression)
	}
	p := &parser{ctx: ctx, src: expr}
	v, err := p.expression()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return "", err
	}
	return v.print()
}

// maxWhole is 2^53: up to there every whole number is one that a double is.
const maxWhole = 1 << 53

var errBeyond = errors.New("a whole number beyond 2^53 (9007199254740992) is refused, because not all of them can be told apart: work with smaller numbers")

// beyond reports whether v is a whole number past 2^53.
func (v value) beyond() bool {
	return v.r.IsInt() && v.r.Num().CmpAbs(big.NewInt(maxWhole)) > 0
}

// digits is how many significant decimal digits every double carries.
const digits = 15

// print writes the digits that a double truly carries: whole numbers in full,
// everything else with up to 15 significant digits.
func (v value) print() (string, error) {
	if v.beyond() {
		return "", errBeyond
	}
	if v.r.IsInt() {
		return v.r.Num().String(), nil
	}
	limit := new(big.Rat).SetInt64(1e15)
	if new(big.Rat).Abs(v.r).Cmp(limit) >= 0 {
		return "", errors.New("the result has more digits before the point than can be shown together with its fraction: round it, or work with smaller numbers")
	}
	f := new(big.Float).SetPrec(precision).SetRat(v.r)
	return plain(f.Text('e', digits-1)), nil
}

// plain rewrites d.ddde±x without needless zeros, and without an exponent
// unless the number is below a millionth.
func plain(s string) string {
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	mantissa, e, _ := strings.Cut(s, "e")
	exp, _ := strconv.Atoi(e) // written by big.Float
	ds := strings.TrimRight(strings.Replace(mantissa, ".", "", 1), "0")
	switch {
	case exp < -6:
		if len(ds) > 1 {
			ds = ds[:1] + "." + ds[1:]
		}
		return fmt.Sprintf("%s%se%d", sign, ds, exp)
	case exp < 0:
		return sign + "0." + strings.Repeat("0", -exp-1) + ds
	case len(ds) <= exp+1:
		return sign + ds + strings.Repeat("0", exp+1-len(ds))
	}
	return sign + ds[:exp+1] + "." + ds[exp+1:]
}

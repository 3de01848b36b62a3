package policy

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// Numbers are exact: an int64 where it fits, else a fraction. The dispatcher
// refuses numbers in arguments that a float64 cannot hold, or of very many
// digits; what is computed is bounded here.

// maxBits bounds numerator and denominator of what is computed.
const maxBits = 4096

// small is r, as an int64 if it is one.
func small(r *big.Rat) any {
	if r.IsInt() && r.Num().IsInt64() {
		return r.Num().Int64()
	}
	return r
}

// number is v as an int64 or a fraction.
func number(v any, path string) (any, error) {
	switch n := v.(type) {
	case int64, *big.Rat:
		return n, nil
	case json.Number:
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			return i, nil
		}
		if r, ok := fraction(string(n)); ok {
			return small(r), nil
		}
		return nil, trouble(prefix(path) + "the number is too big or too exact to compare")
	}
	return nil, wanted("a number", v, path)
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// fraction reads a JSON number, within bounds.
func fraction(n string) (*big.Rat, bool) {
	digits, exponent, _ := strings.Cut(strings.ToLower(n), "e")
	if len(digits) > 1000 {
		return nil, false
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e > 400 || e < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(n)
}

func rat(v any) *big.Rat {
	if i, ok := v.(int64); ok {
		return new(big.Rat).SetInt64(i)
	}
	return v.(*big.Rat)
}

// order compares two numbers: -1, 0 or 1.
func order(a, b any, ap, bp string) (int, error) {
	x, err := number(a, ap)
	if err != nil {
		return 0, err
	}
	y, err := number(b, bp)
	if err != nil {
		return 0, err
	}
	i, ok := x.(int64)
	j, also := y.(int64)
	switch {
	case !ok || !also:
		return rat(x).Cmp(rat(y)), nil
	case i < j:
		return -1, nil
	case i > j:
		return 1, nil
	}
	return 0, nil
}

func whole(v any) bool {
	n, err := number(v, "")
	if err != nil {
		return false
	}
	if _, ok := n.(int64); ok {
		return true
	}
	return n.(*big.Rat).IsInt()
}

// arithmetic is exact.
func arithmetic(op string, a, b any, ap, bp string) (any, error) {
	x, err := number(a, ap)
	if err != nil {
		return nil, err
	}
	y, err := number(b, bp)
	if err != nil {
		return nil, err
	}
	p, q := rat(x), rat(y)
	r := new(big.Rat)
	switch op {
	case "+":
		r.Add(p, q)
	case "-":
		r.Sub(p, q)
	case "*":
		r.Mul(p, q)
	case "/":
		if q.Sign() == 0 {
			return nil, trouble("division by zero")
		}
		r.Quo(p, q)
	case "%":
		if !p.IsInt() || !q.IsInt() || q.Sign() == 0 {
			return nil, trouble("% wants whole numbers, and no zero behind it")
		}
		r.SetInt(new(big.Int).Rem(p.Num(), q.Num()))
	default:
		return nil, trouble("the operator " + op + " is not there")
	}
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return nil, trouble("a number gets too big")
	}
	return small(r), nil
}

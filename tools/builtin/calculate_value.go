package builtin

import (
	"errors"
	"math/big"
)

const (
	// precision is that of numbers that are no fractions, in bits: over 100
	// decimal digits, so that the 15 that are printed are right.
	precision = 384
	// slack is 2^-slack: what is closer to a whole number in proportion is that
	// number, since only errors of rounding can have kept it from being it.
	slack = 256
	// maxBits bounds numerator and denominator of an exact fraction; beyond it
	// is rounded to precision.
	maxBits = 4096
	// maxScale bounds the power of two that a number may be near: those of
	// doubles, the smallest included.
	maxScale = 1074
)

// value is a number: an exact fraction, or one that was rounded to precision.
type value struct {
	r       *big.Rat
	rounded bool
}

var (
	errZero  = errors.New("division by zero")
	errLarge = errors.New("the number is too large")
	errSmall = errors.New("the number is too close to zero")
)

// settle keeps v within bounds.
func (v value) settle() (value, error) {
	num, den := v.r.Num().BitLen(), v.r.Denom().BitLen()
	switch {
	case num == 0:
		return v, nil
	case num-den > maxScale:
		return value{}, errLarge
	case den-num > maxScale:
		return value{}, errSmall
	case !v.rounded && num <= maxBits && den <= maxBits:
		return v, nil
	}
	v.rounded = true
	f := new(big.Float).SetPrec(precision).SetRat(v.r)
	n, whole := nearest(f)
	if whole {
		return value{r: new(big.Rat).SetInt(n), rounded: true}, nil
	}
	v.r, _ = f.Rat(nil)
	return v, nil
}

// nearest returns the whole number next to f, and whether f is it but for
// errors of rounding. Zero is never taken for such an error.
func nearest(f *big.Float) (*big.Int, bool) {
	half := big.NewFloat(0.5)
	if f.Sign() < 0 {
		half.Neg(half)
	}
	n, _ := new(big.Float).SetPrec(2*precision).Add(f, half).Int(nil)
	if n.Sign() == 0 {
		return n, false
	}
	diff := new(big.Float).SetPrec(precision).Sub(f, new(big.Float).SetPrec(precision).SetInt(n))
	return n, diff.Sign() == 0 || diff.MantExp(nil) < f.MantExp(nil)-slack
}

// apply is an operator between two numbers.
func apply(op byte, a, b value) (value, error) {
	v := value{r: new(big.Rat), rounded: a.rounded || b.rounded}
	switch op {
	case '+':
		v.r.Add(a.r, b.r)
	case '-':
		v.r.Sub(a.r, b.r)
	case '*':
		v.r.Mul(a.r, b.r)
	default:
		if b.r.Sign() == 0 {
			return value{}, errZero
		}
		v.r.Quo(a.r, b.r)
		if op == '%' {
			return remainder(a, b, v)
		}
	}
	if v.rounded && (op == '+' || op == '-') && cancelled(v.r, a.r, b.r) {
		v.r.SetInt64(0)
	}
	return v.settle()
}

// remainder is a - b*trunc(a/b): it has the sign of a.
func remainder(a, b, q value) (value, error) {
	q, err := q.settle() // a rounded quotient that should be whole is whole from here
	if err != nil && !errors.Is(err, errSmall) {
		return value{}, err
	}
	if err != nil {
		return a, nil
	}
	n := new(big.Int).Quo(q.r.Num(), q.r.Denom())
	product := new(big.Rat).Mul(b.r, new(big.Rat).SetInt(n))
	v := value{r: new(big.Rat).Sub(a.r, product), rounded: a.rounded || b.rounded || q.rounded}
	if v.rounded && cancelled(v.r, a.r, product) {
		v.r.SetInt64(0)
	}
	return v.settle()
}

// cancelled reports whether what is left of a and b is nothing but rounding.
func cancelled(rest, a, b *big.Rat) bool {
	if rest.Sign() == 0 {
		return true
	}
	scale := func(r *big.Rat) int { return r.Num().BitLen() - r.Denom().BitLen() }
	return scale(rest) < max(scale(a), scale(b))-slack
}

func abs(v value) (value, error) {
	v.r = new(big.Rat).Abs(v.r)
	return v, nil
}

// floor is the largest whole number that is not above v.
func floor(v value) (value, error) {
	// Euclidean division rounds down, since denominators are positive.
	v.r = new(big.Rat).SetInt(new(big.Int).Div(v.r.Num(), v.r.Denom()))
	return v, nil
}

func ceil(v value) (value, error) {
	down, _ := floor(value{r: new(big.Rat).Neg(v.r)})
	return value{r: down.r.Neg(down.r), rounded: v.rounded}, nil
}

// round takes halves away from zero, as people do with money.
func round(v value) (value, error) {
	half := big.NewRat(1, 2)
	up, _ := floor(value{r: half.Add(half, new(big.Rat).Abs(v.r))})
	if v.r.Sign() < 0 {
		up.r.Neg(up.r)
	}
	return value{r: up.r, rounded: v.rounded}, nil
}

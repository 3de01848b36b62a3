package builtin

import (
	"errors"
	"math/big"
)

// What follows computes with working bits, more than precision, so that the
// last bits of precision are right.
const working = precision + 64

func newFloat() *big.Float { return new(big.Float).SetPrec(working) }

func toFloat(r *big.Rat) *big.Float { return newFloat().SetRat(r) }

// roundedValue is f as a value.
func roundedValue(f *big.Float) (value, error) {
	if e := f.MantExp(nil); f.Sign() != 0 && e > maxScale+1 {
		return value{}, errLarge
	} else if f.Sign() != 0 && e < -maxScale-1 {
		return value{}, errSmall
	}
	r, _ := f.Rat(nil)
	return value{r: r, rounded: true}.settle()
}

func sqrt(v value) (value, error) {
	if v.r.Sign() < 0 {
		return value{}, errors.New("sqrt of a negative number is no real number")
	}
	return roundedValue(newFloat().Sqrt(toFloat(v.r)))
}

func ln(v value) (value, error) {
	if v.r.Sign() <= 0 {
		return value{}, errors.New("ln of a number that is not above zero is no real number")
	}
	return roundedValue(logarithm(v.r))
}

func log10(v value) (value, error) {
	if v.r.Sign() <= 0 {
		return value{}, errors.New("log of a number that is not above zero is no real number")
	}
	return roundedValue(newFloat().Quo(logarithm(v.r), logarithm(big.NewRat(10, 1))))
}

// logarithm is that of a positive number, base e. x = m·2^k with m between 2/3
// and 4/3, so ln x = k·ln 2 + 2·artanh((m-1)/(m+1)); the fraction is exact, so
// nothing is lost near 1.
func logarithm(x *big.Rat) *big.Float {
	k := x.Num().BitLen() - x.Denom().BitLen()
	m := new(big.Rat).Mul(x, powerOfTwo(-k))
	for m.Cmp(big.NewRat(4, 3)) > 0 {
		m.Mul(m, big.NewRat(1, 2))
		k++
	}
	for m.Cmp(big.NewRat(2, 3)) < 0 {
		m.Mul(m, big.NewRat(2, 1))
		k--
	}
	one := big.NewRat(1, 1)
	z := new(big.Rat).Quo(new(big.Rat).Sub(m, one), new(big.Rat).Add(m, one))
	sum := twoArtanh(toFloat(z))
	if k == 0 {
		return sum
	}
	return sum.Add(sum, newFloat().Mul(newFloat().SetInt64(int64(k)), ln2()))
}

// ln2 is 2·artanh(1/3).
func ln2() *big.Float { return twoArtanh(toFloat(big.NewRat(1, 3))) }

// twoArtanh sums 2(z + z³/3 + z⁵/5 + …) for |z| ≤ 1/3.
func twoArtanh(z *big.Float) *big.Float {
	sum, power, square := newFloat().Set(z), newFloat().Set(z), newFloat().Mul(z, z)
	for n := int64(3); z.Sign() != 0; n += 2 {
		power.Mul(power, square)
		t := newFloat().Quo(power, newFloat().SetInt64(n))
		if t.MantExp(nil) < sum.MantExp(nil)-working {
			break
		}
		sum.Add(sum, t)
	}
	return sum.Add(sum, sum)
}

// exponential is e^y for |y| < 800: y = k·ln 2 + r, and e^r by its series on
// r/256, squared eight times.
func exponential(y *big.Float) *big.Float {
	q, _ := newFloat().Quo(y, ln2()).Float64()
	k := int(q)
	r := newFloat().Sub(y, newFloat().Mul(newFloat().SetInt64(int64(k)), ln2()))
	r.SetMantExp(r, -8)
	sum, t := newFloat().SetInt64(1), newFloat().SetInt64(1)
	for n := int64(1); r.Sign() != 0; n++ {
		t.Quo(t.Mul(t, r), newFloat().SetInt64(n))
		if t.MantExp(nil) < -working {
			break
		}
		sum.Add(sum, t)
	}
	for range 8 {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, k)
}

// powerOfTwo is 2^k.
func powerOfTwo(k int) *big.Rat {
	r := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(k, -k))))
	if k < 0 {
		r.Inv(r)
	}
	return r
}

// pow is a^b. 0^0 is 1, as it is in programming languages.
func pow(a, b value) (value, error) {
	switch {
	case b.r.Sign() == 0:
		return value{r: big.NewRat(1, 1)}, nil
	case a.r.Sign() == 0 && b.r.Sign() < 0:
		return value{}, errZero
	case a.r.Sign() == 0 || a.r.Cmp(big.NewRat(1, 1)) == 0:
		return a, nil
	case a.r.Sign() < 0 && !b.r.IsInt():
		return value{}, errors.New("a negative number to a power that is not whole is no real number")
	}
	// Nothing is computed before it is clear that the result has a bearable size.
	magnitude := new(big.Rat).Abs(a.r)
	if magnitude.Cmp(big.NewRat(1, 1)) == 0 { // (-1)^n
		return sign(a, b, value{r: magnitude, rounded: a.rounded}), nil
	}
	y := newFloat().Mul(logarithm(magnitude), toFloat(b.r))
	limit := newFloat().SetInt64(maxScale + 1)
	limit.Mul(limit, ln2())
	if newFloat().Abs(y).Cmp(limit) > 0 {
		if y.Sign() > 0 {
			return value{}, errLarge
		}
		return value{}, errSmall
	}
	bits := int64(max(a.r.Num().BitLen(), a.r.Denom().BitLen()))
	if n := b.r.Num(); b.r.IsInt() && n.IsInt64() && max(n.Int64(), -n.Int64()) <= maxBits/bits {
		v, err := value{r: wholePower(a.r, n.Int64()), rounded: a.rounded || b.rounded}.settle()
		return v, err
	}
	v, err := roundedValue(exponential(y))
	return sign(a, b, v), err
}

// sign gives the size of a^b its sign.
func sign(a, b, v value) value {
	if a.r.Sign() < 0 && b.r.Num().Bit(0) == 1 && v.r != nil {
		v.r = new(big.Rat).Neg(v.r)
	}
	return v
}

// wholePower is r^n by multiplication of numerator and denominator.
func wholePower(r *big.Rat, n int64) *big.Rat {
	e := big.NewInt(max(n, -n))
	num, den := new(big.Int).Exp(r.Num(), e, nil), new(big.Int).Exp(r.Denom(), e, nil)
	if n < 0 {
		num, den = den, num
	}
	return new(big.Rat).SetFrac(num, den)
}

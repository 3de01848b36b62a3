package events

import (
	"fmt"
	"math/big"
	"strings"
)

// PicoUSD is an amount of money in 10⁻¹² US dollars: a single token can cost
// less than a micro-dollar, and sums of rounded amounts do not add up. An int64
// holds 9.2 million dollars; sums over many rows belong in [math/big] or in the
// database's numeric. In JSON it is a decimal string of dollars ("0.00125").
type PicoUSD int64

// Units of money.
const (
	MicroUSD PicoUSD = 1_000_000
	USD      PicoUSD = 1_000_000_000_000
)

// String returns dollars with as many decimals as the amount needs.
func (p PicoUSD) String() string { return FormatPico(big.NewInt(int64(p))) }

// MarshalText writes the decimal dollars of String.
func (p PicoUSD) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads decimal dollars with up to twelve decimals.
func (p *PicoUSD) UnmarshalText(b []byte) error {
	v, err := ParsePico(string(b))
	if err != nil {
		return err
	}
	if !v.IsInt64() {
		return fmt.Errorf("parse amount %q: more than an int64 of pico-dollars", b)
	}
	*p = PicoUSD(v.Int64())
	return nil
}

// FormatPico returns v pico-dollars as decimal dollars.
func FormatPico(v *big.Int) string {
	abs := new(big.Int).Abs(v)
	whole, frac := new(big.Int).QuoRem(abs, big.NewInt(int64(USD)), new(big.Int))
	s := whole.String()
	if frac.Sign() != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%012d", frac.Int64()), "0")
	}
	if v.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// maxDigits bounds the whole dollars that ParsePico reads; 128 bits have 39 digits.
const maxDigits = 39

// ParsePico reads decimal dollars exactly; more than twelve decimals are an error.
func ParsePico(s string) (*big.Int, error) {
	whole, frac, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if whole == "" || len(whole) > maxDigits || len(frac) > 12 || point && frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return nil, fmt.Errorf("parse amount %q: want decimal dollars such as 0.00125, at most 12 decimals", s)
	}
	v, _ := new(big.Int).SetString(whole+frac+strings.Repeat("0", 12-len(frac)), 10)
	if strings.HasPrefix(s, "-") {
		v.Neg(v)
	}
	return v, nil
}

package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// direct calls a tool without a dispatcher.
func direct(t interface {
	Helper()
	Fatal(...any)
}, tool tools.Tool, args any,
) (any, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Call(context.Background(), &tools.Invocation{Arguments: raw})
}

func TestCalculate(t *testing.T) {
	tool := builtin.Calculate()
	tests := []struct{ name, expr, want string }{
		{"SG-57 precedence", "1 + 2 * 3 - 4 / 8", "6.5"},
		{"SG-57 brackets", "((1 + 2)) * 3", "9"},
		{"SG-57 left to right", "100 / 10 / 5 - 1 - 1", "0"},
		{"SG-57 remainder", "17 % 5 + 0.5 % 0.2", "2.1"},
		{"SG-57 remainder has the sign of the dividend", "-7 % 3", "-1"},
		{"SG-57 powers bind to the right", "2^3^2", "512"},
		{"SG-57 minus binds weaker than a power", "-2^2", "-4"},
		{"SG-57 minus in an exponent", "2^-1", "0.5"},
		{"SG-57 signs", "--3 - -+-4", "-1"},
		{"SG-57 no white space", "2*(3+4)^2", "98"},
		{"SG-57 scientific notation", "1.5e3 + .5 + 2E-1", "1500.7"},
		{"SG-57 functions", "sqrt(16) + abs(-2) + round(2.5) + floor(-1.2) + ceil(1.2)", "9"},
		{"SG-57 halves are rounded away from zero", "round(-2.5)", "-3"},
		{"SG-57 ln and log", "ln(1) + log(1000)", "3"},
		{"SG-57 roots", "8^(1/3)", "2"},
		{"SG-57 nested functions", "sqrt(abs(-(3^2 + 4^2)))", "5"},
		{"SG-57 zero to zero", "0^0", "1"},
		{"SG-58 what a double gets wrong", "0.1 + 0.2", "0.3"},
		{"SG-58 a sum of cents", "1.1 * 1.1 * 100", "121"},
		{"SG-58 a third", "1 / 3", "0.333333333333333"},
		{"SG-58 three thirds", "1/3 + 1/3 + 1/3", "1"},
		{"SG-58 two thirds", "2 / 3", "0.666666666666667"},
		{"SG-58 money", "19.99 * 3 * 1.19", "71.3643"},
		{"SG-58 compound interest", "1000 * (1 + 0.05/12)^360", "4467.74431400613"},
		{"SG-58 a root squared", "sqrt(2)^2", "2"},
		{"SG-58 the floor of a logarithm", "floor(log(1000)) + floor(ln(8)/ln(2))", "6"},
		{"SG-58 a root", "sqrt(2)", "1.4142135623731"},
		{"SG-58 ln", "ln(10)", "2.30258509299405"},
		{"SG-58 ln close to 1", "ln(1 + 1e-30)", "1e-30"},
		{"SG-58 small numbers", "1 / 3 / 1e9", "3.33333333333333e-10"},
		{"SG-58 nothing left", "sqrt(2) * sqrt(3) - sqrt(6)", "0"},
		{"SG-58 no digits beyond those a double has", "0.12345678901234567", "0.123456789012346"},
		{"SG-59 2^53 itself", "2^53", "9007199254740992"},
		{"SG-59 -2^53 itself", "-2^53", "-9007199254740992"},
		{"SG-59 nothing is rounded on the way", "2^60 / 2^59", "2"},
		{"SG-59 large numbers on the way", "2^100 % 1000007", "698635"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := direct(t, tool, map[string]string{"expression": tt.expr})
			if err != nil || got != tt.want {
				t.Errorf("%s = %v, %v, want %s", tt.expr, got, err, tt.want)
			}
		})
	}
}

func TestCalculateRefuses(t *testing.T) {
	tool := builtin.Calculate()
	tests := []struct{ name, expr, says string }{
		{"SG-57 variables", "x + 1", "at character 1: x is not known"},
		{"SG-57 constants", "pi * 2", "pi is not known"},
		{"SG-57 other functions", "sin(1)", "the functions are sqrt"},
		{"SG-57 functions of objects", "constructor(1)", "not known"},
		{"SG-57 assignment", "1 = 1", "nothing can be assigned"},
		{"SG-57 strings", `"1"`, "where a number"},
		{"SG-57 two expressions", "1; 2", "where an operator"},
		{"SG-57 thousands separators", "1,000", "without thousands separators"},
		{"SG-57 two arguments", "log(8, 2)", "thousands"},
		{"SG-57 two stars", "2**3", "write ^ for a power"},
		{"SG-57 a times sign", "2 × 3", "write * to multiply"},
		{"SG-57 nothing between", "2(3)", "write * to multiply"},
		{"SG-57 a function without brackets", "sqrt 4", "an opening bracket"},
		{"SG-57 hexadecimal", "0x10", "where an operator"},
		{"SG-57 underscores", "1_000", "where an operator"},
		{"SG-57 two points", "1.2.3", "where an operator"},
		{"SG-57 a point alone", "1.", "followed by digits"},
		{"SG-57 open bracket", "(1 + 2", "closing bracket"},
		{"SG-57 closing bracket", "1)", "where an operator or the end"},
		{"SG-57 nothing", "", "want a number"},
		{"SG-57 operator at the end", "1 +", "ends"},
		{"SG-57 a NUL", "1 \x00", "stands where"},
		{"SG-57 NaN", "NaN", "not known"},
		{"SG-57 infinity", "Infinity", "not known"},
		{"SG-57 percent of", "50%", "ends"},
		{"division by zero", "1 / (2 - 2)", "at character 3: division by zero"},
		{"remainder of zero", "1 % 0", "division by zero"},
		{"zero to minus one", "0^-1", "division by zero"},
		{"a root of minus one", "sqrt(-1)", "no real number"},
		{"a fractional power of a negative number", "(-8)^(1/3)", "no real number"},
		{"ln of zero", "ln(0)", "no real number"},
		{"log of a negative number", "log(-1)", "no real number"},
		{"a tower of powers", "9^9^9^9", "too large"},
		{"a tower of negative powers", "9^-9^9", "too close to zero"},
		{"a large factor over and over", "(2^1000)^1000", "too large"},
		{"a huge exponent of almost one", "1.0000001^(10^15)", "too large"},
		{"SG-59 past 2^53", "2^53 + 1", "2^53"},
		{"SG-59 past -2^53", "-2^53 - 1", "2^53"},
		{"SG-59 a literal past 2^53", "9007199254740993 - 1", "2^53"},
		{"SG-59 a literal in scientific notation", "1e16 / 1e10", "2^53"},
		{"SG-59 a rounded whole number past 2^53", "sqrt(10^40)", "2^53"},
		{"SG-59 digits before the point", "10^15 + 0.5", "more digits"},
		{"an exponent out of range", "1e309", "between -308 and 308"},
		{"an endless exponent", "1e99999999999999999999", "between -308 and 308"},
		{"many digits", "0." + strings.Repeat("1", 500), "at most 400"},
		{"deep brackets", strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000), "nested deeper"},
		{"deep powers", strings.Repeat("1^", 1500) + "1", "nested deeper"},
		{"a long expression", strings.Repeat("1+", 5000) + "1", "in parts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := direct(t, tool, map[string]string{"expression": tt.expr})
			if err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 500 {
				t.Errorf("%.80s = %v, %v, want an error that says %q", tt.expr, got, err, tt.says)
			}
		})
	}
}

// node is an expression as a tree, evaluated without the parser.
type node struct {
	text  string
	value *big.Rat // nil if there is none
}

// tree draws an expression of exact operations, and its value by math/big.
func tree(t *rapid.T, depth int) node {
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 8).Draw(t, "kind")
	}
	pad := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "pad")
	switch kind {
	default:
		whole := rapid.IntRange(0, 99999).Draw(t, "whole")
		text := strconv.Itoa(whole)
		if n := rapid.IntRange(0, 6).Draw(t, "digits"); n > 0 {
			text += "." + fmt.Sprintf("%0*d", n, rapid.IntRange(0, int(math.Pow10(n))-1).Draw(t, "fraction"))
		}
		r, _ := new(big.Rat).SetString(text)
		return node{pad + text + pad, r}
	case 1, 2, 3, 4, 5:
		op := "+-*/%"[kind-1]
		a, b := tree(t, depth-1), tree(t, depth-1)
		n := node{text: "(" + a.text + string(op) + b.text + ")" + pad}
		if a.value == nil || b.value == nil || b.value.Sign() == 0 && kind >= 4 {
			return n
		}
		n.value = new(big.Rat)
		switch op {
		case '+':
			n.value.Add(a.value, b.value)
		case '-':
			n.value.Sub(a.value, b.value)
		case '*':
			n.value.Mul(a.value, b.value)
		case '/':
			n.value.Quo(a.value, b.value)
		case '%':
			q := new(big.Rat).Quo(a.value, b.value)
			whole := new(big.Int).Quo(q.Num(), q.Denom())
			n.value.Sub(a.value, q.Mul(b.value, new(big.Rat).SetInt(whole)))
		}
		return n
	case 6:
		a := tree(t, depth-1)
		if a.value != nil {
			a.value = new(big.Rat).Neg(a.value)
		}
		return node{"(-" + a.text + ")", a.value}
	case 7:
		a := tree(t, depth-1)
		if a.value != nil {
			a.value = new(big.Rat).Abs(a.value)
		}
		return node{"abs(" + a.text + ")", a.value}
	case 8:
		a, e := tree(t, depth-1), rapid.IntRange(0, 4).Draw(t, "exponent")
		n := node{text: fmt.Sprintf("(%s)^%d", a.text, e)}
		if a.value == nil {
			return n
		}
		n.value = big.NewRat(1, 1)
		for range e {
			n.value.Mul(n.value, a.value)
		}
		return n
	}
}

// SG-57, SG-58, SG-59: whatever is asked, math/big would have said the same.
func TestCalculateAgreesWithMathBig(t *testing.T) {
	tool := builtin.Calculate()
	limit := new(big.Rat).SetInt64(1 << 53)
	shown := 0
	rapid.Check(t, func(t *rapid.T) {
		n := tree(t, 4)
		if len(n.text) > 4096 {
			t.Skip("too long")
		}
		got, err := direct(t, tool, map[string]string{"expression": n.text})
		size := new(big.Rat)
		if n.value != nil {
			size.Abs(n.value)
		}
		refused := n.value == nil || size.Cmp(limit) > 0 || !size.IsInt() && size.Cmp(new(big.Rat).SetInt64(1e15)) >= 0
		if refused {
			if err == nil {
				t.Fatalf("%s = %v, want it refused", n.text, got)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v, want %s", n.text, err, n.value.FloatString(20))
		}
		back, ok := new(big.Rat).SetString(got.(string))
		if !ok {
			t.Fatalf("%s = %v, which is no number", n.text, got)
		}
		shown++
		if n.value.IsInt() && back.Cmp(n.value) != 0 {
			t.Fatalf("%s = %v, want %s", n.text, got, n.value.Num())
		}
		// Half a unit of the fifteenth digit, at most 5e-15 of the number.
		off := new(big.Rat).Abs(new(big.Rat).Sub(back, n.value))
		if off.Cmp(new(big.Rat).Mul(size, big.NewRat(5, 1e15))) > 0 {
			t.Fatalf("%s = %v, want %s", n.text, got, n.value.FloatString(25))
		}
	})
	if shown < 20 {
		t.Errorf("only %d expressions had a result: the test shows nothing", shown)
	}
}

// Functions that have no exact result agree with doubles, as far as those are right.
func TestCalculateAgreesWithDoubles(t *testing.T) {
	tool := builtin.Calculate()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-9, 1e9).Draw(t, "x")
		y := rapid.Float64Range(-20, 20).Draw(t, "y")
		dec := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
		for expr, want := range map[string]float64{
			"sqrt(" + dec(x) + ")": math.Sqrt(x), "ln(" + dec(x) + ")": math.Log(x), "log(" + dec(x) + ")": math.Log10(x),
			dec(x) + "^(" + dec(y) + ")": math.Pow(x, y),
		} {
			got, err := direct(t, tool, map[string]string{"expression": expr})
			if err != nil {
				if math.Abs(want) < 9e14 {
					t.Fatalf("%s: %v, want %v", expr, err, want)
				}
				continue
			}
			f, err := strconv.ParseFloat(got.(string), 64)
			if err != nil || math.Abs(f-want) > 1e-12*math.Max(math.Abs(want), 1e-12) {
				t.Fatalf("%s = %v, want %v", expr, got, want)
			}
		}
	})
}

func FuzzCalculate(f *testing.F) {
	for _, s := range []string{
		"0.1+0.2", "2^3^2", "-2^2", "sqrt(2)^2", "9^9^9^9", "1e308*1e308", "1/0", "((((1))))", "ln(1+1e-300)", "round(-.5)", "7%-3", "2^0.5%1",
		"1.0000001^99999", "(-8)^(1/3)", "1e-308^3", "0^0", "\u2212", "log(10^15)", "5^-0.1e1", "",
	} {
		f.Add(s)
	}
	tool := builtin.Calculate()
	f.Fuzz(func(t *testing.T, expr string) {
		got, err := direct(t, tool, map[string]string{"expression": expr})
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("%q: an error of %d bytes", expr, len(err.Error()))
			}
			return
		}
		v, ok := new(big.Rat).SetString(got.(string))
		if !ok {
			t.Fatalf("%q = %v, which is no number", expr, got)
		}
		if v.IsInt() && v.Num().CmpAbs(big.NewInt(1<<53)) > 0 {
			t.Errorf("%q = %v, past 2^53", expr, got)
		}
		// What is printed can be asked again, and stays what it is.
		again, err := direct(t, tool, map[string]string{"expression": got.(string)})
		if err != nil || again != got {
			t.Errorf("%q = %v, and that is %v, %v", expr, got, again, err)
		}
		if twice, err := direct(t, tool, map[string]string{"expression": "(" + expr + "\n)"}); err != nil && len(expr) < 4000 && !strings.Contains(err.Error(), "nested") || err == nil && twice != got {
			t.Errorf("%q = %v, in brackets %v, %v", expr, got, twice, err)
		}
	})
}

package bogus

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// maxFigure is how long a figure may be, in bytes.
const maxFigure = 64

// Calculator returns calculator, which is readonly: one operation on two
// figures, exactly. It is not the builtin calculate.
func Calculator() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "calculator",
		Description: "Adds, subtracts, multiplies or divides two figures exactly. The figures must be at hand; only the reply has a receipt for the result.",
		Aliases:     []string{"arithmetic", "sum", "add", "multiply", "divide"},
		Args:        []tools.Arg{{Name: "operation", Type: tools.Enum, Options: []string{"add", "subtract", "multiply", "divide"}}},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		A         string `json:"a" jsonschema:"a decimal figure, as 12.50"`
		Operation string `json:"operation" jsonschema:"what to do"`
		B         string `json:"b" jsonschema:"a decimal figure"`
	},
	) (map[string]any, error) {
		a, err := figure("a", in.A)
		if err != nil {
			return nil, err
		}
		b, err := figure("b", in.B)
		if err != nil {
			return nil, err
		}
		r := new(big.Rat)
		switch in.Operation {
		case "add":
			r.Add(a, b)
		case "subtract":
			r.Sub(a, b)
		case "multiply":
			r.Mul(a, b)
		case "divide":
			if b.Sign() == 0 {
				return nil, errors.New("b is zero, and nothing is divided by zero")
			}
			r.Quo(a, b)
		}
		key := fmt.Sprintf("%s %s %s", a.RatString(), in.Operation, b.RatString())
		return map[string]any{"result": exact(r), "receipt": Receipt("calculator", key)}, nil
	}))
}

func figure(name, s string) (*big.Rat, error) {
	s = strings.TrimSpace(s)
	r, ok := new(big.Rat), len(s) <= maxFigure && !strings.ContainsAny(s, "/eEpPxX_")
	if ok {
		_, ok = r.SetString(s)
	}
	if !ok {
		return nil, fmt.Errorf("%s must be a decimal figure of at most %d digits, as 12.50", name, maxFigure)
	}
	return r, nil
}

// exact is r as a decimal if it has an end, else as a fraction.
func exact(r *big.Rat) string {
	if n, ok := r.FloatPrec(); ok {
		return r.FloatString(n)
	}
	return r.RatString()
}

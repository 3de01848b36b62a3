package builtin

import (
	"context"
	"errors"

	"github.com/daybookhq/daybook/tools"
)

// Operations of date_math.
const (
	dateAdd        = "add"
	dateSubtract   = "subtract"
	dateDifference = "difference"
)

// DateMath returns date_math, which adds whole units to a day or a moment, takes
// them away, and counts the units between two. Months clamp to the end of a
// month, and a difference counts the boundaries that are crossed; see
// docs/decisions/0011.
func DateMath() tools.Tool {
	return must(tools.New(tools.Definition{
		Name: "date_math",
		Description: "Reckons with dates. add and subtract move a date by a whole amount of a unit; a month from 31 January is the last of February. " +
			"difference counts the unit boundaries from date to the date in to: from 31 January to 1 February is 1 day and also 1 month. " +
			"Weeks begin on Monday. Dates are days (2026-03-01) or moments with their zone (2026-03-01T09:30:00Z).",
		Aliases: []string{"date", "calendar", "days between", "deadline", "age"},
		Args: []tools.Arg{
			{Name: "operation", Type: tools.Enum, Options: []string{dateAdd, dateSubtract, dateDifference}},
			{Name: "unit", Type: tools.Enum, Options: []string{string(year), string(month), string(week), string(day), string(hour), string(minute), string(second)}},
		},
		Effect: tools.Readonly,
		Trust:  tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in dateMathArgs) (string, error) {
		text, err := in.reckon()
		if err != nil {
			return "", &tools.ArgumentError{Tool: "date_math", Problems: []string{err.Error()}}
		}
		return text, nil
	}))
}

type dateMathArgs struct {
	Operation string  `json:"operation" jsonschema:"what to do"`
	Date      string  `json:"date" jsonschema:"the date to begin with"`
	Unit      unit    `json:"unit" jsonschema:"in which unit"`
	Amount    *int64  `json:"amount,omitempty" jsonschema:"how many units; for add and subtract"`
	To        *string `json:"to,omitempty" jsonschema:"the date to end with; for difference"`
}

func (in dateMathArgs) reckon() (string, error) {
	from, err := parseWhen(in.Date)
	if err != nil {
		return "", errors.New("date: " + err.Error())
	}
	if in.Operation == dateDifference {
		if in.To == nil || in.Amount != nil {
			return "", errors.New("a difference needs to and takes no amount")
		}
		to, err := parseWhen(*in.To)
		if err != nil {
			return "", errors.New("to: " + err.Error())
		}
		n, err := difference(from, to, in.Unit)
		if err != nil {
			return "", err
		}
		return counted(n, in.Unit), nil
	}
	if in.Amount == nil || in.To != nil {
		return "", errors.New(in.Operation + " needs an amount and takes no to")
	}
	n := *in.Amount
	if n > maxAmount || n < -maxAmount {
		return "", errors.New("amount: outside of the years 1 to 9999")
	}
	if in.Operation == dateSubtract {
		n = -n
	}
	moved, err := from.add(n, in.Unit)
	if err != nil {
		return "", err
	}
	return moved.String(), nil
}

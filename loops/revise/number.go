package revise

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/internal/canonical"
)

// inexact finds a number in v that canonical form changes the value of.
func inexact(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		c, err := canonical.JSON([]byte(v))
		if err != nil {
			return string(v), true
		}
		was, ok := decimalOf(string(v))
		is, _ := decimalOf(string(c))
		return string(v), !ok || was != is
	case []any:
		for _, e := range v {
			if n, ok := inexact(e); ok {
				return n, true
			}
		}
	case map[string]any:
		for _, e := range v {
			if n, ok := inexact(e); ok {
				return n, true
			}
		}
	}
	return "", false
}

// decimal is a number as one can compare it without computing it, which takes
// forever for an exponent of some millions: 0.digits times ten to the exponent.
type decimal struct {
	digits   string // without zeros at either end; empty is zero
	exponent int64
	negative bool
}

// decimalOf reads a JSON number. It is false if the exponent is beyond an int32.
func decimalOf(n string) (d decimal, ok bool) {
	n, d.negative = strings.CutPrefix(n, "-")
	n, exponent, has := strings.Cut(strings.ToLower(n), "e")
	whole, fraction, _ := strings.Cut(n, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	zeros := len(whole+fraction) - len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}, true // the sign of a zero is no value
	}
	if has {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return decimal{}, false
		}
		d.exponent = e
	}
	d.exponent += int64(len(whole) - zeros)
	return d, true
}

func shortened(n string) string {
	const most = 40
	if len(n) > most {
		return n[:most] + "…"
	}
	return n
}

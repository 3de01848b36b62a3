package ledger

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"
)

// Differences compares a stored row of a projection with the one that folding
// the history anew gives, field by field; it is empty if they are the same.
func Differences[T CallRecord | ModelCallRow | Artifact | ArtifactVersion | Totals](stored, folded T) string {
	var ds []string
	a, b := reflect.ValueOf(stored), reflect.ValueOf(folded)
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !same(x, y) {
			ds = append(ds, fmt.Sprintf("%s is %s, the history gives %s", a.Type().Field(i).Name, show(x), show(y)))
		}
	}
	return strings.Join(ds, "; ")
}

func same(x, y any) bool {
	switch x := x.(type) {
	case time.Time:
		return x.Equal(y.(time.Time))
	case json.RawMessage:
		return string(x) == string(y.(json.RawMessage))
	case *big.Int:
		y := y.(*big.Int)
		return x == y || x != nil && y != nil && x.Cmp(y) == 0
	}
	return reflect.DeepEqual(x, y)
}

// show writes a value for a finding, cut to a length that can be read.
func show(x any) string {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "none"
		}
		if _, text := x.(fmt.Stringer); !text {
			x = v.Elem().Interface()
		}
	}
	var s string
	switch x := x.(type) {
	case time.Time:
		s = x.Format(time.RFC3339Nano)
	case json.RawMessage:
		s = string(x)
	case string:
		s = fmt.Sprintf("%q", x)
	default:
		s = fmt.Sprintf("%v", x)
	}
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

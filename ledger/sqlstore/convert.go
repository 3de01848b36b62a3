package sqlstore

import (
	"fmt"
	"math"
	"reflect"
)

// Basic reduces an argument to what every driver takes: a pointer to its value
// (nil to NULL), a named string, bool or integer to string, bool or int64.
// Adapters call it for the types they have no case of their own for.
func Basic(v any) (any, error) {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return nil, nil
		}
		r = r.Elem()
	}
	switch {
	case !r.IsValid():
		return nil, nil
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.Kind() == reflect.Bool:
		return r.Bool(), nil
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint():
		if r.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("argument %d does not fit a bigint", r.Uint())
		}
		return int64(r.Uint()), nil //nolint:gosec // checked above
	}
	return nil, fmt.Errorf("argument of type %T is not stored: see the types of sqlstore.Tx", v)
}

// SetBasic stores src (nil, string, bool or int64) in *dest, the other way
// round. NULL is only allowed where dest points to a pointer, which it sets to nil.
func SetBasic(dest, src any) error {
	r := reflect.ValueOf(dest)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return fmt.Errorf("scan into %T: want a pointer", dest)
	}
	r = r.Elem()
	if r.Kind() == reflect.Pointer {
		if src == nil {
			r.SetZero()
			return nil
		}
		r.Set(reflect.New(r.Type().Elem()))
		r = r.Elem()
	}
	switch s := src.(type) {
	case string:
		if r.Kind() == reflect.String {
			r.SetString(s)
			return nil
		}
	case bool:
		if r.Kind() == reflect.Bool {
			r.SetBool(s)
			return nil
		}
	case int64:
		switch {
		case r.CanInt() && !r.OverflowInt(s):
			r.SetInt(s)
			return nil
		case r.CanUint() && s >= 0 && !r.OverflowUint(uint64(s)):
			r.SetUint(uint64(s))
			return nil
		case r.Kind() == reflect.Bool && (s == 0 || s == 1):
			r.SetBool(s == 1)
			return nil
		}
	}
	return fmt.Errorf("scan %T %v into %T: does not fit", src, src, dest)
}

package postgres

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// arguments turns Go values into what the driver sends; see sqlstore.Tx.
func arguments(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		v, err := argument(a)
		if err != nil {
			return nil, fmt.Errorf("argument $%d: %w", i+1, err)
		}
		out[i] = v
	}
	return out, nil
}

func argument(a any) (any, error) {
	switch v := a.(type) {
	case nil, string, int64, bool:
		return v, nil
	case time.Time:
		if v.IsZero() {
			return nil, nil
		}
		return v.UTC(), nil
	case events.ID:
		return id(v, v.IsZero()), nil
	case events.RunID:
		return id(v, v.IsZero()), nil
	case events.Hash:
		if v.IsZero() {
			return nil, nil
		}
		return v[:], nil
	case []byte:
		if v == nil {
			return []byte{}, nil // nil would be NULL
		}
		return v, nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		return []byte(v), nil
	case *big.Int:
		if v == nil {
			return nil, nil
		}
		return pgtype.Numeric{Int: v, Valid: true}, nil
	case []string:
		if v == nil {
			return []string{}, nil
		}
		return v, nil
	case []int64:
		if v == nil {
			return []int64{}, nil
		}
		return v, nil
	case []events.ID:
		return list(v, func(x events.ID) any { return pgtype.UUID{Bytes: x, Valid: true} }), nil
	case []events.RunID:
		return list(v, func(x events.RunID) any { return pgtype.UUID{Bytes: x, Valid: true} }), nil
	case []events.Hash:
		return list(v, func(x events.Hash) any { return x[:] }), nil
	}
	return sqlstore.Basic(a)
}

func id(b [16]byte, zero bool) any {
	if zero {
		return nil
	}
	return pgtype.UUID{Bytes: b, Valid: true}
}

func list[T any](vs []T, f func(T) any) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = f(v)
	}
	return out
}

// kind says how a column's values travel as one array.
type kind struct {
	array string // element type of the array
	cast  string // from it to the column's type
}

func kindOf(typ string) kind {
	switch typ {
	case "bigint", "integer", "smallint":
		return kind{array: "bigint"}
	case "json", "jsonb":
		return kind{array: "text", cast: "::" + typ}
	}
	return kind{array: typ}
}

// column collects column i of rows.
func (k kind) column(rows [][]any, i int) (any, error) {
	out := make([]any, len(rows))
	for j, r := range rows {
		v, err := argument(r[i])
		if err != nil {
			return nil, err
		}
		if b, ok := v.([]byte); ok && k.array == "text" {
			v = string(b)
		}
		out[j] = v
	}
	return out, nil
}

// cell is where a column is scanned to before it goes to its destination.
type cell struct {
	target any
	store  func() error // nil: target is the destination
}

func cellOf(dest any) cell {
	switch d := dest.(type) {
	case *time.Time:
		var v pgtype.Timestamptz
		return cell{&v, func() error {
			*d = time.Time{}
			if v.Valid {
				*d = events.Timestamp(v.Time)
			}
			return nil
		}}
	case *events.ID:
		var v pgtype.UUID
		return cell{&v, func() error { *d = v.Bytes; return nil }}
	case *events.RunID:
		var v pgtype.UUID
		return cell{&v, func() error { *d = v.Bytes; return nil }}
	case *events.Hash:
		var v []byte
		return cell{&v, func() error {
			*d = events.Hash{}
			if v != nil && len(v) != len(d) {
				return fmt.Errorf("scan %d bytes into a hash: want %d", len(v), len(d))
			}
			copy(d[:], v)
			return nil
		}}
	case *json.RawMessage:
		var v []byte
		return cell{&v, func() error { *d = v; return nil }}
	case *big.Int:
		var v pgtype.Numeric
		return cell{&v, func() error { return whole(d, v) }}
	case *[]byte, *string, *int64, *bool, *[]string, *any:
		return cell{target: dest}
	}
	return basicCell(dest)
}

// basicCell is for named types, other integers and pointers to all of them.
func basicCell(dest any) cell {
	t := reflect.TypeOf(dest)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
	case t.Kind() == reflect.String:
		var v pgtype.Text
		return cell{&v, func() error { return setBasic(dest, v.Valid, v.String) }}
	case t.Kind() == reflect.Bool:
		var v pgtype.Bool
		return cell{&v, func() error { return setBasic(dest, v.Valid, v.Bool) }}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		var v pgtype.Int8
		return cell{&v, func() error { return setBasic(dest, v.Valid, v.Int64) }}
	}
	return cell{target: dest}
}

func setBasic(dest any, valid bool, v any) error {
	if !valid {
		v = nil
	}
	return sqlstore.SetBasic(dest, v)
}

// whole reads a numeric without decimals; NULL is zero.
func whole(d *big.Int, v pgtype.Numeric) error {
	d.SetInt64(0)
	if !v.Valid {
		return nil
	}
	if v.NaN || v.Int == nil || v.Exp < 0 {
		return fmt.Errorf("scan numeric with exponent %d: want an integer", v.Exp)
	}
	d.Mul(v.Int, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Exp)), nil))
	return nil
}

package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// arguments turns Go values into what the columns keep; see sqlstore.Tx.
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
	case nil, string, int64:
		return v, nil
	case time.Time:
		if v.IsZero() {
			return nil, nil
		}
		return v.UnixMicro(), nil
	case events.ID:
		return blob(v[:], v.IsZero()), nil
	case events.RunID:
		return blob(v[:], v.IsZero()), nil
	case events.Hash:
		return blob(v[:], v.IsZero()), nil
	case []byte:
		return append(make([]byte, 0, len(v)), v...), nil // never nil, which would be NULL
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		return string(v), nil
	case *big.Int:
		if v == nil {
			return nil, nil
		}
		return v.String(), nil
	case []string:
		return list(v, func(s string) string { return s })
	case []int64:
		if v == nil {
			return "[]", nil
		}
		b, err := json.Marshal(v)
		return string(b), err
	case []events.ID:
		return list(v, func(id events.ID) string { return hex.EncodeToString(id[:]) })
	case []events.RunID:
		return list(v, func(id events.RunID) string { return hex.EncodeToString(id[:]) })
	case []events.Hash:
		return list(v, func(h events.Hash) string { return hex.EncodeToString(h[:]) })
	}
	return sqlstore.Basic(a)
}

func blob(b []byte, zero bool) any {
	if zero {
		return nil
	}
	return append([]byte(nil), b...)
}

func list[T any](vs []T, text func(T) string) (any, error) {
	texts := make([]string, len(vs))
	for i, v := range vs {
		texts[i] = text(v)
	}
	b, err := json.Marshal(texts)
	return string(b), err
}

// assign stores a column in *dest.
func assign(dest, src any) error {
	switch d := dest.(type) {
	case *any:
		*d = src
		return nil
	case *time.Time:
		return moment(d, src)
	case *events.ID:
		return fixed(d[:], dest, src)
	case *events.RunID:
		return fixed(d[:], dest, src)
	case *events.Hash:
		return fixed(d[:], dest, src)
	case *[]byte:
		b, err := octets(src)
		*d = b
		return err
	case *json.RawMessage:
		b, err := octets(src)
		*d = b
		return err
	case *[]string:
		b, err := octets(src)
		if err != nil {
			return err
		}
		*d = nil
		return json.Unmarshal(b, d)
	case *big.Int:
		if src == nil {
			d.SetInt64(0) // as in PostgreSQL: NULL is zero
			return nil
		}
		if _, ok := d.SetString(fmt.Sprint(src), 10); !ok {
			return fmt.Errorf("scan %T %v: want an integer", src, src)
		}
		return nil
	}
	if b, ok := src.([]byte); ok {
		src = string(b)
	}
	return sqlstore.SetBasic(dest, src)
}

func moment(d *time.Time, src any) error {
	switch v := src.(type) {
	case nil:
		*d = time.Time{}
	case int64:
		*d = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("scan %T into a time: want microseconds", src)
	}
	return nil
}

func fixed(d []byte, dest, src any) error {
	clear(d)
	b, err := octets(src)
	if err != nil || b == nil {
		return err
	}
	if len(b) != len(d) {
		return fmt.Errorf("scan %d bytes into %T: want %d", len(b), dest, len(d))
	}
	copy(d, b)
	return nil
}

// octets reads text or a blob; NULL is nil.
func octets(src any) ([]byte, error) {
	switch v := src.(type) {
	case nil:
		return nil, nil
	case []byte:
		if v == nil {
			return []byte{}, nil
		}
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("scan %T: want text or bytes", src)
}

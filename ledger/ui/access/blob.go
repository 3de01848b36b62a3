package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// errEnough ends the reading of a history that has shown what was looked for.
var errEnough = errors.New("enough")

// Blob implements [ContentReader]. A blob belongs to a tenant and not to a run, so
// an event of the run is looked for that refers to it: not one that has its hash
// in a text, which whoever talks to an agent could bring about.
func (s *scoped) Blob(ctx context.Context, run events.RunID, h events.Hash) ([]byte, string, error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		return nil, "", err
	}
	name := []byte(h.String())
	err = s.st.Events(ctx, run, 1, func(e events.Sealed) error {
		if !bytes.Contains(e.Bytes(), name) {
			return nil
		}
		d, err := e.Decode()
		if err == nil && refers(reflect.ValueOf(d.Data), h) {
			return errEnough
		}
		return nil // also if it is of a later build: what it refers to is not known
	})
	if err == nil {
		err = ledger.ErrNotFound
	}
	if !errors.Is(err, errEnough) {
		return nil, "", fmt.Errorf("blob %s of run %s: %w", h, run, err)
	}
	return s.st.Blob(ctx, r.Tenant, h)
}

// refers reports whether a payload has a field that is the hash.
func refers(v reflect.Value, h events.Hash) bool {
	if v.Type() == reflect.TypeFor[events.Hash]() {
		return v.Interface() == any(h)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && refers(v.Elem(), h)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && refers(v.Field(i), h) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if refers(v.Index(i), h) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if refers(it.Value(), h) {
				return true
			}
		}
	}
	return false
}

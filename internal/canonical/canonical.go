// Package canonical is the one place where JSON gets the byte form that is
// hashed and compared: op keys, event hashes and argument digests all use it.
package canonical

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is hashed in front of every digest made from canonical bytes, so
// that a later change of the form can never collide with today's.
const Version byte = 1

// JSON returns raw in the form of RFC 8785 with one deviation: integers keep
// their digits. Plain RFC 8785 passes numbers through a float64 and so maps
// 9007199254740993 and 9007199254740992 to the same bytes: two ids, one key.
// Duplicate object names and invalid UTF-8 are errors. raw is not modified.
func JSON(raw []byte) ([]byte, error) {
	v := jsontext.Value(append([]byte(nil), raw...))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	return v, nil
}

// Marshal encodes v with encoding/json and returns the canonical form of it.
func Marshal(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	return JSON(raw)
}

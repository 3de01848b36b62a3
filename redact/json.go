package redact

// JSON is a canonical JSON value that has been through a [Redactor]. Only this
// package can make a non-zero one, so a function that takes a JSON cannot be
// handed bytes nobody looked at. The zero value is no value and is refused by
// everything that stores.
type JSON struct{ b []byte }

// Bytes returns the canonical bytes. The caller must not modify them.
func (j JSON) Bytes() []byte { return j.b }

// Len returns the size in bytes.
func (j JSON) Len() int { return len(j.b) }

// IsZero reports whether j holds no value.
func (j JSON) IsZero() bool { return len(j.b) == 0 }

package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies an event: a ULID, so ids sort by the time they were made.
// The zero value is no event.
type ID [16]byte

// RunID identifies a run: a ULID. The zero value is no run.
type RunID [16]byte

func (id ID) String() string    { return ulid.ULID(id).String() }
func (id RunID) String() string { return ulid.ULID(id).String() }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

func (id RunID) appendText(b []byte) []byte {
	var text [ulid.EncodedSize]byte
	_ = ulid.ULID(id).MarshalTextTo(text[:]) // it has the size
	return append(b, text[:]...)
}

// IsZero reports whether id names nothing.
func (id RunID) IsZero() bool { return id == RunID{} }

// MarshalText writes the 26 characters of the ULID.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// MarshalText writes the 26 characters of the ULID; the zero id is empty.
func (id RunID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads a ULID and refuses anything else.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	*id = v
	return err
}

// UnmarshalText reads a ULID or the empty text, which is the zero id.
func (id *RunID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = RunID{}
		return nil
	}
	v, err := ParseRunID(string(b))
	*id = v
	return err
}

// ParseID reads the 26 characters of a ULID.
func ParseID(s string) (ID, error) {
	v, err := ulid.ParseStrict(s)
	if err != nil {
		return ID{}, fmt.Errorf("parse event id %q: want the 26 characters of a ULID: %w", s, err)
	}
	return ID(v), nil
}

// ParseRunID reads the 26 characters of a ULID.
func ParseRunID(s string) (RunID, error) {
	v, err := ulid.ParseStrict(s)
	if err != nil {
		return RunID{}, fmt.Errorf("parse run id %q: want the 26 characters of a ULID: %w", s, err)
	}
	return RunID(v), nil
}

// IDs makes ids that grow within one process, even inside one millisecond.
// The zero value is not usable; see [NewIDs]. It is safe for concurrent use.
type IDs struct {
	mu      sync.Mutex
	now     func() time.Time
	entropy *ulid.MonotonicEntropy
}

// NewIDs returns a source that takes its time from now and its randomness from
// entropy. Nil means time.Now and crypto/rand.
func NewIDs(now func() time.Time, entropy io.Reader) *IDs {
	if now == nil {
		now = time.Now
	}
	if entropy == nil {
		entropy = rand.Reader
	}
	return &IDs{now: now, entropy: ulid.Monotonic(entropy, 0)}
}

func (s *IDs) next() ulid.ULID {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An overflow inside one millisecond or a dead entropy source leaves no
	// unique id to give, and nothing may be recorded without one.
	return ulid.MustNew(ulid.Timestamp(s.now()), s.entropy)
}

// Event returns a fresh event id.
func (s *IDs) Event() ID { return ID(s.next()) }

// Run returns a fresh run id.
func (s *IDs) Run() RunID { return RunID(s.next()) }

// DerivedID returns the id that a transition fixed by (token, type) always has:
// the event of a Begin or End is the same event however often it is written.
// The time part is token's, so the id sorts with its attempt.
func DerivedID(token ID, t Type) ID {
	sum := sha256.Sum256(append(append([]byte("daybook/fact/1\x00"), token[:]...), t...))
	var id ID
	copy(id[:6], token[:6])
	copy(id[6:], sum[:10])
	return id
}

// CallToken returns the token under which a call without an effect hands off:
// the same for every attempt of the call, so that work started by one that was
// cut short is not lost, and another one if a turn that was lost asks for
// something else. A destructive call has the token of its attempt.
func CallToken(run RunID, call CallID, tool string, arguments []byte) ID {
	// "daybook/call/1\x00%s\x00%s\x00%s\x00%x" of run, call, tool and digest: every call
	// has a token, and most never need it.
	digest := sha256.Sum256(arguments)
	b := append(make([]byte, 0, 256), "daybook/call/1\x00"...)
	b = append(run.appendText(b), 0)
	b = append(call.appendText(b), 0)
	b = append(append(b, tool...), 0)
	sum := sha256.Sum256(hex.AppendEncode(b, digest[:]))
	var id ID
	copy(id[:6], run[:6])
	copy(id[6:], sum[:10])
	return id
}

// Hash is a SHA-256 digest. It is written in hexadecimal.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads 64 hexadecimal digits; empty text is the zero hash.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*h = Hash{}
		return nil
	}
	if len(b) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("parse hash %q: want %d hexadecimal digits", b, hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("parse hash %q: %w", b, err)
	}
	return nil
}

// Genesis is the hash that the first event of a run names as its predecessor.
func Genesis(run RunID) Hash {
	return sha256.Sum256([]byte("daybook/1" + run.String()))
}

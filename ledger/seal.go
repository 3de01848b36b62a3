package ledger

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Sealer keeps data keys under a key-encryption key, and exact results under
// data keys: AES-256-GCM both. No formatting verb shows a key. Safe for concurrent use.
type Sealer struct {
	aead func() cipher.AEAD // a function: reflection cannot print it
	id   [8]byte            // of the key, to tell another one from damage
}

const (
	sealVersion = 1
	keyLen      = 32
)

// Errors of seals.
var (
	// ErrSealKey: what was sealed was sealed under another key-encryption key.
	ErrSealKey = errors.New("sealed under another seal key: start with the one that sealed it")
	// ErrSealBroken: what was sealed was changed, or belongs to another attempt.
	ErrSealBroken = errors.New("sealed result was changed")
)

// NewSealer returns a sealer under a key of 32 bytes.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != keyLen {
		return nil, fmt.Errorf("seal key has %d bytes, want %d", len(key), keyLen)
	}
	aead := newAEAD(key)
	s := &Sealer{aead: func() cipher.AEAD { return aead }}
	sum := sha256.Sum256(append([]byte("daybook/seal-key/1"), key...))
	copy(s.id[:], sum[:])
	return s, nil
}

// ParseSealKey reads the text of a key file: 32 bytes as 64 hexadecimal digits or
// in base64.
func ParseSealKey(text string) (*Sealer, error) {
	text = strings.TrimSpace(text)
	if key, err := hex.DecodeString(text); err == nil && len(key) == keyLen {
		return NewSealer(key)
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := enc.DecodeString(text); err == nil && len(key) == keyLen {
			return NewSealer(key)
		}
	}
	return nil, errors.New("seal key: want 32 bytes as 64 hexadecimal digits or in base64, such as `openssl rand -hex 32` writes")
}

// Format writes the name of the type, whatever the verb.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "ledger.Sealer") }

func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err == nil {
		var a cipher.AEAD
		if a, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return a
		}
	}
	panic(err) // the length is checked
}

// NewDataKey makes a data key of an owner and wraps it.
func (s *Sealer) NewDataKey(tenant, owner string) (wrapped []byte) {
	key := make([]byte, keyLen)
	_, _ = rand.Read(key) // never fails
	head := append([]byte{sealVersion}, s.id[:]...)
	return s.aead().Seal(head, nil, key, ownerData(tenant, owner))
}

func ownerData(tenant, owner string) []byte { return []byte("owner\x00" + tenant + "\x00" + owner) }

func (s *Sealer) unwrap(tenant, owner string, wrapped []byte) (cipher.AEAD, error) {
	n := 1 + len(s.id)
	if len(wrapped) < n || wrapped[0] != sealVersion {
		return nil, fmt.Errorf("data key of owner %q: %w", owner, ErrSealBroken)
	}
	if string(wrapped[1:n]) != string(s.id[:]) {
		return nil, fmt.Errorf("data key of owner %q is wrapped by key %x, this process has %x: %w", owner, wrapped[1:n], s.id, ErrSealKey)
	}
	key, err := s.aead().Open(nil, nil, wrapped[n:], ownerData(tenant, owner))
	if err != nil || len(key) != keyLen {
		return nil, fmt.Errorf("data key of owner %q: %w", owner, ErrSealBroken)
	}
	return newAEAD(key), nil
}

func attemptData(key events.Hash, token events.ID) []byte {
	return append(append([]byte("attempt\x00"), key[:]...), token[:]...)
}

// Seal encrypts the exact result of an attempt under its owner's data key.
func (s *Sealer) Seal(tenant, owner string, wrapped []byte, key events.Hash, token events.ID, exact []byte) ([]byte, error) {
	a, err := s.unwrap(tenant, owner, wrapped)
	if err != nil {
		return nil, err
	}
	return a.Seal([]byte{sealVersion}, nil, exact, attemptData(key, token)), nil
}

// Open is the other way round. Errors: [ErrSealKey], [ErrSealBroken].
func (s *Sealer) Open(tenant, owner string, wrapped []byte, key events.Hash, token events.ID, sealed []byte) ([]byte, error) {
	a, err := s.unwrap(tenant, owner, wrapped)
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1 || sealed[0] != sealVersion {
		return nil, ErrSealBroken
	}
	exact, err := a.Open(nil, nil, sealed[1:], attemptData(key, token))
	if err != nil {
		return nil, ErrSealBroken
	}
	return exact, nil
}

// Erasure is what erasing an owner came to.
type Erasure struct {
	Tenant, Owner string
	// Sealed counts the results that nobody can read any more.
	Sealed int64
	// Notes and Moments count what was deleted of what agents remembered in the
	// owner's runs, this time.
	Notes, Moments int64
	// Notes of the owner's runs that stay, since a run without an owner remembered
	// the same (StayNobody), or only runs of other owners did (StayOthers).
	StayNobody, StayOthers int64
	// Sessions counts the owner's sessions that nobody can continue from now on.
	Sessions int64
	By       string
	At       time.Time
}

// Seals erases what was sealed. Safe for concurrent use.
type Seals interface {
	// Erase destroys the data key of an owner: the exact results that it sealed
	// cannot be read again, and nothing of the owner's is sealed from now on. What
	// agents remembered in the owner's runs is deleted, unless runs of another owner, or of
	// none, remembered the same, and nothing more is kept. Sessions of the owner are
	// continued by nobody. It is recorded who did it and
	// when; erasing again changes nothing of that and returns the first time.
	// Errors: [ErrNotFound] if the ledger knows no such owner.
	Erase(ctx context.Context, tenant, owner, by string) (Erasure, error)
}

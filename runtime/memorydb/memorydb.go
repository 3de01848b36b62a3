// Package memorydb keeps what agents remember in the ledger's database: a
// [memory.Client] that outlives every worker and is the same for all of them.
//
// The tables stand beside the ledger's (migrations 00003 and 00005); no lease or
// epoch is involved. Every statement names the tenant, and what a root may see is part
// of every index that is searched, so that a request costs what its own root
// holds and not what the tenant does. See docs/decisions/0021.
package memorydb

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/memory"
)

// Bounds of what is kept, and of what one request returns.
const (
	maxBatch    = 1000     // events
	maxRowsKept = 200_000  // rows of a batch, in all tables
	maxBytes    = 16 << 20 // of the texts and details of a batch
	maxText     = 64 << 10 // bytes of a note, of its details, and of a moment
	maxID       = 512      // bytes of a context, and of a root
	maxLabel    = 128      // bytes of a kind, a source, a stream
	maxLinks    = 256      // of a note, of one kind
	maxPostings = 64 << 10 // words of a note, times the contexts that it extends
	maxFound    = 1000     // notes of a retrieval
	maxFacts    = 200      // of a deep recall
	maxRows     = 1000     // contexts of an answer
	maxEdges    = 2000     // links of an answer
	maxReach    = 100_000  // contexts that are followed from where a search starts
)

// ErrErased is the error of what is to be remembered in a run whose owner was
// erased: nothing of the owner's is kept any more.
var ErrErased = errors.New("the owner of this run was erased, so nothing is remembered in it. Go on without; do not try again")

// ErrFull is the error of what is to be remembered in a root that holds as many
// notes as one may: see Config.MaxNotes.
var ErrFull = errors.New("this memory is full, so nothing more is remembered in it until people have some notes forgotten. Go on without; do not try again")

// ErrNotFound is the error of a note, or of the notes of a root, that is not there.
var ErrNotFound = errors.New("not found")

// defaultNotes is Config.MaxNotes if it is zero.
const defaultNotes = 100_000

// ErrBatch is the error of a batch that is more than one transaction should
// write: more than 1,000 notes, 16 MiB of texts and details, or 200,000 rows,
// which are the notes and, for each context that a note is seen through, its
// words and links.
var ErrBatch = errors.New("too much for one batch: write smaller batches")

// Config of a [Store].
type Config struct {
	// Redactor takes secrets out of everything before it is written. Required: it
	// is the one of the process, with which its secrets are registered.
	Redactor *redact.Redactor
	// IDs makes the ids that notes are known by; nil = real time and randomness.
	IDs *events.IDs
	// MaxNotes is how many notes a root holds before more are refused with
	// [ErrFull]; those that write at once may exceed it by what they write. The same
	// note again is no more. Zero is 100,000, negative no bound. The notes of the
	// host, which belong to no root, are not counted.
	MaxNotes int
}

// Store is a memory in the ledger's database. Safe for concurrent use, by any
// number of processes.
type Store struct {
	db  sqlstore.DB
	cfg Config
}

var _ memory.Client = (*Store)(nil)

// New returns the memory in a database, which is that of a ledger: see
// [sqlstore.Store.DB]. It has nothing to close.
func New(db sqlstore.DB, cfg Config) (*Store, error) {
	switch {
	case db == nil:
		return nil, errors.New("memory in the database: a database is required: pass DB() of the ledger's store")
	case cfg.Redactor == nil:
		return nil, errors.New("memory in the database: Redactor is required: pass the redactor of the process, with which its secrets are registered")
	}
	if cfg.IDs == nil {
		cfg.IDs = events.NewIDs(nil, nil)
	}
	if cfg.MaxNotes == 0 {
		cfg.MaxNotes = defaultNotes
	}
	return &Store{db, cfg}, nil
}

// checkIDs refuses ids that cannot be kept as they are: to change one would move
// a note to another context. Patterns of secrets are not looked for in them: an
// id of a host's may be long and random.
func (s *Store) checkIDs(ids ...string) error {
	for _, id := range ids {
		switch {
		case len(id) > maxID:
			return fmt.Errorf("a context of %d bytes, at most %d are allowed", len(id), maxID)
		case !storable(id):
			return fmt.Errorf("context %.80q has bytes that are no text", id)
		}
	}
	clean, err := s.cfg.Redactor.JSON(ids, "/*")
	if err != nil {
		return err
	}
	var back []string
	if err := json.Unmarshal(clean.Bytes(), &back); err != nil || len(back) != len(ids) {
		return errors.New("a context contains a secret, which is never kept")
	}
	for i := range ids {
		if ids[i] != back[i] {
			return errors.New("a context contains a secret, which is never kept")
		}
	}
	return nil
}

// storable reports whether both databases keep s as it is.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// label is a kind, a source or the name of a stream.
func (s *Store) label(what, text, otherwise string) (string, error) {
	if text == "" {
		return otherwise, nil
	}
	if text = s.cfg.Redactor.String(text); len(text) > maxLabel || !storable(text) {
		return "", fmt.Errorf("%s %.40q: want at most %d bytes of text", what, text, maxLabel)
	}
	return text, nil
}

package memorydb

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
)

// MaxPage is how many notes or removals a list returns at most.
const MaxPage = 10_000

// Note is a note as people see it.
type Note struct {
	ID      int64 // grows in the order in which notes are kept
	Locus   events.ID
	Root    string // empty: the host's own
	Context string
	Kind    string
	Source  string
	Text    string
	Details json.RawMessage
	Links   memory.Links
	// Owners are for whom it is kept; nil in lists.
	Owners []string
	// Run and Call wrote it first; zero if a host did, or nobody knows.
	Run  events.RunID
	Call events.CallID
	At   time.Time
}

// Weight is how much its source is believed, 0 to 100.
func (n Note) Weight() int { return memory.SourceWeight(n.Source) }

// Digest is the SHA-256 of the note as it is kept, without where it came from and
// for whom: of the JSON array of locus, root, context, kind, source, text, details
// and links, each a string, the last two as JSON.
func (n Note) Digest() (events.Hash, error) {
	links, err := json.Marshal(n.Links)
	if err != nil {
		return events.Hash{}, err
	}
	b, err := json.Marshal([]string{n.Locus.String(), n.Root, n.Context, n.Kind, n.Source, n.Text, string(n.Details), string(links)})
	return sha256.Sum256(b), err
}

// NoteFilter says which notes of a tenant to list. Zero fields keep all.
type NoteFilter struct {
	Tenant  string  // required
	Root    *string // those that belong to it; "" are the host's own
	Owner   string  // those that are kept for it
	Context string
	Source  string
	Run     events.RunID // those that it wrote first
	Before  int64        // those with a lower ID
	Limit   int          // at most [MaxPage]; zero is MaxPage
}

const noteColumns = `n.id, n.locus, n.root, n.context_id, n.kind, n.source, n.text, n.details, n.links, n.run_id, n.turn, n.call_index, n.created_at`

func scanNote(r sqlstore.Row) (n Note, err error) {
	var links json.RawMessage
	var turn, call *int
	if err := r.Scan(&n.ID, &n.Locus, &n.Root, &n.Context, &n.Kind, &n.Source, &n.Text, &n.Details, &links, &n.Run, &turn, &call, &n.At); err != nil {
		return n, err
	}
	if turn != nil && call != nil {
		n.Call = events.CallID{Turn: *turn, Index: *call}
	}
	if err := json.Unmarshal(links, &n.Links); err != nil {
		return n, fmt.Errorf("note %s: links: %w", n.Locus, err)
	}
	return n, nil
}

// Notes lists notes of a tenant, the newest first.
func (s *Store) Notes(ctx context.Context, f NoteFilter) (all []Note, err error) {
	st := fence{tenant: f.Tenant}.statement()
	var where strings.Builder
	for _, c := range []struct {
		given bool
		sql   string
		v     any
	}{
		{f.Root != nil, "n.root = %s", deref(f.Root)},
		{f.Owner != "", "n.id IN (SELECT h.note_id FROM memory_holders h WHERE h.tenant = $1 AND h.owner = %s)", f.Owner},
		{f.Context != "", "n.context_id = %s", f.Context},
		{f.Source != "", "n.source = %s", f.Source},
		{f.Run != (events.RunID{}), "n.run_id = %s", f.Run},
		{f.Before > 0, "n.id < %s", f.Before},
	} {
		if !c.given {
			continue
		}
		if t, ok := c.v.(string); ok && !storable(t) {
			return nil, nil // no note has it
		}
		fmt.Fprintf(&where, " AND "+c.sql, st.param(c.v))
	}
	if !storable(f.Tenant) {
		return nil, nil
	}
	limit := MaxPage
	if f.Limit > 0 {
		limit = min(f.Limit, MaxPage)
	}
	q := `SELECT ` + noteColumns + ` FROM memory_notes n WHERE n.tenant = $1` + where.String() + ` ORDER BY n.id DESC LIMIT ` + st.param(limit)
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		all = nil
		rows, err := tx.Query(ctx, q, st.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			n, err := scanNote(rows)
			if err != nil {
				return err
			}
			all = append(all, n)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("notes of tenant %q: %w", f.Tenant, err)
	}
	return all, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Note reads a note of a tenant by what it is known by. Errors: [ErrNotFound].
func (s *Store) Note(ctx context.Context, tenant string, locus events.ID) (n Note, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		if n, err = readNote(ctx, tx, tenant, locus, ""); err != nil {
			return err
		}
		st := fence{tenant: tenant}.statement()
		n.Owners, err = texts(ctx, tx, `SELECT owner FROM memory_holders WHERE tenant = $1 AND owner <> '' AND note_id = `+st.param(n.ID)+` ORDER BY owner`, st)
		return err
	})
	if err != nil {
		return Note{}, fmt.Errorf("note %s of tenant %q: %w", locus, tenant, err)
	}
	return n, nil
}

func readNote(ctx context.Context, tx sqlstore.Tx, tenant string, locus events.ID, lock string) (Note, error) {
	if !storable(tenant) {
		return Note{}, ErrNotFound
	}
	n, err := scanNote(tx.QueryRow(ctx, `SELECT `+noteColumns+` FROM memory_notes n WHERE n.tenant = $1 AND n.locus = $2`+lock, tenant, locus))
	if errors.Is(err, sqlstore.ErrNoRows) {
		err = ErrNotFound
	}
	return n, err
}

// Held counts the notes and moments that belong to a root.
func (s *Store) Held(ctx context.Context, tenant, root string) (notes, moments int64, err error) {
	if !storable(tenant) || !storable(root) {
		return 0, 0, nil
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM memory_notes WHERE tenant = $1 AND root = $2),
			(SELECT count(*) FROM memory_moments WHERE tenant = $1 AND root = $2)`, tenant, root).Scan(&notes, &moments)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count what root %q of tenant %q holds: %w", root, tenant, err)
	}
	return notes, moments, nil
}

package memorydb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// removeAtOnce is how many notes go in one transaction: a root may have many, and
// others write meanwhile.
const removeAtOnce = 5000

// maxReason is how long a reason, and who gives it, may be, in bytes.
const maxReason = 2000

// Removal is the record that somebody had notes forgotten. It stays for good, and
// never has what they said.
type Removal struct {
	ID      int64 // grows; zero of a sum
	Root    string
	Locus   events.ID // of the one note; zero: notes of the root
	Notes   int64
	Moments int64
	// Digest is that of the one note ([Note.Digest]); of notes of a root the SHA-256
	// of their digests one after the other, in the order in which they were kept.
	Digest events.Hash
	By     string
	Reason string
	At     time.Time
}

// ForgetNote deletes a note of a tenant, whoever it is kept for, with all that it
// is found by, and records who had it done and why. A run that remembers the same
// later keeps it anew. Errors: [ErrNotFound].
func (s *Store) ForgetNote(ctx context.Context, tenant string, locus events.ID, by, reason string) (r Removal, err error) {
	if err = s.checkAct(tenant, &by, &reason); err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
			n, err := readNote(ctx, tx, tenant, locus, ` FOR UPDATE`)
			if err != nil {
				return err
			}
			r = Removal{Root: n.Root, Locus: locus, Notes: 1, By: by, Reason: reason}
			if r.Digest, err = n.Digest(); err != nil {
				return err
			}
			if err := remove(ctx, tx, tenant, []events.ID{locus}); err != nil {
				return err
			}
			return record(ctx, tx, tenant, &r)
		})
	}
	if err != nil {
		return Removal{}, s.cfg.Redactor.Error(fmt.Errorf("forget note %s of tenant %q: %w", locus, tenant, err))
	}
	return r, nil
}

// ForgetRoot deletes the notes and moments that belong to a root, up to 5,000
// notes in a transaction of its own, each with its record, and returns how many
// there were. After an error it says what has gone by then, which is recorded; the
// rest goes with another call. What is remembered meanwhile may stay. The host's
// own notes, which belong to no root, are forgotten one by one. Errors:
// [ErrNotFound] if there is nothing.
func (s *Store) ForgetRoot(ctx context.Context, tenant, root, by, reason string) (sum Removal, err error) {
	sum = Removal{Root: root}
	err = s.checkAct(tenant, &by, &reason)
	if err == nil && (root == "" || !storable(root)) {
		err = errors.New("a root is required: notes that belong to none are forgotten one by one")
	}
	for more := true; more && err == nil; {
		var r Removal
		err = s.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
			r = Removal{Root: root, By: by, Reason: reason}
			more, err = forgetSome(ctx, tx, tenant, &r)
			return err
		})
		if err == nil {
			sum.Notes, sum.Moments, sum.By, sum.Reason = sum.Notes+r.Notes, sum.Moments+r.Moments, r.By, r.Reason
		}
	}
	if err == nil && sum.Notes+sum.Moments == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return sum, s.cfg.Redactor.Error(fmt.Errorf("forget root %q of tenant %q: %w", root, tenant, err))
	}
	return sum, nil
}

// forgetSome deletes the oldest notes of r.Root and, once there are no more, its
// moments.
func forgetSome(ctx context.Context, tx sqlstore.Tx, tenant string, r *Removal) (more bool, err error) {
	rows, err := tx.Query(ctx, `SELECT `+noteColumns+` FROM memory_notes n WHERE n.tenant = $1 AND n.root = $2 ORDER BY n.id LIMIT $3 FOR UPDATE`, tenant, r.Root, removeAtOnce)
	if err != nil {
		return false, fmt.Errorf("lock notes: %w", err)
	}
	defer rows.Close()
	var loci []events.ID
	sum := sha256.New()
	for rows.Next() {
		n, err := scanNote(rows)
		if err != nil {
			return false, err
		}
		d, err := n.Digest()
		if err != nil {
			return false, err
		}
		sum.Write(d[:])
		loci = append(loci, n.Locus)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("lock notes: %w", err)
	}
	r.Notes, r.Digest = int64(len(loci)), events.Hash(sum.Sum(nil))
	if more = len(loci) == removeAtOnce; !more {
		if r.Moments, err = tx.Exec(ctx, `DELETE FROM memory_moments WHERE tenant = $1 AND root = $2`, tenant, r.Root); err != nil {
			return false, fmt.Errorf("delete moments: %w", err)
		}
	}
	if r.Notes+r.Moments == 0 {
		return false, nil
	}
	if err := remove(ctx, tx, tenant, loci); err != nil {
		return false, err
	}
	return more, record(ctx, tx, tenant, r)
}

// remove deletes notes that the transaction has locked: who remembers the same
// for another owner holds the note until that is committed, and shows here.
func remove(ctx context.Context, tx sqlstore.Tx, tenant string, loci []events.ID) error {
	if len(loci) == 0 {
		return nil
	}
	of := `note_id IN (SELECT id FROM memory_notes WHERE tenant = $1 AND ` + tx.InIDs("locus", 2) + `)`
	for _, d := range []struct{ table, of string }{
		{"memory_words", of},
		{"memory_links", of},
		{"memory_gates", of},
		{"memory_holders", of},
		{"memory_notes", tx.InIDs("locus", 2)},
	} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+d.table+` WHERE tenant = $1 AND `+d.of, tenant, loci); err != nil {
			return fmt.Errorf("delete from %s: %w", d.table, err)
		}
	}
	return nil
}

func record(ctx context.Context, tx sqlstore.Tx, tenant string, r *Removal) (err error) {
	if r.At, err = tx.Now(ctx); err != nil {
		return err
	}
	err = tx.QueryRow(ctx, `INSERT INTO memory_removals (tenant, root, locus, notes, moments, digest, by_whom, reason, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id`, tenant, r.Root, r.Locus, r.Notes, r.Moments, r.Digest, r.By, r.Reason, r.At).Scan(&r.ID)
	if err != nil {
		return fmt.Errorf("record the removal: %w", err)
	}
	return nil
}

// checkAct takes secrets out of who acts and why, and refuses what cannot be kept.
func (s *Store) checkAct(tenant string, by, reason *string) error {
	if tenant == "" || !storable(tenant) {
		return errors.New("a tenant is required")
	}
	for _, f := range []struct {
		what string
		text *string
	}{{"by", by}, {"reason", reason}} {
		*f.text = s.cfg.Redactor.String(*f.text)
		if *f.text == "" || len(*f.text) > maxReason || !storable(*f.text) {
			return fmt.Errorf("%s: want 1 to %d bytes of text: the record says who did it, and why", f.what, maxReason)
		}
	}
	return nil
}

// Removals lists what was forgotten in a tenant, the newest first, before one of
// them (zero: from the newest), at most limit, up to [MaxPage].
func (s *Store) Removals(ctx context.Context, tenant string, before int64, limit int) (all []Removal, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	if !storable(tenant) {
		return nil, nil
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		all = nil
		rows, err := tx.Query(ctx, `SELECT id, root, locus, notes, moments, digest, by_whom, reason, at FROM memory_removals
			WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, tenant, before, max(0, min(limit, MaxPage)))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r Removal
			if err := rows.Scan(&r.ID, &r.Root, &r.Locus, &r.Notes, &r.Moments, &r.Digest, &r.By, &r.Reason, &r.At); err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("removals of tenant %q: %w", tenant, err)
	}
	return all, nil
}

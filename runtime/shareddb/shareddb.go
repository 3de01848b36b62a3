// Package shareddb keeps the documents that a team shares with its agents in the
// ledger's database: a [sharedmemory.Provider], and how people fill it. Agents
// only read; who put or removed what, and when, is recorded for good. See
// docs/decisions/0021.
package shareddb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Bounds.
const (
	maxStores      = 1000   // of a tenant
	maxDocuments   = 10_000 // of a store
	maxDescription = 1000   // bytes; models are shown 160 characters of it
	maxName        = 512    // bytes of a tenant, and of who acts
)

// PageSize is how many documents or changes a list returns at most.
const PageSize = 500

// ErrNotFound is the error of what is not there.
var ErrNotFound = errors.New("not found")

// Config of a [Provider].
type Config struct {
	// Redactor takes secrets out of everything before it is written. Required.
	Redactor *redact.Redactor
	// Allow says which stores of its tenant a call may see; nil shows all. It may be
	// called by several goroutines.
	Allow func(c sharedmemory.Context, store string) bool
}

// Provider is the stores in a database. Safe for concurrent use, by any number
// of processes.
type Provider struct {
	db  sqlstore.DB
	cfg Config
}

var _ sharedmemory.Provider = (*Provider)(nil)

// New returns the stores in a database, which is that of a ledger: see
// [sqlstore.Store.DB]. It has nothing to close.
func New(db sqlstore.DB, cfg Config) (*Provider, error) {
	switch {
	case db == nil:
		return nil, errors.New("shared memory in the database: a database is required: pass DB() of the ledger's store")
	case cfg.Redactor == nil:
		return nil, errors.New("shared memory in the database: Redactor is required: pass the redactor of the process, with which its secrets are registered")
	}
	return &Provider{db, cfg}, nil
}

// Store is a store and who put it there.
type Store struct {
	sharedmemory.Info
	Documents int64
	Bytes     int64
	By        string
	At        time.Time
}

// Document is a document and who put it there. Content is empty in lists.
type Document struct {
	Store, Path string
	Content     string
	Bytes       int64
	By          string
	At          time.Time
}

// Verbs of a [Change].
const (
	VerbPut    = "put"
	VerbRemove = "remove"
)

// Change is what somebody did. Path is empty if it was to the store itself.
type Change struct {
	ID          int64 // grows
	Store, Path string
	Verb        string
	Digest      []byte // SHA-256 of what was put
	Bytes       int64  // of what was put
	By          string
	At          time.Time
}

// checkTenant refuses what no row can have.
func checkTenant(tenant string) error {
	if tenant == "" || !storable(tenant, maxName) {
		return fmt.Errorf("tenant %.40q: want 1 to %d bytes of text", tenant, maxName)
	}
	return nil
}

func storable(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// checkPath refuses what no agent could read.
func (p *Provider) checkPath(path string) error {
	if r := sharedmemory.CheckDocumentPath(path); r != nil {
		return errors.New(strings.TrimSuffix(r.Message, "."))
	}
	if p.cfg.Redactor.String(path) != path {
		return errors.New("the path contains what looks like a secret, which is never kept: use another name")
	}
	return nil
}

func checkStore(id string) error {
	if !sharedmemory.ValidStoreID(id) {
		return fmt.Errorf("store %.80q: want 1 to 64 letters, digits, _ . and -, without __", id)
	}
	return nil
}

// span is the range of the paths below a prefix: from, and up to but without.
func span(prefix string) (from, below string) {
	prefix = strings.TrimSuffix(prefix, "/")
	return prefix + "/", prefix + "0" // "0" comes after "/"
}

// Stores lists the stores of a tenant, by id.
func (p *Provider) Stores(ctx context.Context, tenant string) (all []Store, err error) {
	err = p.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		all = nil
		rows, err := tx.Query(ctx, `SELECT s.id, s.description, s.writable, s.put_by, s.put_at,
				(SELECT count(*) FROM shared_documents d WHERE d.tenant = $1 AND d.store = s.id),
				(SELECT CAST(coalesce(sum(d.bytes), 0) AS bigint) FROM shared_documents d WHERE d.tenant = $1 AND d.store = s.id)
			FROM shared_stores s WHERE s.tenant = $1 ORDER BY s.id LIMIT $2`, tenant, maxStores)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s Store
			if err := rows.Scan(&s.ID, &s.Description, &s.Writable, &s.By, &s.At, &s.Documents, &s.Bytes); err != nil {
				return err
			}
			all = append(all, s)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("stores of tenant %q: %w", tenant, err)
	}
	return all, nil
}

// Documents lists what a store has below a prefix, "/" for all, after a path, at
// most 500. Errors: [ErrNotFound] if there is no such store.
func (p *Provider) Documents(ctx context.Context, tenant, store, prefix, after string) (page []Document, err error) {
	if !storable(prefix, maxName*2) || !storable(after, maxName*4) {
		return nil, errors.New("documents: prefix and path must be text")
	}
	err = p.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		page, err = documents(ctx, tx, tenant, store, prefix, after)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("documents of store %q: %w", store, err)
	}
	return page, nil
}

func documents(ctx context.Context, tx sqlstore.Tx, tenant, store, prefix, after string) (page []Document, err error) {
	if after == "" {
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM shared_stores WHERE tenant = $1 AND id = $2`, tenant, store).Scan(&n); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, ErrNotFound
		}
	}
	from, below := span(prefix)
	rows, err := tx.Query(ctx, `SELECT path, bytes, put_by, put_at FROM shared_documents
		WHERE tenant = $1 AND store = $2 AND path >= $3 AND path < $4 AND path > $5 ORDER BY path LIMIT $6`,
		tenant, store, from, below, after, PageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		d := Document{Store: store}
		if err := rows.Scan(&d.Path, &d.Bytes, &d.By, &d.At); err != nil {
			return nil, err
		}
		page = append(page, d)
	}
	return page, rows.Err()
}

// Document reads a document. Errors: [ErrNotFound].
func (p *Provider) Document(ctx context.Context, tenant, store, path string) (d Document, err error) {
	err = p.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		var found bool
		d, found, err = document(ctx, tx, tenant, store, path)
		if err == nil && !found {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return Document{}, fmt.Errorf("document %q of store %q: %w", path, store, err)
	}
	return d, nil
}

// document is not found if the store has no such document; that there is no such
// store is ErrNotFound.
func document(ctx context.Context, tx sqlstore.Tx, tenant, store, path string) (d Document, found bool, err error) {
	d = Document{Store: store, Path: path}
	if !storable(path, maxName*2) {
		path = "" // no document has it
	}
	var content []byte
	var has *string
	var bytes *int64
	var by *string
	err = tx.QueryRow(ctx, `SELECT d.path, d.content, d.bytes, d.put_by, d.put_at
		FROM shared_stores s LEFT JOIN shared_documents d ON d.tenant = $1 AND d.store = s.id AND d.path = $3
		WHERE s.tenant = $1 AND s.id = $2`, tenant, store, path).Scan(&has, &content, &bytes, &by, &d.At)
	switch {
	case errors.Is(err, sqlstore.ErrNoRows):
		return d, false, ErrNotFound
	case err != nil || has == nil:
		return d, false, err
	}
	d.Content, d.Bytes, d.By = string(content), *bytes, *by
	return d, true, nil
}

// Changes lists what people did to a store, the newest first, at most 500 before
// one of them; zero is from the newest.
func (p *Provider) Changes(ctx context.Context, tenant, store string, before int64) (all []Change, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	err = p.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		all = nil
		rows, err := tx.Query(ctx, `SELECT id, path, verb, digest, bytes, by_whom, at FROM shared_changes
			WHERE tenant = $1 AND store = $2 AND id < $3 ORDER BY id DESC LIMIT $4`, tenant, store, before, PageSize)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c := Change{Store: store}
			if err := rows.Scan(&c.ID, &c.Path, &c.Verb, &c.Digest, &c.Bytes, &c.By, &c.At); err != nil {
				return err
			}
			all = append(all, c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("changes of store %q: %w", store, err)
	}
	return all, nil
}

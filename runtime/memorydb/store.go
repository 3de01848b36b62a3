package memorydb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
)

// note is an event as it is kept.
type note struct {
	id      int64       // given by the database
	own     events.ID   // that it is to be known by
	locus   events.ID   // that it is known by
	key     events.Hash // zero = always a new one
	context string
	kind    string
	source  string
	text    string
	details json.RawMessage
	links   memory.Links
	gates   []string
	words   []string
	fresh   bool // it was not there before
}

// rows are what the note takes in all tables, with its own and its holder's.
func (n *note) rows() int { return 2 + len(n.gates)*(1+len(n.words)+len(linksOf(n.links))) }

type link struct{ kind, to string }

// linksOf are the links of a note: extends, related_to, reinforces, contradicts.
func linksOf(l memory.Links) []link {
	var all []link
	for _, k := range []struct {
		kind string
		ids  []string
	}{
		{memory.Extends, l.Extends},
		{memory.RelatedTo, l.RelatedTo},
		{memory.Reinforces, l.Reinforces},
		{memory.Contradicts, l.Contradicts},
	} {
		for _, id := range k.ids {
			all = append(all, link{k.kind, id})
		}
	}
	return all
}

// StoreEvents implements [memory.Writer]. It keeps all of a batch or nothing, and
// returns once it is durable. Of events with a key, what the tenant has under it
// stays. An error that wraps ledger.ErrUnavailable leaves open whether they are
// kept; with keys it is safe to try again. Errors: [ErrErased], [ErrFull], [ErrBatch].
func (s *Store) StoreEvents(ctx context.Context, scope memory.Scope, batch []memory.Event) (memory.Stored, error) {
	if len(batch) > maxBatch {
		return memory.Stored{}, fmt.Errorf("store events: %d events, at most %d are allowed: %w", len(batch), maxBatch, ErrBatch)
	}
	notes := make([]*note, len(batch))
	var rows, bytes int
	for i, e := range batch {
		var err error
		if notes[i], err = s.prepare(scope, e); err != nil {
			return memory.Stored{}, s.cfg.Redactor.Error(fmt.Errorf("store events: event %d: %w", i, err))
		}
		rows += notes[i].rows()
		bytes += len(notes[i].text) + len(notes[i].details)
		if rows > maxRowsKept || bytes > maxBytes {
			return memory.Stored{}, fmt.Errorf("store events: %d rows of %d bytes up to event %d of %d, at most %d and %d are allowed: %w", rows, bytes, i+1, len(batch), maxRowsKept, maxBytes, ErrBatch)
		}
	}
	if err := s.checkScope(scope); err != nil {
		return memory.Stored{}, s.cfg.Redactor.Error(fmt.Errorf("store events: %w", err))
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := enter(ctx, tx, scope); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, n := range notes {
			if err := insert(ctx, tx, scope, n, now); err != nil {
				return err
			}
		}
		if err := s.room(ctx, tx, scope, notes); err != nil {
			return err
		}
		if err := index(ctx, tx, scope, notes); err != nil {
			return err
		}
		return away(fault.Err("memory.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("memory.after_commit"))
	}
	if err != nil {
		return memory.Stored{}, s.cfg.Redactor.Error(fmt.Errorf("store events: %w", err))
	}
	out := memory.Stored{Results: []memory.StoredEvent{}, Stored: len(notes)}
	for _, n := range notes {
		out.Results = append(out.Results, memory.StoredEvent{Status: "recorded", EventID: n.locus.String(), Relevance: "high"})
	}
	return out, nil
}

// away says of an injected error that the database cannot be asked.
func away(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// checkScope refuses a scope that cannot be kept.
func (s *Store) checkScope(scope memory.Scope) error {
	if err := s.checkIDs(scope.Root); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, t := range []string{scope.Tenant, scope.Owner} {
		if !storable(t) || len(t) > maxID {
			return fmt.Errorf("tenant or owner %.40q: want at most %d bytes of text", t, maxID)
		}
	}
	return nil
}

// prepare makes a note of an event: with secrets taken out, and with all that it
// is found by.
func (s *Store) prepare(scope memory.Scope, e memory.Event) (*note, error) {
	text, details, err := e.Content()
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	n := &note{own: s.cfg.IDs.Event(), context: e.ContextID, links: e.Links}
	if n.context == "" {
		n.context = "topic:untitled"
	}
	ids := []string{n.context}
	for _, l := range []*[]string{&n.links.Extends, &n.links.RelatedTo, &n.links.Reinforces, &n.links.Contradicts} {
		if len(*l) > maxLinks {
			return nil, fmt.Errorf("%d links of one kind, at most %d are allowed", len(*l), maxLinks)
		}
		*l = append([]string{}, *l...)
		ids = append(ids, *l...)
	}
	if err := s.checkIDs(ids...); err != nil {
		return nil, err
	}
	if n.kind, err = s.label("kind", e.Kind, "fact"); err != nil {
		return nil, err
	}
	if n.source, err = s.label("source", e.Source, "assistant"); err != nil {
		return nil, err
	}
	n.text = strings.ReplaceAll(s.cfg.Redactor.String(text), "\x00", "\uFFFD")
	if details == nil {
		details = map[string]any{}
	}
	clean, err := s.cfg.Redactor.JSON(details)
	if err != nil {
		return nil, fmt.Errorf("details: %w", err)
	}
	n.details = clean.Bytes()
	if len(n.text) > maxText || len(n.details) > maxText {
		return nil, fmt.Errorf("a text of %d bytes and details of %d, at most %d each are allowed", len(n.text), len(n.details), maxText)
	}
	if e.Key != "" {
		n.key = sha256.Sum256([]byte(e.Key))
	}
	n.gates = gatesOf(scope.Root, n.links.Extends)
	n.words = words(memory.NoteTokens(n.text, n.context))
	if len(n.gates)*len(n.words) > maxPostings {
		return nil, fmt.Errorf("%d words in %d contexts that it extends are too many: write several notes", len(n.words), len(n.gates))
	}
	if n.rows() > maxRowsKept {
		return nil, fmt.Errorf("%d links in %d contexts that it extends are too many: write several notes", len(linksOf(n.links)), len(n.gates))
	}
	return n, nil
}

// gatesOf is what a note is seen through, each once.
func gatesOf(root string, extends []string) []string {
	switch {
	case root != "":
		return []string{root}
	case len(extends) == 0:
		return []string{""}
	}
	gates := slices.Clone(extends)
	slices.Sort(gates)
	return slices.Compact(gates)
}

// words are tokens as they are indexed, in order: those that are too long for an
// index by their digest.
func words(tokens map[string]bool) []string {
	all := slices.Sorted(maps.Keys(tokens))
	for i, w := range all {
		if len(w) > 64 {
			sum := sha256.Sum256([]byte(w))
			all[i] = "#" + hex.EncodeToString(sum[:])
		}
	}
	return all
}

// enter refuses an owner that was erased, and keeps it from being erased until
// the transaction ends: see eraseMemory in ledger/sqlstore.
func enter(ctx context.Context, tx sqlstore.Tx, scope memory.Scope) error {
	if scope.Owner == "" {
		return nil
	}
	if err := tx.Later(ctx, "name owner", `INSERT INTO memory_owners (tenant, owner) VALUES ($1, $2) ON CONFLICT (tenant, owner) DO NOTHING`, scope.Tenant, scope.Owner); err != nil {
		return err
	}
	var at time.Time
	if err := tx.QueryRow(ctx, `SELECT erased_at FROM memory_owners WHERE tenant = $1 AND owner = $2 FOR SHARE`, scope.Tenant, scope.Owner).Scan(&at); err != nil {
		return fmt.Errorf("read owner: %w", err)
	}
	if !at.IsZero() {
		return ErrErased
	}
	return nil
}

// insert keeps a note, or finds the one that is there under its key.
func insert(ctx context.Context, tx sqlstore.Tx, scope memory.Scope, n *note, now time.Time) error {
	links, err := json.Marshal(n.links)
	if err != nil {
		return err
	}
	var turn, call *int // of a call
	if scope.Run != (events.RunID{}) {
		turn, call = &scope.Call.Turn, &scope.Call.Index
	}
	for range 5 {
		n.locus = n.own
		err := tx.QueryRow(ctx, `
			INSERT INTO memory_notes (locus, tenant, root, key, context_id, kind, source, text, details, links, created_at, run_id, turn, call_index)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
			ON CONFLICT (tenant, key) WHERE key IS NOT NULL DO NOTHING RETURNING id`,
			n.own, scope.Tenant, scope.Root, n.key, n.context, n.kind, n.source, n.text, n.details, json.RawMessage(links), now, scope.Run, turn, call).Scan(&n.id)
		if err == nil {
			n.fresh = true
			return nil
		}
		if !errors.Is(err, sqlstore.ErrNoRows) {
			return fmt.Errorf("insert note: %w", err)
		}
		// It is held until this is committed: who erases the owner that it was kept for
		// sees then that another has it.
		n.fresh = false
		err = tx.QueryRow(ctx, `SELECT id, locus FROM memory_notes WHERE tenant = $1 AND key = $2 FOR SHARE`, scope.Tenant, n.key).Scan(&n.id, &n.locus)
		if err == nil {
			return nil
		}
		if !errors.Is(err, sqlstore.ErrNoRows) {
			return fmt.Errorf("read note: %w", err)
		}
		// It was there, and has been erased since.
	}
	return errors.New("a note is erased as often as it is kept: try again")
}

// room refuses what a root has no room for, once it is in the table.
func (s *Store) room(ctx context.Context, tx sqlstore.Tx, scope memory.Scope, notes []*note) error {
	if scope.Root == "" || s.cfg.MaxNotes < 0 || !slices.ContainsFunc(notes, func(n *note) bool { return n.fresh }) {
		return nil
	}
	var all int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM memory_notes WHERE tenant = $1 AND root = $2 LIMIT $3) AS n`,
		scope.Tenant, scope.Root, s.cfg.MaxNotes+1).Scan(&all)
	if err != nil {
		return fmt.Errorf("count the notes of the root: %w", err)
	}
	if all > s.cfg.MaxNotes {
		return ErrFull
	}
	return nil
}

// index keeps what notes are found by.
func index(ctx context.Context, tx sqlstore.Tx, scope memory.Scope, notes []*note) error {
	var holders, gates, postings, links [][]any
	held := map[int64]bool{}
	for _, n := range notes {
		if !held[n.id] {
			held[n.id] = true
			holders = append(holders, []any{scope.Tenant, scope.Owner, n.id})
		}
		if !n.fresh {
			continue
		}
		for _, gate := range n.gates {
			gates = append(gates, []any{scope.Tenant, gate, n.context, n.id})
			for _, w := range n.words {
				postings = append(postings, []any{scope.Tenant, w, gate, n.id, memory.SourceWeight(n.source)})
			}
			for i, l := range linksOf(n.links) {
				links = append(links, []any{scope.Tenant, n.context, gate, n.id, i, scope.Root, l.kind, l.to})
			}
		}
	}
	for _, in := range []struct {
		table    string
		columns  []string
		rows     [][]any
		conflict string
	}{
		{"memory_holders", []string{"tenant", "owner", "note_id"}, holders, "ON CONFLICT (tenant, owner, note_id) DO NOTHING"},
		{"memory_gates", []string{"tenant", "gate", "context_id", "note_id"}, gates, ""},
		{"memory_words", []string{"tenant", "word", "gate", "note_id", "believed"}, postings, ""},
		{"memory_links", []string{"tenant", "from_context", "gate", "note_id", "position", "root", "kind", "to_context"}, links, ""},
	} {
		if _, err := tx.InsertMany(ctx, in.table, in.columns, in.rows, in.conflict); err != nil {
			return fmt.Errorf("insert into %s: %w", in.table, err)
		}
	}
	return nil
}

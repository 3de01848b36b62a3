// Package sharedmemory lets the model browse and read stores of text that a team
// or a deployment shares: the tools memory_list and memory_read, over a
// [Provider] that the host implements. There is no tool that writes.
//
// Whatever a provider hands over is foreign: a row that is odd is left out and
// counted, a container that is odd fails the call, and no text of it reaches the
// model unless it is bounded or stands under a line that says what it is. What
// the model wrote itself, its local memory, is another matter and not in here.
package sharedmemory

import (
	"context"
	"iter"

	"github.com/daybookhq/daybook/events"
)

// Bounds that the model is told of, and so are no settings.
const (
	MaxRead        = 102_400 // bytes of a document, before it is made harmless
	PageSize       = 50      // documents of a listing
	MaxStores      = 64
	MaxDescription = 160 // UTF-16 units of a store's description
)

// Provider says which stores there are. Credentials, consent and identity are
// its own business. Safe for concurrent use.
type Provider interface {
	// Snapshot is asked once for each call of a tool, and nothing of its answer is
	// kept for the next. It honours ctx. Any error of it, also a [*StoreError], is
	// told as a failure without its text.
	Snapshot(ctx context.Context, c Context) (Snapshot, error)
}

// Context is on whose behalf a call is made. It comes from the runtime: nothing
// that a model sends can change it.
type Context struct {
	Session string
	Run     events.RunID
	// Tenant and Owner are the principal, as the run was submitted. Owner may be empty.
	Tenant, Owner string
}

// State is how the connection to the stores stands.
type State int

// States of a snapshot. The zero value is none, so a provider that forgot to
// say is found out.
const (
	Connecting State = iota + 1
	Unavailable
	Connected
)

// Snapshot is all that one call knows of the stores.
type Snapshot struct {
	State State
	// Message says why, to the model, when Unavailable; it is cut to one line. Empty
	// means a standard text. With Connected it says which stores are missing, and
	// why: the list ends with it, and a store that is not there is refused with it.
	Message string
	// Stores belong to Connected and may be no more than ranged over once. Nil is
	// no answer; [slices.Values] of an empty slice says that there are none.
	Stores iter.Seq[Store]
}

// Info is what is known of a store.
type Info struct {
	// ID has 1 to 64 letters, digits, "_", "." and "-", and no "__". A store of
	// another ID is left out: IDs are never shortened.
	ID string
	// Description is cut to one line of [MaxDescription].
	Description string
	// Writable is what governs the store elsewhere, relayed to the model. Nothing
	// in here acts on it.
	Writable bool
}

// Store is a store and how it is read. List and Read honour ctx.
type Store interface {
	// Info is asked once for each snapshot.
	Info() Info
	// List yields documents in any order, at least all those below prefix, which
	// is empty for all and otherwise begins with "/" and does not end with it. An
	// error ends the list.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
	// Read returns [Found], [Absent] or [Oversize]. The zero value is no answer.
	// An error may be a [*StoreError].
	Read(ctx context.Context, path string) (Value, error)
}

// Entry is a document in a list.
type Entry struct {
	// Path is absolute and canonical, see [CheckDocumentPath]; others are left out.
	Path string
	// Bytes is the size; nil, and a negative one, is unknown.
	Bytes *int64
	// UpdatedAt is shown if it begins with a date YYYY-MM-DD, and then only that.
	UpdatedAt string
}

// Document is what a read found.
type Document struct {
	Content   string
	UpdatedAt string // as that of an [Entry]
}

// Value is the answer of a read. The zero value is none.
type Value struct {
	kind valueKind
	doc  Document
	size int64
}

type valueKind int

const (
	valueFound valueKind = iota + 1
	valueAbsent
	valueOversize
)

// Found is a document.
func Found(d Document) Value { return Value{kind: valueFound, doc: d} }

// Absent says that there is no such document.
func Absent() Value { return Value{kind: valueAbsent} }

// Oversize is a document of more than [MaxRead] bytes, which is refused: for
// providers that know the size before they read.
func Oversize(bytes int64) Value { return Value{kind: valueOversize, size: bytes} }

// Document returns what was found, if anything was.
func (v Value) Document() (Document, bool) { return v.doc, v.kind == valueFound }

// IsAbsent reports whether v says that there is no such document.
func (v Value) IsAbsent() bool { return v.kind == valueAbsent }

// Size is that of a document, also of one that is [Oversize].
func (v Value) Size() (bytes int64, ok bool) {
	switch v.kind {
	case valueFound:
		return int64(len(v.doc.Content)), true
	case valueOversize:
		return v.size, true
	}
	return 0, false
}

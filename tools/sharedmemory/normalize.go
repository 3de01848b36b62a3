package sharedmemory

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"strings"
)

// What a provider may yield at all: a list without an end is a defect.
const (
	maxStoreRows = 10_000
	maxEntryRows = 1 << 20
)

var (
	errMalformed = errors.New("malformed")
	errPanic     = errors.New("the provider panicked")
)

// guarded calls f, and makes an error of a panic.
func guarded(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return f()
}

// bound is a store of one snapshot.
type bound struct {
	info  Info
	store Store
}

// snapshot is a [Snapshot] with everything odd taken out.
type snapshot struct {
	state   State
	message string // one line
	stores  []bound
	dropped int
}

func (s *snapshot) find(id string) (bound, bool) {
	for _, b := range s.stores {
		if b.info.ID == id {
			return b, true
		}
	}
	return bound{}, false
}

var storeID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ValidStoreID reports whether a store may have this ID, see [Info].
func ValidStoreID(id string) bool { return storeID.MatchString(id) && !strings.Contains(id, "__") }

// normalizeSnapshot never panics. A row that is odd, has the ID of one before it
// or is above MaxStores is dropped; the error is errMalformed.
func normalizeSnapshot(raw Snapshot) (snapshot, error) {
	s := snapshot{state: raw.State}
	switch raw.State {
	case Connecting:
		return s, nil
	case Unavailable:
		s.message = EchoUntrusted(raw.Message)
		return s, nil
	case Connected:
		s.message = EchoUntrusted(raw.Message)
	default:
		return s, errMalformed
	}
	if raw.Stores == nil {
		return s, errMalformed
	}
	seen := map[string]bool{}
	rows := 0
	err := guarded(func() error {
		for store := range raw.Stores {
			if rows++; rows > maxStoreRows {
				return errMalformed
			}
			info, ok := infoOf(store)
			if !ok || !ValidStoreID(info.ID) || seen[info.ID] || len(s.stores) == MaxStores {
				s.dropped++
				continue
			}
			seen[info.ID] = true
			info.Description = echo(info.Description, MaxDescription)
			s.stores = append(s.stores, bound{info, store})
		}
		return nil
	})
	if err != nil {
		return s, errMalformed
	}
	return s, nil
}

// infoOf asks a store once. It is not ok if there is no store, or asking panics.
func infoOf(store Store) (info Info, ok bool) {
	if store == nil {
		return info, false
	}
	err := guarded(func() error { info = store.Info(); return nil })
	return info, err == nil
}

// normalizeEntries goes once over a list and returns the rows that are canonical
// and wanted. It never panics. Errors are errMalformed, the cause of ctx, and
// what the list itself yields; rows is nothing then, dropped counts up to there.
func normalizeEntries(ctx context.Context, raw iter.Seq2[Entry, error], wanted func(path string) bool) (rows []Entry, dropped int, err error) {
	if raw == nil {
		return nil, 0, errMalformed
	}
	seen := 0
	var yielded error
	err = guarded(func() error {
		for e, err := range raw {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				yielded = err
				return nil
			}
			if seen++; seen > maxEntryRows {
				return errMalformed
			}
			switch {
			case !listable(e.Path):
				dropped++
			case wanted(e.Path):
				rows = append(rows, normalEntry(e))
			}
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, dropped, context.Cause(ctx)
	case errors.Is(err, errPanic):
		return nil, dropped, errMalformed
	case err != nil:
		return nil, dropped, err
	case yielded != nil:
		return nil, dropped, yielded
	}
	return rows, dropped, nil
}

// normalEntry keeps nothing of a provider's: texts may be parts of big ones.
func normalEntry(e Entry) Entry {
	n := Entry{Path: strings.Clone(e.Path), UpdatedAt: dateOf(e.UpdatedAt)}
	if e.Bytes != nil && *e.Bytes >= 0 {
		n.Bytes = new(*e.Bytes)
	}
	return n
}

// normalizeValue returns what was read, or a refusal: there is no such document,
// it is too large, or the value is none.
func normalizeValue(v Value, path string) (Document, *Refusal) {
	switch size := int64(len(v.doc.Content)); {
	case v.kind == valueAbsent:
		return Document{}, refuse(ReasonNotFound, "There is no document %q. Call memory_list for those there are.", EchoUntrusted(path))
	case v.kind == valueOversize && v.size > MaxRead:
		return Document{}, tooLarge(path, v.size)
	case v.kind != valueFound:
		return Document{}, malformed()
	case size > MaxRead:
		return Document{}, tooLarge(path, size)
	}
	return Document{Content: v.doc.Content, UpdatedAt: dateOf(v.doc.UpdatedAt)}, nil
}

func tooLarge(path string, size int64) *Refusal {
	return refuse(ReasonTooLarge, "Document %q has %d bytes; at most %d can be read, and documents are never cut.", EchoUntrusted(path), size, MaxRead)
}

var date = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// dateOf is the date that a time begins with, else empty: nothing else of it
// can reach the model.
func dateOf(at string) string { return date.FindString(at) }

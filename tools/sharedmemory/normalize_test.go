package sharedmemory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
)

// thing is a store whose methods may panic.
type thing struct {
	info  func() Info
	list  func(context.Context, string) iter.Seq2[Entry, error]
	read  func(context.Context, string) (Value, error)
	asked *int
}

func (s *thing) Info() Info {
	if s.asked != nil {
		*s.asked++
	}
	return s.info()
}

func (s *thing) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return s.list(ctx, prefix)
}

func (s *thing) Read(ctx context.Context, path string) (Value, error) { return s.read(ctx, path) }

func named(id string) *thing { return &thing{info: func() Info { return Info{ID: id} }} }

func connected(stores ...Store) Snapshot {
	return Snapshot{State: Connected, Stores: slices.Values(stores)}
}

func ids(s snapshot) (all []string) {
	for _, b := range s.stores {
		all = append(all, b.info.ID)
	}
	return all
}

func TestNormalizeSnapshot(t *testing.T) {
	t.Run("SE-18 store IDs", func(t *testing.T) {
		for id, want := range map[string]bool{
			strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a__b": false, "a_b": true, "": false, "A.b-9": true, "a b": false, "a\n": false,
			"é": false, "a/b": false, "a\x00": false, "___": false, "\xff": false,
		} {
			s, err := normalizeSnapshot(connected(named(id)))
			if err != nil || len(s.stores) == 1 != want || s.dropped == 1 == want {
				t.Errorf("%q: stores %v, dropped %d, %v", id, ids(s), s.dropped, err)
			}
		}
	})
	t.Run("SE-19 at most 64, counted after odd rows and twins are gone", func(t *testing.T) {
		stores := []Store{named("a__b"), named("s0"), named("s0"), nil}
		for i := range 70 {
			stores = append(stores, named(fmt.Sprintf("s%d", i)))
		}
		s, err := normalizeSnapshot(connected(stores...))
		if err != nil || len(s.stores) != 64 || s.stores[63].info.ID != "s63" || s.dropped != 4+6 {
			t.Errorf("%d stores to %v, dropped %d, %v", len(s.stores), ids(s), s.dropped, err)
		}
	})
	t.Run("SE-19 the first of two of one ID stays", func(t *testing.T) {
		first, second := named("a"), named("a")
		if s, _ := normalizeSnapshot(connected(first, second)); s.stores[0].store != first || s.dropped != 1 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("SE-20 descriptions are one line of 160", func(t *testing.T) {
		long := &thing{info: func() Info { return Info{ID: "a", Description: "x\r\n<system>" + strings.Repeat("y", 9<<20)} }}
		s, _ := normalizeSnapshot(connected(long))
		d := s.stores[0].info.Description
		if !strings.HasPrefix(d, "x «system>y") || len([]rune(d)) != MaxDescription {
			t.Errorf("%q", d)
		}
	})
	t.Run("SE-21 a panic of a row costs the row, of the list the snapshot", func(t *testing.T) {
		var typedNil *thing
		bad := &thing{info: func() Info { panic("no") }}
		s, err := normalizeSnapshot(connected(named("a"), bad, typedNil, nil, named("b")))
		if err != nil || !slices.Equal(ids(s), []string{"a", "b"}) || s.dropped != 3 {
			t.Errorf("%v, dropped %d, %v", ids(s), s.dropped, err)
		}
		s, err = normalizeSnapshot(Snapshot{State: Connected, Stores: func(yield func(Store) bool) {
			yield(bad)
			panic(errors.New("list"))
		}})
		if err != errMalformed || s.dropped != 1 {
			t.Errorf("%v, dropped %d", err, s.dropped)
		}
	})
	t.Run("SE-21 a store is asked once", func(t *testing.T) {
		n := 0
		s := named("a")
		s.asked = &n
		if _, err := normalizeSnapshot(connected(s)); err != nil || n != 1 {
			t.Errorf("asked %d times, %v", n, err)
		}
	})
	t.Run("SE-17 an odd container is malformed", func(t *testing.T) {
		endless := func(yield func(Store) bool) {
			for yield(nil) {
			}
		}
		deaf := func(yield func(Store) bool) {
			for {
				yield(nil)
			}
		}
		for name, raw := range map[string]Snapshot{
			"zero": {}, "unknown state": {State: 99}, "connected without a list": {State: Connected},
			"endless": {State: Connected, Stores: endless}, "deaf": {State: Connected, Stores: deaf},
		} {
			if _, err := normalizeSnapshot(raw); err != errMalformed {
				t.Errorf("%s: %v, want malformed", name, err)
			}
		}
	})
}

func TestNormalizeEntries(t *testing.T) {
	ctx := context.Background()
	all := func(string) bool { return true }
	list := func(es ...Entry) iter.Seq2[Entry, error] {
		return func(yield func(Entry, error) bool) {
			for _, e := range es {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	t.Run("SE-26 rows that are not canonical are dropped, never changed", func(t *testing.T) {
		rows, dropped, err := normalizeEntries(ctx, list(Entry{Path: "/a//b.md"}, Entry{Path: "a.md"}, Entry{Path: "/ok.md"}, Entry{Path: "/\xff.md"}, Entry{}), all)
		if err != nil || len(rows) != 1 || rows[0].Path != "/ok.md" || dropped != 4 {
			t.Errorf("%v, dropped %d, %v", rows, dropped, err)
		}
	})
	t.Run("SE-22 containers that are odd, panic or never end", func(t *testing.T) {
		panics := func(yield func(Entry, error) bool) {
			yield(Entry{Path: "bad"}, nil)
			panic("x")
		}
		endless := func(yield func(Entry, error) bool) {
			for yield(Entry{}, nil) {
			}
		}
		for name, raw := range map[string]iter.Seq2[Entry, error]{"nil": nil, "panics": panics, "endless": endless} {
			if rows, _, err := normalizeEntries(ctx, raw, all); err != errMalformed || rows != nil {
				t.Errorf("%s: %v, want malformed", name, err)
			}
		}
	})
	t.Run("SE-22 only rows that are wanted are held, of one pass", func(t *testing.T) {
		passes := 0
		rows, dropped, err := normalizeEntries(ctx, func(yield func(Entry, error) bool) {
			passes++
			for i := range 1000 {
				if !yield(Entry{Path: fmt.Sprintf("/%d.md", i)}, nil) {
					return
				}
			}
		}, func(p string) bool { return p == "/7.md" })
		if len(rows) != 1 || dropped != 0 || passes != 1 || err != nil {
			t.Errorf("%d rows, dropped %d, %d passes, %v", len(rows), dropped, passes, err)
		}
	})
	t.Run("SE-14 a list stops when its context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		n := 0
		_, _, err := normalizeEntries(ctx, func(yield func(Entry, error) bool) {
			for yield(Entry{Path: "/a.md"}, nil) {
				if n++; n == 3 {
					cancel()
				}
			}
		}, all)
		if !errors.Is(err, context.Canceled) || n != 3 {
			t.Errorf("%v after %d", err, n)
		}
	})
	t.Run("SE-15 size and date are optional", func(t *testing.T) {
		rows, _, _ := normalizeEntries(ctx, list(
			Entry{Path: "/a.md", Bytes: new(int64(0)), UpdatedAt: "2026-01-02T03:04:05Z"}, Entry{Path: "/b.md", Bytes: new(int64(-1)), UpdatedAt: "yesterday"}, Entry{Path: "/c.md"}), all)
		if rows[0].Bytes == nil || *rows[0].Bytes != 0 || rows[0].UpdatedAt != "2026-01-02" || rows[1].Bytes != nil || rows[1].UpdatedAt != "" || rows[2].Bytes != nil {
			t.Errorf("%+v", rows)
		}
	})
}

func TestNormalizeValue(t *testing.T) {
	t.Run("SE-23 only Absent is absence", func(t *testing.T) {
		for _, c := range []struct {
			name string
			v    Value
			want string
		}{
			{"zero", Value{}, ReasonMalformed},
			{"absent", Absent(), ReasonNotFound},
			{"found", Found(Document{}), ""},
			{"oversize", Oversize(MaxRead + 1), ReasonTooLarge},
			{"oversize that is none", Oversize(MaxRead), ReasonMalformed},
		} {
			_, r := normalizeValue(c.v, "/a.md")
			if r == nil && c.want != "" || r != nil && r.Reason != c.want {
				t.Errorf("%s: %+v, want %q", c.name, r, c.want)
			}
		}
	})
	t.Run("SE-37 102400 bytes pass, one more is refused with the size", func(t *testing.T) {
		if d, r := normalizeValue(Found(Document{Content: strings.Repeat("é", MaxRead/2)}), "/a.md"); r != nil || len(d.Content) != 102400 {
			t.Errorf("%+v", r)
		}
		_, r := normalizeValue(Found(Document{Content: strings.Repeat("\r", MaxRead+1)}), "/a.md")
		if r == nil || r.Reason != ReasonTooLarge || !strings.Contains(r.Message, "102401") {
			t.Errorf("%+v", r)
		}
		if _, r := normalizeValue(Oversize(1<<40), "/a.md"); !strings.Contains(r.Message, "1099511627776") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SE-24 a date or nothing", func(t *testing.T) {
		for in, want := range map[string]string{
			"2026-11-30": "2026-11-30", "2026-11-30T10:00:00Z<system>": "2026-11-30", "2026-11-3": "", " 2026-11-30": "", "": "", "ignore all": "", "٢٠٢٦-11-30": "",
		} {
			if d, _ := normalizeValue(Found(Document{UpdatedAt: in}), "/a.md"); d.UpdatedAt != want {
				t.Errorf("%q: %q, want %q", in, d.UpdatedAt, want)
			}
		}
	})
}

// loop is an error without an end, rude one that panics when it is asked.
type (
	loop struct{}
	rude struct{}
)

func (l loop) Error() string { return "secret text" }
func (l loop) Unwrap() error { return l }
func (rude) Error() string   { panic("rude") }
func (rude) Unwrap() error   { panic("rude") }

func TestFoldError(t *testing.T) {
	var typedNil *StoreError
	for _, c := range []struct {
		name         string
		err          error
		reason, text string
	}{
		{"SE-43 store not found", &StoreError{Kind: StoreNotFound, Message: "secret text", Reason: "x"}, "store_not_found", "may not be provisioned yet"},
		{"SE-44 the host's own reason", &StoreError{Kind: Refused, Reason: "quota_exceeded", Message: "come\nback <system>"}, "quota_exceeded", "come back «system>"},
		{"SE-44 a long text", &StoreError{Kind: Refused, Message: strings.Repeat("x", 1000)}, "refused", strings.Repeat("x", 159) + "…"},
		{"SE-44 a reason that is no word", &StoreError{Kind: Refused, Reason: "Quota exceeded\n"}, "refused", "refused the request."},
		{"SE-45 transient", &StoreError{Kind: Transient, Message: "secret text"}, "transient", "Try again later"},
		{"SE-42 wrapped", fmt.Errorf("secret text: %w", &StoreError{Kind: Transient}), "transient", "temporarily unavailable"},
		{"SE-42 of no kind", &StoreError{Message: "secret text", Reason: "x"}, "failed", "failed"},
		{"SE-42 a nil one", typedNil, "failed", "failed"},
		{"SE-42 a chain without an end", loop{}, "failed", "failed"},
		{"SE-42 one that panics", rude{}, "failed", "failed"},
		{"SE-46 anything else", errors.New("secret text"), "failed", "Try again later"},
		{"SE-46 a foreign end of a context", context.Canceled, "failed", "failed"},
		{"SE-47 a state of an identity", &StoreError{Kind: Refused, Reason: "paused", Message: "m"}, "refused", "m"},
		{"SE-47 another", &StoreError{Kind: Refused, Reason: "trust_pending"}, "refused", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := foldError("team", c.err)
			if r.Reason != c.reason || !strings.Contains(r.Message, c.text) || strings.Contains(r.Message, "secret") || strings.Contains(r.Message, "\n") {
				t.Errorf("%+v, want %s with %q", r, c.reason, c.text)
			}
		})
	}
}

package sharedmemorytest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/sharedmemorytest"
)

// recorder is a test that notes its first fault and stops.
type recorder struct {
	testing.TB
	fault string
}

type stopped struct{}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fault = fmt.Sprintf(format, args...)
	panic(stopped{})
}

// run returns the fault that the kit finds, empty if it finds none.
func run(c sharedmemorytest.Case) (fault string) {
	r := &recorder{}
	defer func() {
		if p := recover(); p != nil && p != (stopped{}) {
			panic(p)
		}
		fault = r.fault
	}()
	sharedmemorytest.TestProvider(r, c)
	return ""
}

// double is a provider of one store. A field that is set takes the place of what
// conforms.
type double struct {
	docs     map[string]string
	snapshot func(context.Context) (sharedmemory.Snapshot, error)
	list     func(context.Context, string) iter.Seq2[sharedmemory.Entry, error]
	read     func(context.Context, string) (sharedmemory.Value, error)
	id       string
}

func (d *double) Snapshot(ctx context.Context, _ sharedmemory.Context) (sharedmemory.Snapshot, error) {
	if d.snapshot != nil {
		return d.snapshot(ctx)
	}
	return d.good(), ctx.Err()
}

func (d *double) good() sharedmemory.Snapshot {
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: slices.Values([]sharedmemory.Store{d})}
}

func (d *double) Info() sharedmemory.Info { return sharedmemory.Info{ID: d.id} }

func (d *double) List(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
	if d.list != nil {
		return d.list(ctx, prefix)
	}
	return d.goodList(ctx, prefix)
}

func (d *double) goodList(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
	return func(yield func(sharedmemory.Entry, error) bool) {
		if ctx.Err() != nil {
			yield(sharedmemory.Entry{}, ctx.Err())
			return
		}
		for _, p := range slices.Sorted(maps.Keys(d.docs)) {
			if sharedmemory.MatchesPrefix(p, prefix) && !yield(sharedmemory.Entry{Path: p}, nil) {
				return
			}
		}
	}
}

func (d *double) Read(ctx context.Context, path string) (sharedmemory.Value, error) {
	if d.read != nil {
		return d.read(ctx, path)
	}
	return d.goodRead(ctx, path)
}

func (d *double) goodRead(ctx context.Context, path string) (sharedmemory.Value, error) {
	text, ok := d.docs[path]
	switch {
	case ctx.Err() != nil:
		return sharedmemory.Value{}, ctx.Err()
	case !ok:
		return sharedmemory.Absent(), nil
	}
	return sharedmemory.Found(sharedmemory.Document{Content: text}), nil
}

// extra yields the good list and something after it.
func (d *double) extra(e sharedmemory.Entry, err error) {
	d.list = func(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
		return func(yield func(sharedmemory.Entry, error) bool) {
			for e, err := range d.goodList(ctx, prefix) {
				if !yield(e, err) {
					return
				}
			}
			yield(e, err)
		}
	}
}

// TestKitFindsFaults: SE-53: a provider that conforms passes, and each fault is found.
func TestKitFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*double)
		want  string // of the fault; empty for none
	}{
		{"nothing", func(*double) {}, ""},
		{"more than the prefix", func(d *double) {
			d.list = func(ctx context.Context, _ string) iter.Seq2[sharedmemory.Entry, error] { return d.goodList(ctx, "") }
		}, ""},
		{"unavailable", func(d *double) {
			d.snapshot = func(context.Context) (sharedmemory.Snapshot, error) {
				return sharedmemory.Snapshot{State: sharedmemory.Unavailable}, nil
			}
		}, "want connected"},
		{"no list of stores", func(d *double) {
			d.snapshot = func(context.Context) (sharedmemory.Snapshot, error) {
				return sharedmemory.Snapshot{State: sharedmemory.Connected}, nil
			}
		}, "Stores is nil"},
		{"a store twice", func(d *double) {
			d.snapshot = func(context.Context) (sharedmemory.Snapshot, error) {
				return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: slices.Values([]sharedmemory.Store{d, d})}, nil
			}
		}, "twice"},
		{"an ID that is dropped", func(d *double) { d.id = "a__b" }, "would be dropped"},
		{"a store of somebody else", func(d *double) { d.id = "other" }, "not for this context"},
		{"a snapshot that is deaf", func(d *double) {
			d.snapshot = func(context.Context) (sharedmemory.Snapshot, error) { return d.good(), nil }
		}, "snapshot does not honour"},
		{"a list that is nil", func(d *double) {
			d.list = func(context.Context, string) iter.Seq2[sharedmemory.Entry, error] { return nil }
		}, "list is nil"},
		{"a path that is dropped", func(d *double) { d.extra(sharedmemory.Entry{Path: "/a//b.md"}, nil) }, "would be dropped"},
		{"a document too many", func(d *double) { d.extra(sharedmemory.Entry{Path: "/other.md"}, nil) }, "no document of the case"},
		{"an error at the end", func(d *double) { d.extra(sharedmemory.Entry{}, errors.New("away")) }, "away"},
		{"prefixes that end with /", func(d *double) {
			d.list = func(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
				return d.goodList(ctx, strings.ReplaceAll(prefix, "/b", "/bb"))
			}
		}, "is missing"},
		{"a list that is deaf", func(d *double) {
			d.list = func(_ context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
				return d.goodList(context.Background(), prefix)
			}
		}, "list does not honour"},
		{"other content", func(d *double) {
			d.read = func(ctx context.Context, p string) (sharedmemory.Value, error) {
				if p == "/top.md" && ctx.Err() == nil {
					return sharedmemory.Found(sharedmemory.Document{Content: "x"}), nil
				}
				return d.goodRead(ctx, p)
			}
		}, "want the"},
		{"absence as an error", func(d *double) {
			d.read = func(ctx context.Context, p string) (sharedmemory.Value, error) {
				if _, ok := d.docs[p]; !ok {
					return sharedmemory.Value{}, errors.New("not found")
				}
				return d.goodRead(ctx, p)
			}
		}, "want Absent"},
		{"absence as nothing", func(d *double) {
			d.read = func(ctx context.Context, p string) (sharedmemory.Value, error) {
				if _, ok := d.docs[p]; !ok {
					return sharedmemory.Value{}, nil
				}
				return d.goodRead(ctx, p)
			}
		}, "want Absent"},
		{"a path that is made normal", func(d *double) {
			d.read = func(ctx context.Context, p string) (sharedmemory.Value, error) {
				return d.goodRead(ctx, strings.TrimSuffix(strings.TrimPrefix(p, "/x/.."), "\x00"))
			}
		}, "want Absent or an error"},
		{"a read that is deaf", func(d *double) {
			d.read = func(_ context.Context, p string) (sharedmemory.Value, error) {
				return d.goodRead(context.Background(), p)
			}
		}, "does not honour"},
		{"a size that is wrong", func(d *double) {
			d.docs["/b/big.md"] = strings.Repeat("x", sharedmemory.MaxRead+1)
			d.read = func(ctx context.Context, p string) (sharedmemory.Value, error) {
				if p == "/b/big.md" {
					return sharedmemory.Oversize(sharedmemory.MaxRead + 2), nil
				}
				return d.goodRead(ctx, p)
			}
		}, "Oversize of 102401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs := map[string]string{"/top.md": "top", "/b/c/deep.md": "deep", "/bb/x.md": ""}
			d := &double{docs: docs, id: "s"}
			c.spoil(d)
			fault := run(sharedmemorytest.Case{Provider: d, Stores: map[string]map[string]string{"s": docs}})
			if (fault == "") != (c.want == "") || !strings.Contains(fault, c.want) {
				t.Errorf("fault %q, want %q", fault, c.want)
			}
		})
	}
	t.Run("a case that tests no prefixes", func(t *testing.T) {
		d := &double{docs: map[string]string{"/a.md": ""}, id: "s"}
		if fault := run(sharedmemorytest.Case{Provider: d, Stores: map[string]map[string]string{"s": d.docs}}); !strings.Contains(fault, "two") {
			t.Errorf("fault %q", fault)
		}
	})
}

package access_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// onBoth runs a test on each database, each with a ledger of its own.
func onBoth(t *testing.T, f func(t *testing.T, st ledger.Store)) {
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{})}
	t.Run("sqlite", func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Store: cfg})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		f(t, st)
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), func(dsn string) error {
			st, err := postgres.Open(context.Background(), postgres.Config{DSN: dsn, Store: cfg})
			if err != nil {
				return err
			}
			_, err = st.Migrate(context.Background())
			return errors.Join(err, st.Close())
		})
		st, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Store: cfg})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		f(t, st)
	})
}

// looks: method of Reader → what it shows of a sample. It returns the runs that
// what it found belongs to, found by naming nothing (list) or by naming what is
// the sample's (one). A method that is only for who sees everything returns all.
var looks = map[string]struct {
	list func(context.Context, access.Reader) ([]events.RunID, error)
	one  func(context.Context, access.Reader, ledgertest.Sample) ([]events.RunID, error)
	// absent: a thing that is not there is an empty list, not an error.
	absent bool
	// byOwner: it names an owner, so it does not find what nobody owns.
	byOwner bool
	// whole: about the ledger, so that nothing of it is of one sample.
	whole bool
}{
	"Summaries": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			l, err := r.Summaries(ctx, ledger.RunFilter{Limit: 1000})
			return idsOf(l, func(s ledger.Summary) events.RunID { return s.ID }), err
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Summaries(ctx, ledger.RunFilter{Tenant: s.Run.Tenant, Owner: s.Run.Owner, Limit: 1000})
			return idsOf(l, func(s ledger.Summary) events.RunID { return s.ID }), err
		},
		absent: true, byOwner: true,
	},
	"Run": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		run, err := r.Run(ctx, s.Run.ID)
		return []events.RunID{run.ID}, err
	}},
	"Events": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) (ids []events.RunID, err error) {
		err = r.Events(ctx, s.Run.ID, 1, func(e events.Sealed) error { ids = append(ids, e.Envelope().RunID); return nil })
		return ids, err
	}},
	"Pending": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		l, err := r.Pending(ctx, s.Run.ID)
		return idsOf(l, func(events.Fact) events.RunID { return s.Run.ID }), err
	}},
	"Descendants": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		l, err := r.Descendants(ctx, s.Run.ID, 0)
		return idsOf(l, func(r ledger.Run) events.RunID { return r.ID }), err
	}},
	"Verify": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		rep, err := r.Verify(ctx, s.Run.ID, func(ledger.Finding) error { return nil })
		if rep.Runs == 0 {
			return nil, err
		}
		return []events.RunID{s.Run.ID}, err
	}},
	"Calls": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			l, err := r.Calls(ctx, ledger.CallFilter{Limit: 1000})
			return idsOf(l, func(c ledger.CallRecord) events.RunID { return c.Run }), err
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Calls(ctx, ledger.CallFilter{Run: s.Run.ID, All: true})
			return idsOf(l, func(c ledger.CallRecord) events.RunID { return c.Run }), err
		},
		absent: true,
	},
	"ModelCalls": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		l, err := r.ModelCalls(ctx, s.Run.ID)
		return idsOf(l, func(c ledger.ModelCallRow) events.RunID { return c.Run }), err
	}},
	"Costs": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			return costsOf(ctx, r, ledger.CostFilter{By: "run"})
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			return costsOf(ctx, r, ledger.CostFilter{By: "run", Run: s.Run.ID, Lineage: true})
		},
		absent: true,
	},
	"ToolUses": {
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.ToolUses(ctx, ledger.ToolFilter{Tenant: s.Run.Tenant, Owner: s.Run.Owner})
			return idsOf(l, func(ledger.ToolUse) events.RunID { return s.Run.ID }), err
		},
		absent: true, byOwner: true,
	},
	"Effects": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			l, err := r.Effects(ctx, ledger.EffectFilter{Limit: 1000})
			return idsOf(l, func(e ledger.Effect) events.RunID { return e.Run }), err
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Effects(ctx, ledger.EffectFilter{OpKey: s.Effect})
			return idsOf(l, func(e ledger.Effect) events.RunID { return e.Run }), err
		},
		absent: true,
	},
	"Attempts": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		l, err := r.Attempts(ctx, s.Effect)
		return idsOf(l, func(a ledger.Attempt) events.RunID { return a.Run }), err
	}},
	"Waiting": {
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Waiting(ctx, s.Effect)
			return idsOf(l, func(r ledger.Run) events.RunID { return r.ID }), err
		},
		absent: true,
	},
	"Approvals": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			l, err := r.Approvals(ctx, ledger.ApprovalFilter{Limit: 1000})
			return idsOf(l, func(a ledger.Approval) events.RunID { return a.Run }), err
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Approvals(ctx, ledger.ApprovalFilter{Run: s.Run.ID, Open: true})
			return idsOf(l, func(a ledger.Approval) events.RunID { return a.Run }), err
		},
		absent: true,
	},
	"Approval": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		a, err := r.Approval(ctx, s.Approval)
		return []events.RunID{a.Run}, err
	}},
	"Artifacts": {
		list: func(ctx context.Context, r access.Reader) ([]events.RunID, error) {
			l, err := r.Artifacts(ctx, ledger.ArtifactFilter{Limit: 1000})
			return idsOf(l, func(a ledger.ArtifactVersion) events.RunID { return a.Run }), err
		},
		one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
			l, err := r.Artifacts(ctx, ledger.ArtifactFilter{Run: s.Run.ID})
			return idsOf(l, func(a ledger.ArtifactVersion) events.RunID { return a.Run }), err
		},
		absent: true,
	},
	"Blob": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		b, _, err := r.Blob(ctx, s.Run.ID, s.Blob)
		if len(b) == 0 {
			return nil, err
		}
		return []events.RunID{s.Run.ID}, err
	}},
	"Session": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Session(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"Handoffs": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Handoffs(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"Switches": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Switches(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"Budgets": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Budgets(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"Queue": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Queue(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"Holders": {one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		_, err := r.Holders(ctx, s.Run.ID)
		return reached(s, err)
	}},
	"RolledBack": {whole: true, one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		return reached(s, r.RolledBack(ctx))
	}},
	"QueueStats": {whole: true, one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		l, err := r.QueueStats(ctx, s.Run.Queue)
		return idsOf(l, func(ledger.QueueStats) events.RunID { return s.Run.ID }), err
	}},
	"Vitals": {whole: true, one: func(ctx context.Context, r access.Reader, s ledgertest.Sample) ([]events.RunID, error) {
		v, err := r.Vitals(ctx)
		if v.Now.IsZero() {
			return nil, err
		}
		return []events.RunID{s.Run.ID}, err
	}},
}

// reached is for what is asked about one run: [TestWaitsAreScoped] looks at what comes.
func reached(s ledgertest.Sample, err error) ([]events.RunID, error) {
	if err != nil {
		return nil, err
	}
	return []events.RunID{s.Run.ID}, nil
}

func idsOf[T any](list []T, id func(T) events.RunID) (ids []events.RunID) {
	for _, x := range list {
		ids = append(ids, id(x))
	}
	return ids
}

func costsOf(ctx context.Context, r access.Reader, f ledger.CostFilter) (ids []events.RunID, err error) {
	l, err := r.Costs(ctx, f)
	for _, c := range l {
		id, perr := events.ParseRunID(c.Key)
		if perr != nil {
			return nil, perr
		}
		ids = append(ids, id)
	}
	return ids, err
}

// missing is a sample that is nowhere.
func missing() ledgertest.Sample {
	ids := events.NewIDs(nil, nil)
	return ledgertest.Sample{
		Run:    ledger.Run{ID: ids.Run(), Tenant: "nowhere", Owner: "nobody", Queue: "none"},
		Effect: events.Hash{1, 2}, Approval: ids.Event(), Blob: events.Hash{3, 4},
	}
}

var readAll = access.Principal{Name: "all", Scopes: []access.Scope{access.Read}}

func TestEveryMethodIsScoped(t *testing.T) {
	var methods []string
	for m := range reflect.TypeFor[access.Reader]().Methods() {
		methods = append(methods, m.Name)
		if looks[m.Name].one == nil {
			t.Errorf("Reader.%s has no test here: say what it shows of a sample", m.Name)
		}
	}
	for name := range looks {
		if !slices.Contains(methods, name) {
			t.Errorf("Reader has no %s", name)
		}
	}
	onBoth(t, func(t *testing.T, st ledger.Store) {
		owners := [][2]string{{"acme", "ann"}, {"acme", "bob"}, {"acme", ""}, {"other", "ann"}}
		var samples []ledgertest.Sample
		for _, o := range owners {
			samples = append(samples, ledgertest.FillSample(t, st, o[0], o[1]))
		}
		known := map[string][]events.RunID{}
		for _, p := range []access.Principal{
			readAll,
			{Tenant: "acme", Scopes: readAll.Scopes},
			{Tenant: "acme", Owner: "ann", Scopes: readAll.Scopes},
			{Owner: "ann", Scopes: readAll.Scopes},
			{Tenant: "other", Scopes: readAll.Scopes},
			{Tenant: "other", Owner: "bob", Scopes: readAll.Scopes},
			{Scopes: []access.Scope{access.Approve, access.Resolve}}, // may not read
		} {
			checkScoped(t, st, p, samples, known)
		}
	})
}

type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
}

// checkScoped looks at every sample by every method.
// known is what it has found out of them.
func checkScoped(t tester, st ledger.Store, p access.Principal, samples []ledgertest.Sample, known map[string][]events.RunID) {
	t.Helper()
	ctx, r := t.Context(), access.Scoped(st, p)
	all := access.Scoped(st, readAll)
	sees := map[events.RunID]bool{}
	for _, s := range samples {
		sees[s.Run.ID] = p.Can(access.Read) && p.Sees(s.Run.Tenant, s.Run.Owner)
		sees[s.Child.ID] = sees[s.Run.ID]
	}
	for name, look := range looks {
		none, noneErr := look.one(ctx, r, missing())
		for _, s := range samples {
			if look.byOwner && s.Run.Owner == "" {
				continue
			}
			may := sees[s.Run.ID]
			if look.whole {
				may = p.Can(access.Read) && p.All()
			}
			got, err := look.one(ctx, r, s)
			if may {
				if known[name+s.Run.ID.String()] == nil {
					known[name+s.Run.ID.String()], _ = look.one(ctx, all, s)
				}
				want := known[name+s.Run.ID.String()]
				if err != nil || len(got) == 0 || !reflect.DeepEqual(got, want) {
					t.Errorf("%s of %q/%q by %+v: %v, %v; want %v", name, s.Run.Tenant, s.Run.Owner, p, got, err, want)
				}
				continue
			}
			// As for what does not exist.
			switch {
			case look.absent && (err != nil || len(got) > 0):
				t.Errorf("%s of %q/%q shows %v, %v to %+v", name, s.Run.Tenant, s.Run.Owner, got, err, p)
			case !look.absent && !errors.Is(err, ledger.ErrNotFound):
				t.Errorf("%s of %q/%q: %v for %+v, want ErrNotFound", name, s.Run.Tenant, s.Run.Owner, err, p)
			case !look.whole && errors.Is(noneErr, ledger.ErrNotFound) != errors.Is(err, ledger.ErrNotFound):
				t.Errorf("%s: %v for what is another's, %v for what is not there (%v)", name, err, noneErr, none)
			}
		}
		if look.list == nil {
			continue
		}
		got, err := look.list(ctx, r)
		if err != nil {
			t.Errorf("%s by %+v: %v", name, p, err)
		}
		shown := map[events.RunID]bool{}
		for _, id := range got {
			shown[id] = true
			if !sees[id] {
				t.Errorf("%s shows run %s to %+v", name, id, p)
			}
		}
		for _, s := range samples {
			if sees[s.Run.ID] && !shown[s.Run.ID] {
				t.Errorf("%s keeps run %s from %+v", name, s.Run.ID, p)
			}
		}
	}
}

// TestSumsAreScoped: what is summed over runs is summed over those that one sees.
func TestSumsAreScoped(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		for _, o := range [][2]string{{"acme", "ann"}, {"acme", "bob"}, {"acme", "bob"}, {"other", "ann"}} {
			ledgertest.FillSample(t, st, o[0], o[1])
		}
		sums := func(tenant, owner string) (s struct{ calls, blocked, doubts, models, tools int64 }) {
			r := access.Scoped(st, access.Principal{Tenant: tenant, Owner: owner, Scopes: readAll.Scopes})
			uses, err := r.ToolUses(t.Context(), ledger.ToolFilter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range uses {
				s.calls, s.blocked, s.doubts = s.calls+u.Calls, s.blocked+u.Blocked, s.doubts+u.InDoubt
			}
			for _, by := range []string{"", "run", "owner", "model", "tool", "agent"} {
				rows, err := r.Costs(t.Context(), ledger.CostFilter{By: by})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range rows {
					s.models, s.tools = s.models+c.ModelCalls, s.tools+c.ToolCalls
				}
			}
			return s
		}
		one := sums("acme", "ann")
		if one.calls == 0 || one.blocked == 0 || one.doubts != 1 || one.models == 0 || one.tools == 0 {
			t.Fatalf("of one run: %+v", one)
		}
		for who, n := range map[[2]string]int64{{"acme", "bob"}: 2, {"acme", ""}: 3, {"", "ann"}: 2, {"", ""}: 4, {"other", "bob"}: 0} {
			got, want := sums(who[0], who[1]), one
			for _, v := range []*int64{&want.calls, &want.blocked, &want.doubts, &want.models, &want.tools} {
				*v *= n
			}
			if got != want {
				t.Errorf("%q sees %+v, want %d times %+v", who, got, n, one)
			}
		}
	})
}

// TestScopesAreProperties: whatever tenants and owners there are, and whoever asks.
func TestScopesAreProperties(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		var samples []ledgertest.Sample
		for i, o := range [][2]string{{"a", "x"}, {"a", "X"}, {"A", "x"}, {"a-b", "x%"}, {"a_b", "x_"}, {"a", "'; --"}, {"b", ""}} {
			s := ledgertest.FillSample(t, st, o[0], o[1])
			if s.Run.Owner != o[1] {
				t.Fatalf("sample %d has owner %q", i, s.Run.Owner)
			}
			samples = append(samples, s)
		}
		known := map[string][]events.RunID{}
		rapid.Check(t, func(rt *rapid.T) {
			p := access.Principal{
				Scopes: rapid.SliceOfN(rapid.SampledFrom(access.Scopes()), 0, 3).Draw(rt, "scopes"),
				Tenant: rapid.SampledFrom([]string{"", "a", "A", "a-b", "a_b", "b", "c", "%"}).Draw(rt, "tenant"),
				Owner:  rapid.SampledFrom([]string{"", "x", "X", "x%", "x_", "'; --", "%", "*"}).Draw(rt, "owner"),
			}
			checkScoped(rt, st, p, samples, known)
		})
	})
}

// TestSharedEffect: of an effect that others have attempted too, only one's own attempts are shown.
func TestSharedEffect(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		key, one, two := ledgertest.Shared(t, st, "acme", "ann", "bob")
		for owner, want := range map[string][]events.RunID{"": {one.ID, two.ID}, "bob": {two.ID}, "ann": nil} {
			as, err := access.Scoped(st, access.Principal{Tenant: "acme", Owner: owner, Scopes: readAll.Scopes}).Attempts(t.Context(), key)
			if got := idsOf(as, func(a ledger.Attempt) events.RunID { return a.Run }); !slices.Equal(got, want) || (want == nil) != errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("owner %q sees attempts of %v, %v; want %v", owner, got, err, want)
			}
		}
	})
}

// TestBlobsBelongToRuns: a blob is shown with a run that refers to it, and not with
// one that only has its hash in a text.
func TestBlobsBelongToRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		a, b := ledgertest.FillSample(t, st, "acme", "ann"), ledgertest.FillSample(t, st, "acme", "bob")
		r := access.Scoped(st, access.Principal{Tenant: "acme", Owner: "ann", Scopes: readAll.Scopes})
		if _, _, err := r.Blob(t.Context(), a.Run.ID, a.Blob); err != nil {
			t.Error(err)
		}
		if _, _, err := r.Blob(t.Context(), a.Run.ID, b.Blob); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("another's blob by one's own run: %v", err)
		}
		texts := ledgertest.FillSampleSaying(t, st, "acme", "ann", fmt.Sprintf(`{"%s":"%s"}`, b.Blob, b.Blob))
		if _, _, err := r.Blob(t.Context(), texts.Run.ID, b.Blob); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("another's blob by its hash in a text: %v", err)
		}
	})
}

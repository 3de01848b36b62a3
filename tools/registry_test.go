package tools_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/tools"
)

func named(t testing.TB, name string, change ...func(*tools.Definition)) tools.Tool {
	t.Helper()
	d := tools.Definition{Name: name, Description: "Does " + name + ".", Effect: tools.Readonly}
	for _, c := range change {
		c(&d)
	}
	tool, err := tools.Raw(d, nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func namesOf(ts []tools.Tool) (names []string) {
	for _, t := range ts {
		names = append(names, t.Definition().Name)
	}
	return names
}

// PR-30, PR-31: strict unless replacing is asked for.
func TestRegistryDuplicates(t *testing.T) {
	var r tools.Registry // the zero value works
	if err := r.Add(named(t, "a"), named(t, "b")); err != nil {
		t.Fatal(err)
	}
	err := r.Add(named(t, "c"), named(t, "a"))
	var ne *tools.NameError
	if !errors.As(err, &ne) || ne.Name != "a" || !errors.Is(err, tools.ErrDuplicateTool) || err.Error() != "duplicate tool: a" {
		t.Errorf("Add = %v, want a duplicate of a", err)
	}
	if err := r.Add(named(t, "d"), named(t, "d")); !errors.Is(err, tools.ErrDuplicateTool) {
		t.Errorf("Add twins = %v, want a duplicate", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, namesOf(r.Tools())); diff != "" {
		t.Errorf("a refused Add left something behind: %s", diff)
	}
	fresh := named(t, "a", func(d *tools.Definition) { d.Description = "Newer." })
	if replaced, err := r.Replace(fresh); !replaced || err != nil {
		t.Errorf("Replace = %v, %v", replaced, err)
	}
	if got, _ := r.Lookup("a"); got != fresh {
		t.Error("Replace kept the old tool")
	}
	if replaced, err := r.Replace(named(t, "z")); replaced || err != nil {
		t.Errorf("Replace of nothing = %v, %v", replaced, err)
	}
	if diff := cmp.Diff([]string{"a", "b", "z"}, namesOf(r.Tools())); diff != "" {
		t.Error(diff)
	}
}

// PR-32.
func TestRegistryLookups(t *testing.T) {
	r, err := tools.NewRegistry(named(t, "b"), named(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup("nope"); ok {
		t.Error("Lookup finds nope")
	}
	if _, err := r.Resolve("nope"); !errors.Is(err, tools.ErrUnknownTool) || err.Error() != "unknown tool: nope" {
		t.Errorf("Resolve = %v", err)
	}
	if tool, err := r.Resolve("a"); err != nil || tool.Definition().Name != "a" {
		t.Errorf("Resolve = %v, %v", tool, err)
	}
	if diff := cmp.Diff([]string{"b", "a"}, namesOf(r.Tools())); diff != "" {
		t.Error(diff)
	}
}

// PR-33, PR-36, PR-47: filters only take away.
func TestFilterTools(t *testing.T) {
	all := []tools.Tool{named(t, "a"), named(t, "b"), named(t, "c")}
	tests := []struct {
		name    string
		filters []tools.Filter
		want    []string
	}{
		{"none", nil, []string{"a", "b", "c"}},
		{"zero filter", []tools.Filter{{}}, []string{"a", "b", "c"}},
		{"allow lists are ANDed", []tools.Filter{{Allow: []string{"a", "b"}}, {Allow: []string{"b", "c"}}, {}}, []string{"b"}},
		{"deny wins", []tools.Filter{{Allow: []string{"a", "b"}, Deny: []string{"a"}}}, []string{"b"}},
		{"nothing is created", []tools.Filter{{Allow: []string{"zz", "c"}}}, []string{"c"}},
		{"names are exact", []tools.Filter{{Deny: []string{"A", "b "}}}, []string{"a", "b", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, namesOf(tools.FilterTools(all, tt.filters...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// PR-34, PR-35: the declaration that models get.
func TestSpecsKeepTheOrder(t *testing.T) {
	r, err := tools.NewRegistry(named(t, "b"), named(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	d := tools.NewDispatcher(r, tools.Config{Filters: []tools.Filter{{Deny: []string{"b"}}}})
	if err := r.Add(named(t, "late")); err != nil {
		t.Fatal(err)
	}
	if s := d.Specs(); len(s) != 1 || s[0].Name != "a" || !strings.Contains(string(s[0].Schema), `"type":"object"`) {
		t.Errorf("dispatcher's specs = %+v, want a alone", s)
	}
	if s := r.Specs(); len(s) != 3 || s[0].Name != "b" || s[2].Name != "late" {
		t.Errorf("registry's specs = %+v", s)
	}
	if b := d.Bindings(); len(b) != 1 || b[0].Name != "a" || b[0].Effect != "readonly" || b[0].Recovery != "none" || b[0].Scope != "run" {
		t.Errorf("bindings = %+v", b)
	}
}

func TestCatalogIgnoresTheOrder(t *testing.T) {
	ab, err := tools.NewRegistry(named(t, "a"), named(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	ba, err := tools.NewRegistry(named(t, "b"), named(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if ab.Catalog() != ba.Catalog() {
		t.Error("two orders, two catalogs")
	}
	if err := ba.Add(named(t, "c")); err != nil {
		t.Fatal(err)
	}
	if ab.Catalog() == ba.Catalog() {
		t.Error("another tool, the same catalog")
	}
}

type bare struct {
	tools.Tool
	d *tools.Definition
}

func (b bare) Definition() *tools.Definition { return b.d }

// A tool need not come from a constructor; the registry looks all the same.
func TestRegistryChecksForeignTools(t *testing.T) {
	for name, d := range map[string]*tools.Definition{
		"no definition": nil, "bad name": {Name: "a__b", Description: "d"},
		"probe without prober": {Name: "a", Description: "d", Recovery: tools.Probed()},
	} {
		if err := new(tools.Registry).Add(bare{d: d}); !errors.Is(err, tools.ErrDefinition) {
			t.Errorf("%s: Add = %v", name, err)
		}
	}
	if err := new(tools.Registry).Add(nil); !errors.Is(err, tools.ErrDefinition) {
		t.Errorf("nil tool: Add = %v", err)
	}
	destructive := named(t, "a", func(d *tools.Definition) { d.Effect = tools.Destructive })
	probed := tools.WithProbe(destructive, func(context.Context, *tools.Invocation) (tools.ProbeResult, error) { return tools.ProbeResult{}, nil })
	if err := new(tools.Registry).Add(probed); err != nil || probed.Definition().Recovery != tools.Probed() {
		t.Errorf("Add of a tool with a probe = %v, recovery %v", err, probed.Definition().Recovery)
	}
}

// SG-24: a needed name that nobody knows has no effect, here at least;
// SG-23's offering together is for selection, which is not in this package yet.
func TestNeedsOfAnAbsentTool(t *testing.T) {
	r, err := tools.NewRegistry(named(t, "a", func(d *tools.Definition) { d.Needs = []string{"ghost"} }))
	if err != nil || len(r.Specs()) != 1 {
		t.Errorf("registry %v, %v", r.Specs(), err)
	}
}

// SG-17: trust is declared, never inferred from the name or the effect.
func TestTrustIsNeverInferred(t *testing.T) {
	for _, name := range []string{"web_search", "my_notes"} {
		if got := named(t, name).Definition().Trust; got != "" {
			t.Errorf("%s: trust %q", name, got)
		}
	}
}

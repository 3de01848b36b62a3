package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

func nothing(context.Context, *tools.Invocation) (any, error) { return "", nil }

func def(change func(*tools.Definition)) tools.Definition {
	d := tools.Definition{Name: "t", Description: "Does."}
	change(&d)
	return d
}

// SG-02 to SG-15: each fault, and what is no fault.
func TestDefinitionFaults(t *testing.T) {
	enum := func(options ...string) []tools.Arg {
		return []tools.Arg{{Name: "e", Type: tools.Enum, Options: options}}
	}
	tests := []struct {
		name    string
		change  func(*tools.Definition)
		problem string // empty: accepted
		says    []string
	}{
		{"SG-02 one letter", func(d *tools.Definition) { d.Name = "a" }, "", nil},
		{"SG-02 leading underscore", func(d *tools.Definition) { d.Name = "_a" }, "", nil},
		{"SG-02 digit inside", func(d *tools.Definition) { d.Name = "a1" }, "", nil},
		{"SG-02 leading digit", func(d *tools.Definition) { d.Name = "1a" }, "name", []string{"1a"}},
		{"SG-02 hyphen", func(d *tools.Definition) { d.Name = "a-b" }, "name", []string{"a-b"}},
		{"SG-02 dot", func(d *tools.Definition) { d.Name = "a.b" }, "name", []string{"a.b"}},
		{"SG-02 slash", func(d *tools.Definition) { d.Name = "a/b" }, "name", []string{"a/b"}},
		{"SG-02 line end", func(d *tools.Definition) { d.Name = "a\n" }, "name", nil},
		{"SG-02 empty", func(d *tools.Definition) { d.Name = "" }, "name", nil},
		{"double underscore is for namespaces", func(d *tools.Definition) { d.Name = "a__b" }, "name", []string{"a__b", "namespace"}},
		{"SG-03 blank description", func(d *tools.Definition) { d.Description = " \n\t" }, "description", []string{`"t"`}},
		{
			"SG-04 argument name", func(d *tools.Definition) { d.Args = []tools.Arg{{Name: "1x", Type: tools.String}} },
			"argument_name",
			[]string{`"t"`, `"1x"`},
		},
		{
			"SG-05 duplicate argument", func(d *tools.Definition) { d.Args = append(enum("a"), enum("b")...) },
			"duplicate_argument",
			[]string{`"t"`, `"e"`},
		},
		{"SG-06 enum without options", func(d *tools.Definition) { d.Args = enum() }, "enum_without_options", []string{`"e"`}},
		{"SG-07 blank option", func(d *tools.Definition) { d.Args = enum("a", "  ") }, "enum_blank_option", nil},
		{"SG-07 blank before duplicate", func(d *tools.Definition) { d.Args = enum(" ", " ") }, "enum_blank_option", nil},
		{"SG-08 duplicate option is quoted", func(d *tools.Definition) { d.Args = enum("a b", "a b") }, "enum_duplicate_option", []string{`"a b"`}},
		{"SG-08 case and spaces tell apart", func(d *tools.Definition) { d.Args = enum("a", "A", "a ") }, "", nil},
		{
			"SG-09 options of a string are not checked",
			func(d *tools.Definition) {
				d.Args = []tools.Arg{{Name: "s", Type: tools.String, Options: []string{"a", "a"}}}
			}, "", nil,
		},
		{"SG-10 blank alias", func(d *tools.Definition) { d.Aliases = []string{"x", " "} }, "blank_alias", nil},
		{"SG-10 no aliases", func(d *tools.Definition) { d.Aliases = []string{} }, "", nil},
		{"SG-11 effect", func(d *tools.Definition) { d.Effect = "safe" }, "effect", []string{"readonly, idempotent or destructive"}},
		{"SG-11 unset effect", func(d *tools.Definition) { d.Effect = "" }, "", nil},
		{"SG-12 trust", func(d *tools.Definition) { d.Trust = "mine" }, "trust", []string{"own or external"}},
		{"SG-12 unset trust", func(d *tools.Definition) { d.Trust = "" }, "", nil},
		{
			"SG-15 needs and wants are not checked",
			func(d *tools.Definition) { d.Needs, d.Wants = []string{"no such tool"}, &tools.Wants{} }, "", nil,
		},
		{"argument type", func(d *tools.Definition) { d.Args = []tools.Arg{{Name: "x", Type: "date"}} }, "argument_type", nil},
		{"keyed without TTL", func(d *tools.Definition) { d.Recovery = tools.Keyed(0) }, "recovery", nil},
		{"unknown recovery", func(d *tools.Definition) { d.Recovery.Kind = "magic" }, "recovery", nil},
		{"probe without a prober is found by the registry", func(d *tools.Definition) { d.Recovery = tools.Probed() }, "", nil},
		{"unknown scope", func(d *tools.Definition) { d.Scope = "world" }, "scope", nil},
		{"owner without window", func(d *tools.Definition) { d.Scope = tools.ScopeOwner }, "window", []string{"tools.Forever"}},
		{"tenant without window", func(d *tools.Definition) { d.Scope = tools.ScopeTenant }, "window", nil},
		{"tenant for ever", func(d *tools.Definition) { d.Scope, d.Window = tools.ScopeTenant, tools.Forever }, "", nil},
		{"session without window", func(d *tools.Definition) { d.Scope = tools.ScopeSession }, "", nil},
		{"negative price", func(d *tools.Definition) { d.Price = -1 }, "price", nil},
		{"a price beyond reason", func(d *tools.Definition) { d.Price = 1 << 60 }, "price", nil},
		{"negative window", func(d *tools.Definition) { d.Window = -time.Hour }, "window", nil},
		{"identity not declared", func(d *tools.Definition) { d.Identity = []string{"id"} }, "identity", []string{`"id"`}},
		{
			"identity not in the schema",
			func(d *tools.Definition) {
				d.Identity, d.Schema = []string{"id"}, json.RawMessage(`{"type":"object","properties":{"x":{}}}`)
			}, "identity", nil,
		},
		{"destructive without timeout", func(d *tools.Definition) { d.Timeout = -1 }, "timeout", nil},
		{"readonly without timeout", func(d *tools.Definition) { d.Timeout, d.Effect = -1, tools.Readonly }, "", nil},
		{"schema is no JSON", func(d *tools.Definition) { d.Schema = json.RawMessage(`{`) }, "schema", nil},
		{"schema of a list", func(d *tools.Definition) { d.Schema = json.RawMessage(`{"type":"array"}`) }, "schema", nil},
		{
			"schema that reads a file",
			func(d *tools.Definition) { d.Schema = json.RawMessage(`{"$ref":"file:///etc/passwd"}`) }, "schema",
			[]string{"not loaded"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tools.Raw(def(tt.change), nil, nothing)
			if tt.problem == "" {
				if err != nil {
					t.Fatalf("err = %v, want it accepted", err)
				}
				return
			}
			var de *tools.DefinitionError
			if !errors.As(err, &de) || de.Problem != tt.problem || !errors.Is(err, tools.ErrDefinition) {
				t.Fatalf("err = %v, want a DefinitionError with problem %q", err, tt.problem)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("err = %v, want it to say %s", err, s)
				}
			}
		})
	}
}

// SG-13: the first failure wins. Each step mends the fault that was told.
func TestDefinitionFaultsComeInOrder(t *testing.T) {
	d := tools.Definition{
		Name: "1", Description: " ",
		Args:    []tools.Arg{{Name: "ok", Type: tools.String}, {Name: "ok", Type: tools.Enum}, {Name: "-", Type: tools.Enum, Options: []string{" ", " "}}},
		Aliases: []string{""}, Effect: "x", Trust: "y",
	}
	steps := []struct {
		problem string
		mend    func()
	}{
		{"name", func() { d.Name = "t" }},
		{"description", func() { d.Description = "d" }},
		{"duplicate_argument", func() { d.Args[1].Name = "two" }},
		{"enum_without_options", func() { d.Args[1].Options = []string{"a"} }},
		{"argument_name", func() { d.Args[2].Name = "three" }},
		{"enum_blank_option", func() { d.Args[2].Options = []string{"x", "x"} }},
		{"enum_duplicate_option", func() { d.Args[2].Options = []string{"x"} }},
		{"blank_alias", func() { d.Aliases = nil }},
		{"effect", func() { d.Effect = tools.Readonly }},
		{"trust", func() { d.Trust = tools.Own }},
	}
	for _, s := range steps {
		var de *tools.DefinitionError
		if err := d.Check(); !errors.As(err, &de) || de.Problem != s.problem {
			t.Fatalf("Check = %v, want problem %q", err, s.problem)
		}
		s.mend()
	}
	if err := d.Check(); err != nil {
		t.Errorf("Check = %v after everything was mended", err)
	}
}

// SG-01, SG-14, SG-20, SG-21: all fields are carried, as a copy that the caller cannot change.
func TestDefinitionIsCopied(t *testing.T) {
	spec := tools.Definition{
		Name: "t", Description: "Does.", Pinned: true, Effect: tools.Readonly, Trust: tools.External,
		Args:    []tools.Arg{{Name: "e", Type: tools.Enum, Options: []string{"a", "b"}}},
		Aliases: []string{"word"}, Needs: []string{"other"}, Wants: &tools.Wants{Name: "short", Description: "a phrase"},
	}
	tool, err := tools.Raw(spec, nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	want := tools.Definition{
		Name: "t", Description: "Does.", Pinned: true, Effect: tools.Readonly, Trust: tools.External,
		Args:    []tools.Arg{{Name: "e", Type: tools.Enum, Options: []string{"a", "b"}}},
		Aliases: []string{"word"}, Needs: []string{"other"}, Wants: &tools.Wants{Name: "short", Description: "a phrase"},
		Recovery: tools.Recovery{Kind: tools.RecoveryNone}, Scope: tools.ScopeRun, Truncate: tools.Cut,
	}
	spec.Args[0].Options[0], spec.Args[0].Name, spec.Aliases[0], spec.Needs[0], spec.Wants.Name = "x", "x", "x", "x", "x"
	if diff := cmp.Diff(want, *tool.Definition(), cmpopts.IgnoreUnexported(tools.Definition{})); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
	empty, err := tools.Raw(def(func(d *tools.Definition) { d.Aliases, d.Needs = []string{}, []string{} }), nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if d := empty.Definition(); d.Aliases != nil || d.Needs != nil || d.Wants != nil {
		t.Errorf("empty lists are carried: %+v", d)
	}
}

// SG-16, SG-18: no statement is not harmless, and does not depend on trust.
// MervinPraison/PraisonAI#4217
func TestUnsetEffectIsDestructive(t *testing.T) {
	for effect, want := range map[tools.Effect]bool{"": true, tools.Destructive: true, tools.Readonly: false, tools.Idempotent: false} {
		for _, trust := range []tools.Trust{"", tools.Own, tools.External} {
			d := tools.Definition{Effect: effect, Trust: trust}
			if d.IsDestructive() != want {
				t.Errorf("effect %q trust %q: IsDestructive = %v, want %v", effect, trust, !want, want)
			}
		}
	}
}

// SG-18: a gate that reads declarations holds whatever a tool is called; one that
// went by names would let the renamed one through.
func TestGatesReadDeclarations(t *testing.T) {
	gate := tools.Config{Permission: func(_ context.Context, _ tools.Env, d *tools.Definition, _ tools.Call) error {
		if d.IsDestructive() || d.Trust != tools.Own {
			return &tools.Denial{Detail: "declared", Text: "not here"}
		}
		return nil
	}}
	for _, name := range []string{"pay", "look", "a1"} {
		for _, effect := range []tools.Effect{"", tools.Readonly, tools.Destructive} {
			for _, trust := range []tools.Trust{"", tools.Own, tools.External} {
				b := newBench(t, gate, tool(t, tools.Definition{Name: name, Effect: effect, Trust: trust}, func(context.Context, *tools.Invocation) (any, error) { return "ok", nil }))
				want := events.BlockedReason("")
				if effect != tools.Readonly || trust != tools.Own {
					want = events.BlockedPermissionDenied
				}
				if got := b.call(name, `{}`).Blocked; got != want {
					t.Errorf("%s, effect %q, trust %q: blocked %q, want %q", name, effect, trust, got, want)
				}
			}
		}
	}
}

// SG-20: models see neither what runs nor the pin. SG-19, SG-23: nor what is for selection.
func TestSchemaForModels(t *testing.T) {
	d := tools.Definition{
		Name: "t", Description: "Does.", Pinned: true, Aliases: []string{"w"}, Needs: []string{"n"},
		Args: []tools.Arg{
			{Name: "z", Type: tools.Integer, Required: true, Description: "a < b"},
			{Name: "a", Type: tools.Enum, Options: []string{"x", "y"}},
			{Name: "s", Type: tools.String, Options: []string{"hint"}},
		},
	}
	want := `{"type":"object","properties":{"z":{"type":"integer","description":"a < b"},"a":{"type":"string","enum":["x","y"]},` +
		`"s":{"type":"string"}},"required":["z"],"additionalProperties":false}`
	if got := string(d.JSONSchema()); got != want {
		t.Errorf("schema\n got %s\nwant %s", got, want)
	}
}

func TestHashChangesWithEveryField(t *testing.T) {
	base := tools.Definition{Name: "t", Description: "d", Args: []tools.Arg{{Name: "a", Type: tools.String}}}
	seen := map[string]string{base.Hash().String(): "base"}
	changes := map[string]func(*tools.Definition){
		"name": func(d *tools.Definition) { d.Name = "u" }, "description": func(d *tools.Definition) { d.Description = "e" },
		"args": func(d *tools.Definition) { d.Args = []tools.Arg{{Name: "a", Type: tools.Number}} }, "alias": func(d *tools.Definition) { d.Aliases = []string{"x"} },
		"pinned": func(d *tools.Definition) { d.Pinned = true }, "effect": func(d *tools.Definition) { d.Effect = tools.Readonly },
		"trust": func(d *tools.Definition) { d.Trust = tools.Own }, "needs": func(d *tools.Definition) { d.Needs = []string{"x"} },
		"wants": func(d *tools.Definition) { d.Wants = &tools.Wants{} }, "recovery": func(d *tools.Definition) { d.Recovery = tools.Keyed(time.Hour) },
		"scope": func(d *tools.Definition) { d.Scope = tools.ScopeSession }, "identity": func(d *tools.Definition) { d.Identity = []string{"a"} },
		"window": func(d *tools.Definition) { d.Window = time.Hour }, "continue": func(d *tools.Definition) { d.InDoubtContinue = true },
		"timeout": func(d *tools.Definition) { d.Timeout = time.Second }, "output": func(d *tools.Definition) { d.MaxOutput = 9 },
		"truncate": func(d *tools.Definition) { d.Truncate = tools.Refuse }, "schema": func(d *tools.Definition) { d.Schema = json.RawMessage(`{"type":"object"}`) },
	}
	for name, change := range changes {
		d := base
		change(&d)
		h := d.Hash().String()
		if other, ok := seen[h]; ok {
			t.Errorf("changing %s gives the hash of %s", name, other)
		}
		seen[h] = name
	}
	twin := base
	if base.Hash() != twin.Hash() {
		t.Error("the same declaration has two hashes")
	}
}

func TestExemptListsIdentityAndEnums(t *testing.T) {
	d := tools.Definition{
		Identity: []string{"charge"}, Args: []tools.Arg{{Name: "charge", Type: tools.String}, {Name: "size", Type: tools.Enum}, {Name: "x", Type: tools.String}},
	}
	if diff := cmp.Diff([]string{"/charge", "/size"}, d.Exempt()); diff != "" {
		t.Error(diff)
	}
}

// SG-25: the arguments' type is derived from a struct.
func TestNewDerivesArguments(t *testing.T) {
	type in struct {
		ID    string   `json:"id" jsonschema:"which one"`
		Size  string   `json:"size"`
		Count uint8    `json:"count,omitempty"`
		Ratio *float64 `json:"ratio,omitempty"`
		Skip  string   `json:"-"`
	}
	tool, err := tools.New(tools.Definition{
		Name: "t", Description: "d", Args: []tools.Arg{{Name: "size", Type: tools.Enum, Options: []string{"s", "l"}, Description: "how big"}},
	}, func(context.Context, *tools.Invocation, in) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []tools.Arg{
		{Name: "id", Type: tools.String, Description: "which one", Required: true},
		{Name: "size", Type: tools.Enum, Description: "how big", Required: true, Options: []string{"s", "l"}},
		{Name: "count", Type: tools.Integer},
		{Name: "ratio", Type: tools.Number},
	}
	if diff := cmp.Diff(want, tool.Definition().Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"maximum":255`, `"enum":["s","l"]`, `"required":["id","size"]`, `"description":"how big"`} {
		if !strings.Contains(string(tool.Definition().JSONSchema()), part) {
			t.Errorf("schema %s lacks %s", tool.Definition().JSONSchema(), part)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	type in struct {
		ID string `json:"id"`
	}
	ok := func(context.Context, *tools.Invocation, in) (string, error) { return "", nil }
	tests := map[string]func() (tools.Tool, error){
		"a field that isn't there": func() (tools.Tool, error) {
			return tools.New(def(func(d *tools.Definition) { d.Args = []tools.Arg{{Name: "nope"}} }), ok)
		},
		"another type": func() (tools.Tool, error) {
			return tools.New(def(func(d *tools.Definition) { d.Args = []tools.Arg{{Name: "id", Type: tools.Integer}} }), ok)
		},
		"a schema of its own": func() (tools.Tool, error) {
			return tools.New(def(func(d *tools.Definition) { d.Schema = json.RawMessage(`{}`) }), ok)
		},
		"arguments that are no struct": func() (tools.Tool, error) {
			return tools.New(def(func(*tools.Definition) {}), func(context.Context, *tools.Invocation, int) (string, error) { return "", nil })
		},
		"a channel": func() (tools.Tool, error) {
			return tools.New(def(func(*tools.Definition) {}), func(context.Context, *tools.Invocation, struct{ C chan int }) (string, error) { return "", nil })
		},
		"no function": func() (tools.Tool, error) { return tools.New[in, string](def(func(*tools.Definition) {}), nil) },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			if tool, err := f(); !errors.Is(err, tools.ErrDefinition) || tool != nil {
				t.Errorf("New = %v, %v, want a definition error", tool, err)
			}
		})
	}
}

func TestNamespaced(t *testing.T) {
	inner, err := tools.Raw(def(func(*tools.Definition) {}), nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	one, err := tools.Namespaced("s2", inner)
	if err != nil || one.Definition().Name != "s2__t" {
		t.Fatalf("Namespaced = %v, %v", one, err)
	}
	two, err := tools.Namespaced("lib", one)
	if err != nil || two.Definition().Name != "lib__s2__t" {
		t.Fatalf("Namespaced twice = %v, %v", two, err)
	}
	if _, err := tools.NewRegistry(inner, one, two); err != nil {
		t.Errorf("registry refuses namespaced tools: %v", err)
	}
	if _, err := tools.Namespaced("a-b", inner); !errors.Is(err, tools.ErrDefinition) {
		t.Errorf("namespace a-b: err = %v", err)
	}
}

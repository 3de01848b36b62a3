package arch

import (
	"fmt"
	"go/token"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for _, f := range tree(t) {
		report(t, importFaults(f))
	}
}

// importFaults lists what a file imports against the rules.
func importFaults(f *file) []string {
	allowed, ok := packageRule(f.pkg)
	if !ok {
		return []string{fmt.Sprintf("%s: package %s has no rule; add it to packages in internal/arch/rules_test.go", f.name, f.pkg)}
	}
	if f.test {
		allowed += " " + f.pkg + " " + forTests
	}
	var faults []string
	for _, p := range f.imports() {
		own := p == module || strings.HasPrefix(p, module+"/")
		switch {
		case own && !matches(allowed, strings.TrimPrefix(strings.TrimPrefix(p, module), "/")):
			faults = append(faults, fmt.Sprintf("%s: %s may not import %s; see packages in internal/arch/rules_test.go", f.name, f.pkg, p))
		case !own:
			faults = append(faults, moduleFaults(f, p)...)
		}
	}
	return faults
}

// packageRule finds the most specific rule for a package.
func packageRule(pkg string) (string, bool) {
	if rule, ok := packages[pkg]; ok {
		return rule, true
	}
	best, found := "", false
	for pattern := range packages {
		if covers(pattern, pkg) && len(pattern) > len(best) {
			best, found = pattern, true
		}
	}
	return packages[best], found
}

// moduleFaults judges an import from outside this module.
func moduleFaults(f *file, p string) []string {
	if p == "testing" || strings.HasPrefix(p, "testing/") {
		if f.test || p == "testing/fstest" {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s is for tests", f.name, p)}
	}
	if rule, ok := modules[p]; ok && matches(rule, f.pkg) {
		return nil // a package of a module that is for tests otherwise
	}
	for m := range strings.FieldsSeq(testModules) {
		if p != m && !strings.HasPrefix(p, m+"/") {
			continue
		}
		if f.test {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s is for tests", f.name, p)}
	}
	best := ""
	for m := range modules {
		// "runtime" is the package itself, not runtime/debug.
		if (p == m || m != "runtime" && strings.HasPrefix(p, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	first, _, _ := strings.Cut(p, "/")
	switch {
	case best == "" && strings.Contains(first, "."):
		return []string{fmt.Sprintf("%s: module of %s has no rule; add it to modules in internal/arch/rules_test.go, with a reason in docs/decisions", f.name, p)}
	case f.test && matches(modulesInTests[best], f.pkg):
		return nil
	case best != "" && !matches(modules[best], f.pkg):
		return []string{fmt.Sprintf("%s: %s may not import %s; only %s", f.name, f.pkg, p, modules[best])}
	}
	return nil
}

// A package named in a rule by mistake would allow nothing and forbid nothing.
func TestRulesNameWhatCouldExist(t *testing.T) {
	for pkg, allowed := range packages {
		for pattern := range strings.FieldsSeq(allowed) {
			name := strings.TrimSuffix(pattern, "/...")
			if pattern == "..." {
				continue
			}
			if _, ok := packageRule(name); !ok {
				t.Errorf("rule of %s allows %s, which has no rule of its own", pkg, pattern)
			}
		}
	}
}

func TestRulesCanFail(t *testing.T) {
	tests := []struct{ name, file, src, want string }{
		{"upward", "events/x.go", `package events; import _ "` + module + `/ledger"`, "may not import"},
		{"sideways between adapters", "ledger/postgres/x.go", `package postgres; import _ "` + module + `/ledger/sqlite"`, "may not import"},
		{"a loop that acts", "loops/x/x.go", `package x; import _ "` + module + `/runtime"`, "may not import"},
		{"test double in the program", "runtime/x.go", `package runtime; import _ "` + module + `/tools/bogus"`, "may not import"},
		{"test double in a test", "runtime/x_test.go", `package runtime; import _ "` + module + `/tools/bogus"`, ""},
		{"broker client in the core", "runtime/x.go", `package runtime; import _ "github.com/nats-io/nats.go"`, "may not import"},
		{"broker client below a path of its module", "ledger/x.go", `package ledger; import _ "github.com/nats-io/nats.go/jetstream"`, "may not import"},
		{"broker client where it belongs", "events/jetstream/x.go", `package jetstream; import _ "github.com/nats-io/nats.go"`, ""},
		{"broker in the program", "events/jetstream/x.go", `package jetstream; import _ "github.com/nats-io/nats-server/v2/server"`, "may not import"},
		{"broker in its client's test", "events/jetstream/x_test.go", `package jetstream; import _ "github.com/nats-io/nats-server/v2/server"`, ""},
		{"telemetry SDK outside its package", "runtime/x.go", `package runtime; import _ "go.opentelemetry.io/otel/sdk/trace"`, "only internal/telemetry"},
		{"telemetry API where spans are made", "runtime/x.go", `package runtime; import _ "go.opentelemetry.io/otel/trace"`, ""},
		{"unknown module", "events/x.go", `package events; import _ "example.org/left/pad"`, "has no rule"},
		{"unknown package", "helpers/x.go", `package helpers`, "has no rule"},
		{"test library in the program", "events/x.go", `package events; import _ "github.com/google/go-cmp/cmp"`, "is for tests"},
		{"testing in the program", "events/x.go", `package events; import _ "testing"`, "is for tests"},
		{"testing in a conformance suite", "events/eventstest/x.go", `package eventstest; import _ "testing"`, ""},
		{"the runtime that ours hides", "ledger/x.go", `package ledger; import _ "runtime"`, "may not import"},
		{"its friend debug", "ledger/x.go", `package ledger; import _ "runtime/debug"`, ""},
		{"the API's user with internals", "examples/x/main.go", `package main; import _ "` + module + `/internal/fault"`, "may not import"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parse(token.NewFileSet(), tt.file, []byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(importFaults(f), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("faults = %q, want %q", got, tt.want)
			}
		})
	}
}

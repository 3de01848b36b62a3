package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

// File is a policy file: rules, and cases that they are tested with.
type File struct {
	List  *List
	Cases []Case
}

// Load reads a policy file; see [Parse].
func Load(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	return Parse(path, b)
}

// Parse reads the text of a policy file, a YAML mapping of rules and tests; name
// is what errors call it. The error joins all faults, each a [*strictyaml.Fault]
// with file, line, field and what to write instead.
func Parse(name string, text []byte) (*File, error) {
	if !utf8.Valid(text) {
		return nil, &strictyaml.Fault{File: name, Message: "not UTF-8 text; save it as UTF-8"}
	}
	f, m := strictyaml.Parse(name, text, 0)
	out := &File{}
	if !m.Has("rules") {
		m.Fault("rules", `missing; write a list of rules ("- when: …" lines)`)
	}
	out.List = Read(m, "rules", "the operator's policy")
	out.Cases = ReadCases(m, "tests")
	m.Done("a policy file")
	if err := f.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// Read reads a field that is a list of rules; nil if it is not there, or has
// faults, which are added to the file's.
func Read(m *strictyaml.Map, key, source string) *List {
	if !m.Has(key) {
		return nil
	}
	before := m.FaultCount()
	var rules []Rule
	var maps []*strictyaml.Map
	for _, rm := range m.Maps(key) {
		rules = append(rules, Rule{
			When: when(rm), Then: Outcome(rm.Need("then", "allow, ask or deny")), Because: strings.TrimSpace(rm.Text("because")), Line: rm.FileLineOf("when"),
		})
		maps = append(maps, rm)
		rm.Done("a rule")
	}
	if len(rules) == 0 && m.FaultCount() == before {
		m.Fault(key, "there are no rules; leave it out, or write one")
	}
	l, err := Compile(source, rules...)
	addFaults(m, key, maps, rules, err)
	if m.FaultCount() > before {
		return nil
	}
	return l
}

// when is a text, or true or false as they are written without quotes.
func when(m *strictyaml.Map) string {
	if s, ok := m.Scalar("when"); ok && (s == "true" || s == "false") {
		return s
	}
	return m.Need("when", `an expression such as tool.name == "refund" && args.amount > 100`)
}

// addFaults puts what is wrong with rules to their lines. That a field is missing
// is said already.
func addFaults(m *strictyaml.Map, key string, maps []*strictyaml.Map, rules []Rule, err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var f *Fault
		switch {
		case errors.As(err, &f) && f.Rule > 0 && (f.Field == "when" && rules[f.Rule-1].When == "" || f.Field == "then" && rules[f.Rule-1].Then == ""):
		case errors.As(err, &f) && f.Rule > 0 && f.Field != "":
			maps[f.Rule-1].Fault(f.Field, "%s", f.Message)
		default:
			m.Fault(key, "%s", err)
		}
	}
}

// Names are the names that rules compare that of the tool with.
func (l *List) Names() []string {
	var all []string
	if l != nil {
		for _, c := range l.conds {
			all = append(all, c.tools...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckAsks finds rules that ask about calls that nobody can be asked about, of
// tools, in [*Fault]s.
func (l *List) CheckAsks(tools []Tool) (errs []error) {
	for i, r := range l.Rules() {
		if r.Then != Ask {
			continue
		}
		var plain []string
		for _, t := range tools {
			if t.Effect == "destructive" {
				continue
			}
			if slices.ContainsFunc(l.Possible(t), func(d Decision) bool { return d.Rule == i+1 }) {
				plain = append(plain, t.Name+" ("+t.Effect+")")
			}
		}
		if len(plain) > 0 {
			errs = append(errs, &Fault{Rule: i + 1, Line: r.Line, Field: "then", Message: fmt.Sprintf(
				`ask may hold for calls of %s: approvals guard destructive calls. Write tool.effect == "destructive" && … in when, deny them, or declare the tool destructive`, some(plain))})
		}
	}
	return errs
}

// CheckNames finds rules about tools that are none of names, in [*Fault]s.
func (l *List) CheckNames(names []string) []error { return l.checkNames(names, false) }

// CheckTypos finds rules about tools that are none of names and look like one of
// them: of rules for many workers, which don't all have the same tools.
func (l *List) CheckTypos(names []string) []error { return l.checkNames(names, true) }

func (l *List) checkNames(names []string, near bool) (errs []error) {
	if l == nil {
		return nil
	}
	for i, c := range l.conds {
		for _, t := range c.tools {
			like := strictyaml.Nearest(t, names)
			if slices.Contains(names, t) || near && like == "" {
				continue
			}
			want := "there are " + some(names)
			switch {
			case like != "":
				want = fmt.Sprintf("did you mean %q?", like)
			case len(names) == 0:
				want = "there are none"
			}
			errs = append(errs, &Fault{Rule: i + 1, Line: l.rules[i].Line, Field: "when", Message: fmt.Sprintf("there is no tool %q, so this guards nothing; %s", t, want)})
		}
	}
	return errs
}

// some names at most ten.
func some(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + fmt.Sprintf(" and %d more", len(names)-10)
	}
	return strings.Join(names, ", ")
}

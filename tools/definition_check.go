package tools

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrDefinition is wrapped by every error about a declaration.
var ErrDefinition = errors.New("invalid tool definition")

// DefinitionError says what is wrong with a declaration.
type DefinitionError struct {
	Tool string
	Arg  string // empty if it is not about one argument
	// Problem is for machines: name, description, argument_name,
	// duplicate_argument, argument_type, enum_without_options, enum_blank_option,
	// enum_duplicate_option, blank_alias, effect, trust, schema, recovery,
	// scope, identity, window, approval, timeout, price, max_output, truncate, function.
	Problem string
	Text    string
}

func (e *DefinitionError) Error() string {
	if e.Arg != "" {
		return fmt.Sprintf("tool %q argument %q: %s", e.Tool, e.Arg, e.Text)
	}
	return fmt.Sprintf("tool %q: %s", e.Tool, e.Text)
}

// Is reports true for [ErrDefinition].
func (e *DefinitionError) Is(target error) bool { return target == ErrDefinition }

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// namespaceMark separates a namespace from a base name.
const namespaceMark = "__"

// baseName reports whether name is one without a namespace.
func baseName(name string) bool {
	return nameRule.MatchString(name) && !strings.Contains(name, namespaceMark)
}

// Check returns the first fault of d as a [*DefinitionError]: name,
// description, arguments in order, aliases, effect, trust, then the
// declarations of the effect protocol, then the schema.
func (d *Definition) Check() error {
	for _, check := range []func() *DefinitionError{
		d.checkName, d.checkArgs, d.checkWords, d.checkProtocol, d.checkLimits,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Definition) fault(problem, format string, args ...any) *DefinitionError {
	return &DefinitionError{Tool: d.Name, Problem: problem, Text: fmt.Sprintf(format, args...)}
}

func (d *Definition) checkName() *DefinitionError {
	base := d.Name
	if d.namespace != "" {
		for part := range strings.SplitSeq(d.namespace, namespaceMark) {
			if !nameRule.MatchString(part) {
				return d.fault("name", "namespace %q must be letters, digits and _, not starting with a digit", d.namespace)
			}
		}
		base = strings.TrimPrefix(base, d.namespace+namespaceMark)
	}
	if !nameRule.MatchString(base) {
		return d.fault("name", "name must be letters, digits and _, not starting with a digit")
	}
	if strings.Contains(base, namespaceMark) {
		return d.fault("name", "name contains %q, which is reserved for namespaces", namespaceMark)
	}
	if strings.TrimSpace(d.Description) == "" {
		return d.fault("description", "description is empty")
	}
	return nil
}

func (d *Definition) checkArgs() *DefinitionError {
	seen := map[string]bool{}
	for _, a := range d.Args {
		fault := func(problem, format string, args ...any) *DefinitionError {
			e := d.fault(problem, format, args...)
			e.Arg = a.Name
			return e
		}
		if !nameRule.MatchString(a.Name) {
			return fault("argument_name", "argument name must be letters, digits and _, not starting with a digit")
		}
		if seen[a.Name] {
			return fault("duplicate_argument", "declared twice")
		}
		seen[a.Name] = true
		switch a.Type {
		case String, Number, Integer, Boolean, Object, Array:
		case Enum:
			if len(a.Options) == 0 {
				return fault("enum_without_options", "an enum needs options")
			}
			for i, o := range a.Options {
				if strings.TrimSpace(o) == "" {
					return fault("enum_blank_option", "option %d is blank", i+1)
				}
				if slices.Contains(a.Options[:i], o) {
					return fault("enum_duplicate_option", "option %q is listed twice", o)
				}
			}
		default:
			return fault("argument_type", "type is %q, want string, number, integer, boolean, enum, object or array", a.Type)
		}
	}
	return nil
}

func (d *Definition) checkWords() *DefinitionError {
	for i, a := range d.Aliases {
		if strings.TrimSpace(a) == "" {
			return d.fault("blank_alias", "alias %d is blank", i+1)
		}
	}
	switch d.Effect {
	case "", Readonly, Idempotent, Destructive:
	default:
		return d.fault("effect", "effect is %q, want readonly, idempotent or destructive", d.Effect)
	}
	switch d.Trust {
	case "", Own, External:
	default:
		return d.fault("trust", "trust is %q, want own or external", d.Trust)
	}
	return nil
}

// checkProtocol checks what the effect protocol relies on.
func (d *Definition) checkProtocol() *DefinitionError {
	switch r := d.Recovery; r.Kind {
	case "", RecoveryNone, RecoveryFenced, RecoveryProbe:
		if r.TTL != 0 {
			return d.fault("recovery", "a TTL belongs to keyed recovery")
		}
	case RecoveryKeyed:
		if r.TTL <= 0 {
			return d.fault("recovery", "keyed recovery needs a positive TTL, how long the provider remembers a key")
		}
	default:
		return d.fault("recovery", "recovery is %q, want none, keyed, fenced or probe", r.Kind)
	}
	switch d.Scope {
	case "", ScopeRun, ScopeSession, ScopeOwner, ScopeTenant:
	default:
		return d.fault("scope", "scope is %q, want run, session, owner or tenant", d.Scope)
	}
	if d.Window < 0 && d.Window != Forever {
		return d.fault("window", "window is %v, want a positive duration or tools.Forever", d.Window)
	}
	if (d.Scope == ScopeOwner || d.Scope == ScopeTenant) && d.Window == 0 {
		return d.fault("window", "scope %s needs a window: declare a duration, or write out tools.Forever", d.Scope)
	}
	if d.Approval && !d.IsDestructive() {
		return d.fault("approval", "approvals guard destructive calls, and this tool is declared %s: declare it destructive", d.Effect)
	}
	known := map[string]bool{}
	for _, a := range d.Args {
		known[a.Name] = true
	}
	for i, name := range d.Identity {
		e := d.fault("identity", "")
		e.Arg = name
		switch {
		case slices.Contains(d.Identity[:i], name):
			e.Text = "named twice in the identity"
		case len(d.Args) > 0 && !known[name], len(d.Args) == 0 && len(d.Schema) == 0:
			e.Text = "named in the identity, but not declared"
		default:
			continue
		}
		return e
	}
	return nil
}

func (d *Definition) checkLimits() *DefinitionError {
	if d.Timeout < 0 && d.IsDestructive() {
		return d.fault("timeout", "a destructive tool needs a timeout: without one its effect could never be settled")
	}
	if d.Price < 0 || d.Price > maxPrice {
		return d.fault("price", "price is %d micro-USD, want 0 to %d", d.Price, int64(maxPrice))
	}
	if d.MaxOutput < 0 {
		return d.fault("max_output", "max output is %d bytes, want 0 or more", d.MaxOutput)
	}
	switch d.Truncate {
	case "", Cut, Refuse:
	default:
		return d.fault("truncate", "truncate is %q, want cut or refuse", d.Truncate)
	}
	return nil
}

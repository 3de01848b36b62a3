//go:build unix

package shelf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/command"
)

func (r *reader) command(m *strictyaml.Map) func() error {
	cfg := command.Config{
		Timeout: m.Duration("timeout"), MaxOutput: int(m.Int("max_output", 1)),
		Effect: tools.Effect(oneOf(m, "effect", string(tools.Destructive), string(tools.Idempotent), string(tools.Readonly))),
	}
	if m.Need("dir", "the folder that programs run in") != "" {
		cfg.Dir = r.path(m, "dir")
		if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
			m.Fault("dir", "%s is no folder", cfg.Dir)
		}
	}
	if m.Bool("inspect") {
		cfg.Programs = command.Inspect()
	}
	for _, pm := range m.Maps("programs") {
		cfg.Programs = append(cfg.Programs, r.program(pm))
		pm.Done("a program")
	}
	if len(cfg.Programs) == 0 {
		m.Fault("programs", "there is nothing to run; write programs, or inspect: true for those that only look at files")
	}
	for _, s := range m.Texts("allow") {
		e, err := specifier(s)
		if err != nil {
			m.Fault("allow", "%v", err)
		}
		cfg.Allow = append(cfg.Allow, e)
	}
	cfg.Env = r.environment(m)
	return func() error {
		t, err := command.New(cfg)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "command.New: "))
		}
		return r.put(Command, t, nil)
	}
}

// specifier reads "git *", and "command(git *)" as skills and permission rules
// write it.
func specifier(s string) (string, error) {
	if !strings.HasPrefix(s, command.Name+"(") {
		return s, nil
	}
	e, err := command.ParseEntry(s)
	if err == nil && e.Specifier == "" {
		err = fmt.Errorf("%q covers every command; leave allow out for that", s)
	}
	return e.Specifier, err
}

func (r *reader) program(m *strictyaml.Map) command.Program {
	p := command.Program{Name: m.Need("name", "the program's name, such as go"), Path: r.path(m, "path")}
	if abs, err := filepath.Abs(p.Path); err == nil && p.Path != "" { // the file itself may have been named by a relative path
		p.Path = abs
	}
	for _, fm := range m.Maps("forms") {
		f := command.Form{
			Words: fm.Texts("words"), Insert: fm.Texts("insert"), Flags: fm.Texts("flags"), WholeFlags: fm.Bool("whole_flags"),
		}
		if s, ok := fm.Scalar("operands"); ok && s == "any" {
			f.Operands = -1
		} else {
			f.Operands = int(fm.Int("operands", 0))
		}
		fm.Done("a form")
		p.Forms = append(p.Forms, f)
	}
	return p
}

// environment is what is added to that of programs. What a secret's value is, the
// programs can print; the redactor takes it out of their outputs.
func (r *reader) environment(m *strictyaml.Map) []string {
	var env, names []string
	for _, em := range m.Maps("env") {
		name := em.Need("name", "the variable's name")
		if slices.Contains(names, name) || strings.ContainsAny(name, "= \x00") {
			em.Fault("name", "want a variable's name that is not there yet, got %q", name)
		}
		names = append(names, name)
		value := ""
		switch {
		case em.Has("value") == em.Has("secret"):
			em.Fault("name", "write value, or secret for one that nobody may see")
		case em.Has("secret"):
			value = r.secret(em, "secret", true)
		default:
			value = em.Text("value")
		}
		em.Done("a variable")
		env = append(env, name+"="+value)
	}
	return env
}

//go:build unix

package command

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Program is a program that may be run, in the forms that it may be run in.
type Program struct {
	// Name is what a command starts with.
	Name string
	// Path is the program's file, absolute. Empty means that Name is looked up by
	// [New], once, in the host's PATH.
	Path string
	// Forms are what may follow the name; a command must have one of them. None
	// means that nothing may.
	Forms []Form
}

// Form is a shape of arguments. The zero value is no arguments.
type Form struct {
	// Words come first, as they are: a sub-command, say.
	Words []string
	// Insert is put after Words and is not for the model to see or say: flags that
	// turn off what a file could switch on.
	Insert []string
	// Flags that may be given, anywhere after Words, in any number: "-n" and
	// "--all" without a value, "-C=" and "--lines=" with one, "--color[=]" with one
	// that is attached or none at all, "-#" for a number such as -5, "--" for the end
	// of the flags. What else starts with "-" is refused, abbreviations too.
	Flags []string
	// WholeFlags says that the program takes -name for one flag, as find and go do,
	// not for four letters.
	WholeFlags bool
	// Operands is how many other arguments there may be at most; negative means any
	// number.
	Operands int
	// refuse is what no argument may look like, but the value of a flag: the
	// program reads something else in it than Flags say. Nil refuses nothing.
	refuse *regexp.Regexp
}

// runners run what their arguments say, so that a rule for them is a rule for
// everything.
const runners = " sh bash dash ash zsh ksh mksh fish csh tcsh busybox toybox env xargs parallel timeout time nice ionice nohup setsid stdbuf " +
	"chroot chrt taskset unshare nsenter flock watch script expect sudo su doas runuser pkexec ssh exec eval command builtin source trap coproc " +
	"awk gawk mawk nawk sed perl python ruby node deno bun php lua tclsh make gmake cmake ninja vi vim ex ed emacs gdb docker podman kubectl crontab at batch " +
	"npx uvx pipx strace ltrace valgrind fakeroot bwrap firejail systemd-run start-stop-daemon setpriv capsh runcon doexec rlwrap entr ld.so "

// check refuses what no list of flags could make safe.
func (p *Program) check() error {
	if !isName(p.Name) {
		return fmt.Errorf("%q is no plain name of a program", p.Name)
	}
	for _, f := range p.Forms {
		if (isRunner(p.Name) || isRunner(filepath.Base(p.Path))) && (f.Operands != 0 || len(f.Flags) > 0) {
			return fmt.Errorf("%s runs what its arguments say: its forms may have fixed words alone, no flags and no operands", p.Name)
		}
		for _, flag := range f.Flags {
			if len(flag) < 2 || flag[0] != '-' || strings.ContainsAny(flag, " \t") {
				return fmt.Errorf("%s: %q is no flag", p.Name, flag)
			}
		}
	}
	return nil
}

// isRunner reports whether a program is one of runners, in any version.
func isRunner(name string) bool {
	return strings.Contains(runners, " "+name+" ") || strings.Contains(runners, " "+strings.TrimRight(name, "0123456789.-")+" ")
}

// find sets p.Path. A program in the working directory is refused: what is
// written there could replace it.
func (p *Program) find(dir string) error {
	if p.Path == "" {
		path, err := exec.LookPath(p.Name)
		if err != nil {
			return fmt.Errorf("look up %s: %w; set its Path", p.Name, err)
		}
		p.Path = path
	}
	if !filepath.IsAbs(p.Path) {
		return fmt.Errorf("the path of %s is %q, want an absolute one", p.Name, p.Path)
	}
	real, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return fmt.Errorf("look up %s: %w", p.Name, err)
	}
	for _, path := range []string{filepath.Clean(p.Path), real} {
		if rel, err := filepath.Rel(dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return fmt.Errorf("%s is %s, inside the working directory, where it could be replaced: keep programs elsewhere, or let them work in a folder of its own (dir)", p.Name, path)
		}
	}
	return nil
}

// argv returns what is executed for a command, or an error that tells the model
// what it may say.
func (p *Program) argv(argv []string) ([]string, error) {
	args := argv[1:]
	if len(p.Forms) == 0 && len(args) == 0 {
		return argv, nil
	}
	var problem error
	var known []string
	for i := range p.Forms {
		f := &p.Forms[i]
		if len(f.Words) > 0 {
			known = append(known, strconv.Quote(strings.Join(f.Words, " ")))
		}
		if len(args) < len(f.Words) || !slices.Equal(f.Words, args[:len(f.Words)]) {
			continue
		}
		rest := args[len(f.Words):]
		err := f.fits(rest)
		if err == nil {
			return slices.Concat(argv[:1], f.Words, f.Insert, rest), nil
		}
		problem = fmt.Errorf("%s: %w", strings.Join(append(argv[:1:1], f.Words...), " "), err)
	}
	switch {
	case problem != nil:
		return nil, problem
	case len(known) > 0:
		return nil, fmt.Errorf("%s must be followed by one of %s", p.Name, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("%s takes no arguments here", p.Name)
}

// fits says what in args the form does not have.
func (f *Form) fits(args []string) error {
	operands, ended := 0, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case f.refuse != nil && f.refuse.MatchString(a):
			return fmt.Errorf("%q is not allowed here; for a file of that name write ./%s", a, a)
		case len(a) < 2 || a[0] != '-':
			operands++
		case ended:
			return fmt.Errorf("%q starts like a flag: write ./%s", a, a)
		case a == "--" && slices.Contains(f.Flags, "--"):
			ended = true
		default:
			next, ok := f.flag(a)
			if !ok {
				return fmt.Errorf("the flag %q is not allowed; allowed: %s", a, strings.Join(f.Flags, " "))
			}
			if !next {
				continue
			}
			i++
			if i == len(args) || len(args[i]) > 1 && args[i][0] == '-' && !number(args[i][1:]) {
				return fmt.Errorf("the flag %q needs a value that does not start with -", a)
			}
		}
	}
	if f.Operands >= 0 && operands > f.Operands {
		return fmt.Errorf("%d arguments that are no flags, at most %d are allowed", operands, f.Operands)
	}
	return nil
}

// flag reports whether a may be given, and whether its value is the next word.
func (f *Form) flag(a string) (next, ok bool) {
	has := func(s string) bool { return slices.Contains(f.Flags, s) }
	switch {
	case a == "--":
		return false, false
	case has(a) && !strings.HasSuffix(a, "=") && !strings.HasSuffix(a, "[=]"), has(a + "[=]"):
		return false, true
	case has(a + "="):
		return true, true
	case has("-#") && number(a[1:]):
		return false, true
	}
	if f.WholeFlags || strings.HasPrefix(a, "--") {
		name, _, valued := strings.Cut(a, "=")
		return false, valued && (has(name+"=") || has(name+"[=]"))
	}
	for i := 1; i < len(a); i++ { // letters in a bundle
		switch one := "-" + a[i:i+1]; {
		case has(one + "="):
			return i+1 == len(a), true
		case has(one + "[=]"):
			return false, true
		case a[i] == '#' || a[i] == '-' || !has(one):
			return false, false
		}
	}
	return false, true
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

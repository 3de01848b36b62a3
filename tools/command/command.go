//go:build unix

// Package command is a tool that runs allowed programs: no shell, but one
// simple command that is taken apart here and executed as it is, in a fixed
// directory and environment.
//
// What may be run is said twice. A [Program] says in which forms it may be run,
// flag by flag; a specifier such as "git diff *" narrows that to commands that
// look so, and is what skills and permission rules are written in, see [Entry].
// It is no sandbox: a program may read and write what the process may. Unix only.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// Name is the name of the tool, and what an [Entry] calls it.
const Name = "command"

// Config says what may be run, and where.
type Config struct {
	// Programs that may be run; at least one.
	Programs []Program
	// Allow narrows them to the commands that one of these specifiers covers, in the
	// form of [Entry.Specifier]. Empty means whatever Programs have.
	Allow []string
	// Dir is where programs run, and their home: a directory that is there, absolute.
	Dir string
	// Env is added to the environment, as "NAME=value". Nothing comes from the
	// host's own.
	Env []string
	// Timeout bounds a command. Zero means 30 seconds.
	Timeout time.Duration
	// MaxOutput bounds what is kept of each of the two outputs, in bytes, from their
	// beginning. Zero means 16 KiB.
	MaxOutput int
	// Effect is what the programs can do to the world. Unset means not known: a
	// command runs at most once in a run, the same again gets the first one's
	// result, and one that was cut off waits for a person.
	Effect tools.Effect
}

// result is what a command came to.
type result struct {
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"` // that ended it; the exit code is -1 then
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr,omitempty"`
	Cut      bool   `json:"cut,omitempty"` // an output is not whole
}

// runner is the tool's state, which never changes.
type runner struct {
	cfg      Config
	programs map[string]*Program
	env      []string
}

// New returns the tool. Programs are looked up now. A command that fails is a
// result with its exit code; one that is refused, or that could not be started,
// certainly took no effect; of one that was started and then cut off, by its
// time or a cancel, nobody can know.
func New(cfg Config) (tools.Tool, error) {
	r, err := newRunner(cfg)
	if err != nil {
		return nil, fmt.Errorf("command.New: %w", err)
	}
	names := make([]string, 0, len(r.cfg.Programs))
	for _, p := range r.cfg.Programs {
		names = append(names, p.Name)
	}
	description := fmt.Sprintf("Runs one program and returns its output and exit code. The programs are: %s. "+
		"There is no shell: no pipes, redirections, variables or wildcards; quote arguments that have spaces or signs. It may take %v.",
		strings.Join(names, ", "), r.cfg.Timeout)
	if len(r.cfg.Allow) > 0 {
		description += " Allowed are commands of these forms: " + strings.Join(r.cfg.Allow, "; ") + "."
	}
	return tools.New(tools.Definition{
		Name:        Name,
		Description: description,
		Aliases:     append([]string{"run", "shell", "terminal", "execute"}, names[:min(len(names), 8)]...),
		Effect:      cfg.Effect,
		Trust:       tools.External, // what it reads, others may have written
		Timeout:     r.cfg.Timeout + 30*time.Second,
		MaxOutput:   12*r.cfg.MaxOutput + 1024, // JSON may take six bytes for one
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		Command string `json:"command" jsonschema:"the program and its arguments, as in: grep -rn 'some text' docs"`
	},
	) (result, error) {
		p, argv, err := r.allow(in.Command)
		if err != nil {
			return result{}, tools.NoEffect(&tools.ArgumentError{Tool: Name, Problems: []string{"command: " + err.Error()}})
		}
		return r.run(ctx, p, argv)
	})
}

func newRunner(cfg Config) (*runner, error) {
	if len(cfg.Programs) == 0 {
		return nil, errors.New("name at least one program that may be run")
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("the directory is %q, want an absolute one", cfg.Dir)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory: %w", err)
	}
	if s, err := os.Stat(dir); err != nil || !s.IsDir() {
		return nil, fmt.Errorf("%s is no directory", dir)
	}
	cfg.Dir = dir
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = 16 << 10
	}
	cfg.Programs, cfg.Allow = slices.Clone(cfg.Programs), slices.Clone(cfg.Allow)
	r := &runner{cfg: cfg, programs: map[string]*Program{}, env: environment(dir, cfg.Env)}
	for i := range cfg.Programs {
		p := &cfg.Programs[i]
		if r.programs[p.Name] != nil {
			return nil, fmt.Errorf("%s is there twice: give it two forms", p.Name)
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		if err := p.find(dir); err != nil {
			return nil, err
		}
		r.programs[p.Name] = p
	}
	for _, s := range cfg.Allow {
		if collapse(s) == "" {
			return nil, errors.New("a specifier is empty: leave Allow empty to allow what Programs have")
		}
		if _, err := covers(s, line{}); err != nil {
			return nil, fmt.Errorf("the specifier %q covers nothing: %w", s, err)
		}
	}
	return r, nil
}

// environment is all that programs get. What follows HOME keeps git from
// configurations of others, from questions, from a directory that only looks
// like a repository, and from programs that its configuration would have it run.
func environment(dir string, more []string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb", "PAGER=cat", "HOME=" + dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
	}
	config := [][2]string{
		{"core.fsmonitor", "false"},
		{"core.hooksPath", "/dev/null"},
		{"log.showSignature", "false"},
		{"safe.bareRepository", "explicit"},
		{"gpg.openpgp.program", "false"},
		{"gpg.x509.program", "false"},
		{"gpg.ssh.program", "false"},
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, c := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	return append(env, more...)
}

// allow returns the program and what it is to be executed with.
func (r *runner) allow(command string) (*Program, []string, error) {
	l, err := parse(command)
	if err != nil {
		return nil, nil, err
	}
	p := r.programs[l.argv[0]]
	if p == nil {
		return nil, nil, fmt.Errorf("the program %q is not allowed", l.argv[0])
	}
	covered := len(r.cfg.Allow) == 0
	for _, s := range r.cfg.Allow {
		ok, err := covers(s, l)
		covered = covered || ok && err == nil
	}
	if !covered {
		return nil, nil, fmt.Errorf("the command is none of the allowed: %s", strings.Join(r.cfg.Allow, "; "))
	}
	argv, err := p.argv(l.argv)
	return p, argv, err
}

package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// Config says which servers there are. [Parse] makes one from a file.
type Config struct {
	Servers []Server
	// Secrets stands in for secret:// handles in environments and headers, such as
	// a redact.Vault. Nil means that there may be none. What they stand for is
	// registered with Redactor; what it refuses, such as a secret of less than 8
	// bytes, is an error.
	Secrets tools.Secrets
	// Redactor is required: what servers say of themselves goes through it, as do
	// errors, wherever they are shown.
	Redactor *redact.Redactor
	// Logger is told of servers that start, end and change. Nil discards.
	Logger *slog.Logger
	// Now is the clock that restarts and checks go by. Nil means time.Now.
	Now func() time.Time
	// Net is the network below the guard; the zero value is the real one.
	Net netguard.Net
}

// Server is one MCP server: a program, or an address.
type Server struct {
	// Name comes before the names of its tools: letters, digits and "_", not
	// starting with a digit, without "__".
	Name string

	// Command is the program with its arguments, executed as they are, in a process
	// group of its own. Arguments are shown to everybody who may list processes, so
	// no secret belongs there.
	Command []string
	// Dir is where it runs; empty means where this process does.
	Dir string
	// Env is its environment beside PATH, HOME and LANG; nothing else is handed on.
	// Values may hold secret:// handles; what is not in one is no secret, and what
	// looks like one is refused.
	Env map[string]string

	// URL is the endpoint of a server that speaks streamable HTTP. Nothing outside
	// its origin is asked. It may be private: no part of it comes from a model.
	URL string
	// Headers go with every request. Values may hold secret:// handles; what looks
	// like a secret and is none is refused. None of them is seen again in what the
	// server answers.
	Headers map[string]string

	// Only names the tools that are taken, by the server's own names. Empty means
	// all of them.
	Only []string
	// Tools declares tools by the server's own names. One that the server does not
	// have is an error.
	Tools map[string]Tool

	// StartTimeout bounds the start with its first questions. Zero means 30 seconds.
	StartTimeout time.Duration
	// CallTimeout bounds calls of tools that declare none. Zero means the
	// dispatcher's default.
	CallTimeout time.Duration
	// Restarts is how often, in ten minutes, a server that ended is started again,
	// or a lost session opened. Zero means 5; negative means never.
	Restarts int
	// Recheck is how old the list of tools may be when a call is made: an older one
	// is asked for again first. Zero means a minute; negative means that only the
	// server's word starts a check.
	Recheck time.Duration
	// Optional lets the host start without this server's tools if it cannot be
	// opened. What is wrong is in [Servers.Problems].
	Optional bool
}

// ErrorMeaning says what a tool's word that it failed (isError, or the errors
// -32600 and -32602 of the protocol) tells of a destructive call.
type ErrorMeaning string

// Meanings. Unset is unknown.
const (
	Unknown  ErrorMeaning = "unknown"   // it may have done part of it, or all: in doubt
	NoEffect ErrorMeaning = "no_effect" // it certainly did nothing: failed, and may be tried again
)

// Tool is what the host declares about one tool; see [tools.Definition] for the
// fields of the same name. The zero value is what holds for undeclared ones.
type Tool struct {
	// As is what the tool is called here, behind the server's name. Empty means
	// its own name with "_" for what may not be in one.
	As string
	// Description replaces the server's.
	Description string
	Effect      tools.Effect
	// Trust is [tools.External] if empty.
	Trust           tools.Trust
	Recovery        tools.Recovery
	Scope           tools.Scope
	Identity        []string
	Window          time.Duration
	InDoubtContinue bool
	Approval        bool
	Aliases         []string
	Pinned          bool
	Price           int64 // micro-USD
	Timeout         time.Duration
	MaxOutput       int // bytes
	// ErrorMeans is [Unknown] if empty. [NoEffect] does not hold for a tool with an
	// outputSchema: servers call it a failure when the result does not fit it.
	ErrorMeans ErrorMeaning
	// Digest is that of the declaration that was reviewed, in hexadecimal, as
	// [Servers.Tools] lists it. The server's must be the same. Empty means whatever
	// it is when it is opened.
	Digest string
}

const (
	defaultStart     = 30 * time.Second
	defaultRestarts  = 5
	restartWindow    = 10 * time.Minute
	defaultRecheck   = time.Minute
	handleMark       = "secret://"
	maxServers       = 64
	namespaceMark    = "__"
	maxServerNameLen = 32
)

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretName is how names of headers and variables look whose values are secret.
var secretName = regexp.MustCompile(`(?i)(auth|token|secret|passw|cookie|credential|api[-_]?key|private[-_]?key|access[-_]?key)`)

// check returns all faults.
func (c *Config) check() error {
	if c.Redactor == nil {
		return errors.New("mcp: a redactor is required")
	}
	var errs []error
	if len(c.Servers) > maxServers {
		errs = append(errs, fmt.Errorf("%d servers, at most %d are allowed", len(c.Servers), maxServers))
	}
	seen := map[string]bool{}
	for i := range c.Servers {
		s := &c.Servers[i]
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("server %q is there twice: give one another name", s.Name))
		}
		seen[s.Name] = true
		for _, err := range append(s.faults(), s.plainSecrets(c.Redactor)...) {
			errs = append(errs, fmt.Errorf("server %q: %w", s.Name, err))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("mcp: %w", errors.Join(errs...))
	}
	return nil
}

// plainSecrets are the faults of values that are no handles, and that the redactor
// takes for secrets.
func (s *Server) plainSecrets(r *redact.Redactor) []error {
	var errs []error
	for _, in := range []struct {
		what   string
		values map[string]string
	}{{"header", s.Headers}, {"variable", s.Env}} {
		for _, name := range slices.Sorted(maps.Keys(in.values)) {
			v := in.values[name]
			told := secretName.MatchString(name) && !strings.Contains(v, handleMark) // by faults
			if !told && looksSecret(r, name, v) {
				errs = append(errs, fmt.Errorf("%s %q: there is what looks like a secret in it, which does not belong in here: write secret://NAME in its place, and give the host the secret of that name", in.what, name))
			}
		}
	}
	return errs
}

// Check says what is wrong with the server by itself, before it is opened; nil
// for nothing.
func (s *Server) Check() error { return errors.Join(s.faults()...) }

func (s *Server) faults() []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameRule.MatchString(s.Name) || strings.Contains(s.Name, namespaceMark) || strings.HasSuffix(s.Name, "_") || len(s.Name) > maxServerNameLen {
		add("want a name of letters, digits and _, of at most %d, not starting with a digit, without %q, not ending in _", maxServerNameLen, namespaceMark)
	}
	switch {
	case len(s.Command) == 0 && s.URL == "", len(s.Command) > 0 && s.URL != "":
		add("want either a command or a url")
	case s.URL != "":
		s.checkURL(add)
	default:
		s.checkCommand(add)
	}
	for name, t := range s.Tools {
		if len(s.Only) > 0 && !slices.Contains(s.Only, name) {
			add("tool %q is declared, and not among those that are taken (only)", name)
		}
		if t.As != "" && (!nameRule.MatchString(t.As) || strings.Contains(t.As, namespaceMark)) {
			add("tool %q: as is %q, want letters, digits and _, without %q", name, t.As, namespaceMark)
		}
		switch t.ErrorMeans {
		case "", Unknown, NoEffect:
		default:
			add("tool %q: error_means is %q, want unknown or no_effect", name, t.ErrorMeans)
		}
		if t.Recovery.Kind == tools.RecoveryProbe {
			add("tool %q: MCP has no probe: want recovery none, keyed or fenced", name)
		}
	}
	return errs
}

func (s *Server) checkURL(add func(string, ...any)) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		add("the url must be a whole one, such as https://mcp.example.com/mcp, with no user name in it")
	}
	if strings.Contains(s.URL, handleMark) {
		add("a secret in the url would stand in logs: put it into headers")
	}
	if s.Dir != "" || len(s.Env) > 0 {
		add("dir and env belong to a command")
	}
	for name, v := range s.Headers {
		if !netguard.ValidHeader(name) || strings.ContainsAny(v, "\r\n\x00") {
			add("the header %q, or what is in it, is not valid", name)
		}
		if secretName.MatchString(name) && !strings.Contains(v, handleMark) {
			add("header %q: a secret does not belong in here: write secret://NAME, and give the host the secret of that name", name)
		}
	}
}

func (s *Server) checkCommand(add func(string, ...any)) {
	if s.Command[0] == "" {
		add("the command is empty")
	}
	for _, a := range s.Command {
		if strings.Contains(a, handleMark) {
			add("arguments are shown to everybody who may list processes: put secrets into env")
		}
		if strings.ContainsRune(a, 0) {
			add("an argument has a zero byte in it")
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		add("the directory is %q, want an absolute one", s.Dir)
	}
	if len(s.Headers) > 0 {
		add("headers belong to a url")
	}
	for name, v := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(v, 0) {
			add("the variable %q, or what is in it, is not valid", name)
		}
		if secretName.MatchString(name) && !strings.Contains(v, handleMark) {
			add("variable %q: a secret does not belong in here: write secret://NAME, and give the host the secret of that name", name)
		}
	}
}

func (s *Server) startTimeout() time.Duration {
	if s.StartTimeout > 0 {
		return s.StartTimeout
	}
	return defaultStart
}

func (s *Server) restarts() int {
	if s.Restarts == 0 {
		return defaultRestarts
	}
	return max(s.Restarts, 0)
}

func (s *Server) recheck() time.Duration {
	if s.Recheck == 0 {
		return defaultRecheck
	}
	return s.Recheck
}

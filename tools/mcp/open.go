package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Servers are open MCP servers with their tools. Safe for concurrent use.
type Servers struct {
	servers  []*server
	tools    []Declared
	problems []Problem
}

// Declared is a tool with what stands behind it.
type Declared struct {
	tools.Tool
	Server string
	// Name is the server's own name for it.
	Name string
	// Digest is that of the server's declaration: name, description, schemas and
	// annotations. See [Tool.Digest].
	Digest events.Hash
	// Tightened says how what the server declares, annotations and outputSchema, made
	// the host's declaration stricter; empty if it did not.
	Tightened string
}

// Problem is something that is not as the server, or the host, meant it, and in
// spite of which the rest works. Texts are redacted.
type Problem struct {
	Server string
	Tool   string // by the server's own name; empty if it is about the server
	Text   string
}

func (p Problem) String() string {
	if p.Tool == "" {
		return fmt.Sprintf("mcp server %s: %s", p.Server, p.Text)
	}
	return fmt.Sprintf("mcp server %s, tool %s: %s", p.Server, p.Tool, p.Text)
}

// Open starts the servers, all at once, asks for their tools, and pins them. An
// error about one that is not optional closes the others again. A tool that
// cannot be taken, because its name means two or its schema cannot be used, is
// left out and told by [Servers.Problems]; if the host has declared it, that is
// an error. Close the servers when no call is under way any more.
func Open(ctx context.Context, cfg Config) (*Servers, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = slog.New(cfg.Redactor.Handler(cfg.Logger.Handler()))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	all := &Servers{}
	for _, sc := range cfg.Servers {
		all.servers = append(all.servers, newServer(&cfg, sc))
	}
	opened := make([]opening, len(all.servers))
	var wg sync.WaitGroup
	for i, s := range all.servers {
		wg.Go(func() { opened[i] = s.open(ctx) })
	}
	wg.Wait()
	var errs []error
	for i, s := range all.servers {
		o := opened[i]
		if o.err != nil && s.cfg.Optional && ctx.Err() == nil {
			o = opening{problems: []Problem{{Server: s.cfg.Name, Text: "left out: " + cfg.Redactor.String(o.err.Error())}}}
		}
		if o.err != nil {
			errs = append(errs, o.err)
		}
		all.tools = append(all.tools, o.tools...)
		all.problems = append(all.problems, o.problems...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, all.Close())...)
	}
	for _, p := range all.problems {
		cfg.Logger.Warn("MCP", "problem", p.String())
	}
	return all, nil
}

// Tools returns the tools for a [tools.Registry], server by server in the order
// of the configuration, sorted by name.
func (s *Servers) Tools() []tools.Tool {
	all := make([]tools.Tool, len(s.tools))
	for i, t := range s.tools {
		all[i] = t.Tool
	}
	return all
}

// Declared returns the tools with what stands behind them, in the same order.
func (s *Servers) Declared() []Declared { return slices.Clone(s.tools) }

// Definitions returns what the tools are declared as, in the same order. They
// must not be modified.
func (s *Servers) Definitions() []*tools.Definition {
	all := make([]*tools.Definition, len(s.tools))
	for i, t := range s.tools {
		all[i] = t.Definition()
	}
	return all
}

// Problems returns what was left out when the servers were opened, and why.
func (s *Servers) Problems() []Problem { return slices.Clone(s.problems) }

// Close ends all servers and waits for them: programs are asked to end, and then
// killed with what is in their process groups. Calls that are under way fail.
// Nothing is started afterwards. It takes some twenty seconds at most; an error
// names what has not ended by then.
func (s *Servers) Close() error {
	errs := make([]error, len(s.servers))
	var wg sync.WaitGroup
	for i, x := range s.servers {
		wg.Go(func() { errs[i] = x.close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// opening is what came of opening one server.
type opening struct {
	tools    []Declared
	problems []Problem
	err      error
}

// open starts the server for the first time and pins what it declares.
func (s *server) open(ctx context.Context) opening {
	l, err := s.acquire(ctx)
	if err != nil {
		return opening{err: err}
	}
	l.release()
	shelf := s.shelve(s.opened())
	if len(shelf.faults) > 0 {
		return opening{err: &Error{Server: s.cfg.Name, Reason: Changed, text: s.clean(strings.Join(shelf.faults, "; "), maxErrorText)}}
	}
	s.pin(shelf.pins)
	return opening{tools: shelf.tools, problems: shelf.problems}
}

package shelf

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
)

// handle is how headers and environments of servers name secrets.
var handle = regexp.MustCompile(`secret://([A-Za-z0-9_.-]*[A-Za-z0-9])?`)

// mcp reads which servers there are. What tools they have is asked by Connect.
func (r *reader) mcp(m *strictyaml.Map) func() error {
	servers := mcp.ParseServers(m)
	for i := range servers {
		s := &servers[i]
		if s.Dir != "" && !filepath.IsAbs(s.Dir) {
			s.Dir = filepath.Join(r.dir, s.Dir)
		}
		if err := s.Check(); err != nil {
			for line := range strings.Lines(err.Error()) {
				m.Fault(s.Name, "%s", strings.TrimSuffix(line, "\n"))
			}
		}
		r.handles(m, s)
	}
	return func() error {
		if len(servers) == 0 {
			return fmt.Errorf("there are no servers; write them below it, each under its name")
		}
		r.shelf.servers, r.shelf.o = servers, r.o
		return nil
	}
}

// handles finds the secrets that a server names and nobody has given.
func (r *reader) handles(m *strictyaml.Map, s *mcp.Server) {
	for _, values := range []map[string]string{s.Headers, s.Env} {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			for _, match := range handle.FindAllStringSubmatch(values[key], -1) {
				if r.o.Secrets[match[1]] == "" { // its name is not quoted: it may be the key itself
					m.Fault(s.Name, "%s: the secret named there is not given; start with --secret NAME=FILE (DAYBOOK_SECRETS)", key)
				}
			}
		}
	}
}

// Namespaces are the beginnings of the names of tools that are not known before
// [Shelf.Connect].
func (s *Shelf) Namespaces() []string {
	var all []string
	for _, server := range s.servers {
		all = append(all, server.Name+"__")
	}
	return all
}

// Connect opens the MCP servers of the file, and puts their tools on the shelf.
// It is called before [Shelf.Register], also where there are none; ctx bounds
// opening them, not their lives. Problems are what was left out of what they have.
func (s *Shelf) Connect(ctx context.Context, r *redact.Redactor, secrets tools.Secrets) (problems []string, err error) {
	if len(s.servers) == 0 {
		return nil, nil
	}
	open, err := mcp.Open(ctx, mcp.Config{Servers: s.servers, Secrets: secrets, Redactor: r, Logger: s.o.Logger, Net: s.o.Net})
	if err != nil {
		return nil, fmt.Errorf("open MCP servers: %w", err)
	}
	s.closers = append(s.closers, func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- open.Close() }() // which is bounded too
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("close MCP servers: %w", context.Cause(ctx))
		}
	})
	for _, d := range open.Declared() {
		s.items = append(s.items, Item{Definition: d.Definition(), Origin: MCP, Server: d.Server, Digest: d.Digest, tool: d.Tool})
	}
	for _, p := range open.Problems() {
		problems = append(problems, p.String())
	}
	return problems, nil
}

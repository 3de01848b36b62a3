// Package shelf makes the tools of a worker out of a file that an operator
// writes: which builtins there are, whom they may speak to, which programs may be
// run, what agents remember. Like package system it is for programs that embed
// Daybook; cmd/runner uses nothing else.
//
// A file is read strictly: every fault names file, line and field, and all are
// reported at once, before anything is opened. Keys are not in it: it names secrets.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Options are what a process gives to the tools of a file.
type Options struct {
	// Child starts a process that calls [Child] with the argument that follows:
	// mostly this program itself with a hidden command. Without it there are no tools
	// that need a process of their own: extract, pages of web_search, code_exec.
	Child []string
	// Secrets are the values that a file names, by name. They must also be known to
	// the redactor of the process, as [system.Options.Secrets] are.
	Secrets map[string]string
	// Net is the network below the guard. The zero value is the real one.
	Net netguard.Net
	// Logger is silent if nil.
	Logger *slog.Logger
}

// Parts are what tools need of a system that is open.
type Parts struct {
	// Redactor is that of the process.
	Redactor *redact.Redactor
	// Memory is where agents remember. Nil is an error if the file has a memory.
	Memory memory.Client
	// Shared has the stores in the ledger's database. Nil is an error if the file
	// wants them.
	Shared sharedmemory.Provider
}

// Origin says where a tool comes from.
type Origin string

// Origins of tools.
const (
	Builtin Origin = "builtin"
	Command Origin = "command"
	MCP     Origin = "mcp"
)

// Item is a tool on the shelf.
type Item struct {
	// Definition is what it declares. It must not be modified.
	Definition *tools.Definition
	Origin     Origin
	// Server is the name of the MCP server that has it, Digest that of the server's
	// declaration: see [mcp.Tool.Digest].
	Server string
	Digest events.Hash

	tool tools.Tool // nil until the system is open
}

// Shelf is the tools of a file.
type Shelf struct {
	items   []Item
	late    []func(Parts) ([]tools.Tool, error)
	closers []func(context.Context) error

	servers []mcp.Server // what Connect opens, with o
	o       Options
}

// Load reads a file. Paths in it are relative to its folder. Errors are faults
// of the file, each a [*strictyaml.Fault], and those of reading it.
func Load(ctx context.Context, path string, o Options) (*Shelf, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tools: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("load tools: %w", err)
	}
	return Parse(ctx, path, dir, b, o)
}

// Default is the shelf of a process without a file: the tools that need nothing
// but the process.
func Default() *Shelf {
	s := &Shelf{}
	for _, b := range locals() {
		t, err := b.make(nil)
		if err != nil {
			panic(fmt.Sprintf("shelf: %s without settings: %v", b.name, err)) // a broken invariant
		}
		s.add(Builtin, t)
	}
	return s
}

// Parse reads the text of a file; name is what faults call it, dir what paths in
// it are relative to.
func Parse(ctx context.Context, name, dir string, text []byte, o Options) (*Shelf, error) {
	f, m := strictyaml.Parse(name, text, 0)
	r := &reader{ctx: ctx, o: o, dir: dir, shelf: &Shelf{}}
	if o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
	}
	r.read(m)
	if err := f.Err(); err != nil {
		return nil, errors.Join(err, r.shelf.Close(context.WithoutCancel(ctx)))
	}
	return r.shelf, nil
}

// Items lists what is on the shelf, in the order in which it is registered.
func (s *Shelf) Items() []Item { return append([]Item(nil), s.items...) }

// Names are those of the tools.
func (s *Shelf) Names() []string {
	names := make([]string, len(s.items))
	for i, item := range s.items {
		names[i] = item.Definition.Name
	}
	return names
}

// Register puts the tools into a registry. It is called once.
func (s *Shelf) Register(reg *tools.Registry, p Parts) error {
	for _, item := range s.items {
		if item.tool == nil {
			continue
		}
		if err := reg.Add(item.tool); err != nil {
			return fmt.Errorf("register tools: %w", err)
		}
	}
	for _, open := range s.late {
		ts, err := open(p)
		if err == nil {
			err = reg.Add(ts...)
		}
		if err != nil {
			return fmt.Errorf("register tools: %w", err)
		}
	}
	return nil
}

// Close ends what the tools hold: sandboxes, and programs that serve tools. The
// worker that uses them must have ended.
func (s *Shelf) Close(ctx context.Context) error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *Shelf) add(o Origin, ts ...tools.Tool) {
	for _, t := range ts {
		s.items = append(s.items, Item{Definition: t.Definition(), Origin: o, tool: t})
	}
}

// addLate adds tools that are made once more when the system is open: like are
// those that say now what they will declare.
func (s *Shelf) addLate(like []tools.Tool, open func(Parts) ([]tools.Tool, error)) {
	for _, t := range like {
		s.items = append(s.items, Item{Definition: t.Definition(), Origin: Builtin})
	}
	s.late = append(s.late, open)
}

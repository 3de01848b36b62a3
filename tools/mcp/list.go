package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/tools"
)

// Bounds of what a server may declare.
const (
	maxTools       = 512
	maxPages       = 64
	maxSchema      = 64 << 10
	maxListed      = 16 << 20 // bytes, over all pages
	maxDescription = 8 << 10
	maxForeignName = 256
	maxToolName    = 64 // of the whole name: what providers take
)

// declaration is a tool as the server declares it.
type declaration struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *annotations    `json:"annotations,omitempty"`
}

// annotations are hints, never promises. Nil is not said.
type annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// digest is that of everything a host or a model could go by.
func (d *declaration) digest() (events.Hash, error) {
	b, err := canonical.Marshal(d)
	if err != nil {
		return events.Hash{}, err
	}
	return sha256.Sum256(append([]byte("daybook/mcp/1\x00"), b...)), nil
}

// list asks for all tools, page by page.
func (l *link) list(ctx context.Context) ([]declaration, error) {
	var all []declaration
	var cursor string
	size := 0
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range maxPages {
		x := &exchange{giveUp: cancel}
		_, err := l.session.ListTools(withExchange(ctx, x), &sdk.ListToolsParams{Cursor: cursor})
		l.conn.forget(x)
		a := x.state()
		if a.raw == nil {
			return nil, l.s.fault(Unavailable, "its tools could not be listed: %w", a.why(ctx, err))
		}
		// The answer as it came: what is not said, and numbers, stay as they are.
		if size += len(a.raw); size > maxListed {
			return nil, l.s.fault(Unreadable, "its list of tools has more than %d bytes", maxListed)
		}
		var page struct {
			Tools      few[*declaration] `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.raw, &page); err != nil {
			return nil, l.s.fault(Unreadable, "its list of tools is not what the protocol has: %w", err)
		}
		for _, d := range page.Tools {
			if d != nil {
				all = append(all, *d)
			}
		}
		if len(all) > maxTools {
			return nil, l.s.fault(Unreadable, "it lists more than %d tools", maxTools)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		cursor = page.NextCursor
	}
	return nil, l.s.fault(Unreadable, "its list of tools has more than %d pages", maxPages)
}

// shelf is what becomes of a list.
type shelf struct {
	tools    []Declared
	pins     map[string]events.Hash // by the server's own names
	problems []Problem
	faults   []string // about what the host has declared
}

// shelve makes tools of what the server declares.
func (s *server) shelve(list []declaration) shelf {
	out := shelf{pins: map[string]events.Hash{}}
	leave := func(name, format string, args ...any) {
		text := s.clean(fmt.Sprintf(format, args...), maxErrorText)
		if _, declared := s.cfg.Tools[name]; declared {
			out.faults = append(out.faults, fmt.Sprintf("tool %q: %s", name, text))
		}
		out.problems = append(out.problems, Problem{Server: s.cfg.Name, Tool: s.clean(name, maxForeignName), Text: text})
	}
	taken := map[string][]string{} // base name → own names
	times := map[string]int{}
	for _, d := range list {
		if times[d.Name]++; times[d.Name] == 1 && s.wants(d.Name) {
			taken[s.baseName(d.Name)] = append(taken[s.baseName(d.Name)], d.Name)
		}
	}
	for _, d := range list {
		base := s.baseName(d.Name)
		switch {
		case !s.wants(d.Name):
			continue
		case times[d.Name] > 1:
			leave(d.Name, "left out: the server lists it %d times", times[d.Name])
			continue
		case len(taken[base]) > 1:
			leave(d.Name, "left out: %q are all called %s here; say as what (as: …)", taken[base], base)
			continue
		}
		t, err := s.tool(base, d)
		if err != nil {
			leave(d.Name, "left out: %v", err)
			continue
		}
		if t.Tightened != "" {
			out.problems = append(out.problems, Problem{Server: s.cfg.Name, Tool: d.Name, Text: t.Tightened})
		}
		out.tools = append(out.tools, t)
		out.pins[d.Name] = t.Digest
	}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Tools)) {
		if times[name] == 0 {
			out.faults = append(out.faults, fmt.Sprintf("tool %q: the server has no such tool", name))
		}
	}
	slices.SortFunc(out.tools, func(a, b Declared) int { return strings.Compare(a.Definition().Name, b.Definition().Name) })
	return out
}

func (s *server) wants(name string) bool {
	return len(s.cfg.Only) == 0 || slices.Contains(s.cfg.Only, name)
}

// baseName is what a tool is called here, behind the server's name.
func (s *server) baseName(own string) string {
	if as := s.cfg.Tools[own].As; as != "" {
		return as
	}
	name := strings.Map(func(c rune) rune {
		if c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, own)
	for strings.Contains(name, namespaceMark) {
		name = strings.ReplaceAll(name, namespaceMark, "_")
	}
	name = strings.Trim(name, "_")
	if name == "" || name[0] <= '9' {
		name = "t" + name
	}
	return name
}

// tool makes the tool of one declaration.
func (s *server) tool(base string, d declaration) (Declared, error) {
	digest, err := d.digest()
	if err != nil {
		return Declared{}, fmt.Errorf("its declaration cannot be read: %w", err)
	}
	host := s.cfg.Tools[d.Name]
	switch {
	case d.Name == "" || len(d.Name) > maxForeignName:
		return Declared{}, fmt.Errorf("its name has %d bytes, want 1 to %d", len(d.Name), maxForeignName)
	case len(s.cfg.Name)+len(namespaceMark)+len(base) > maxToolName:
		return Declared{}, fmt.Errorf("its name would have more than %d letters: say as what (as: …)", maxToolName)
	case len(d.InputSchema)+len(d.OutputSchema) > maxSchema:
		return Declared{}, fmt.Errorf("its schemas have more than %d bytes", maxSchema)
	case s.withhold(d.Name) != d.Name, s.withhold(string(d.InputSchema)) != string(d.InputSchema):
		return Declared{}, errors.New("a credential of this server stands in its name or its schema, which models are shown")
	case host.Digest != "" && host.Digest != digest.String():
		return Declared{}, fmt.Errorf("its declaration has the digest %s, and not the one that was reviewed: look at it again", digest)
	}
	if err := s.tellsNothing(d); err != nil {
		return Declared{}, err
	}
	effect, trust, tightened := tighten(host, d.Annotations)
	if trust == "" {
		trust = tools.External
	}
	means := host.ErrorMeans
	if means == NoEffect && d.declaresOutput() {
		means = Unknown
		tightened = strings.TrimPrefix(tightened+"; error_means is no_effect here, and it has an outputSchema: a result that does not fit that is told as a failure when the work is done, so a failure is in doubt", "; ")
	}
	timeout := host.Timeout
	if timeout == 0 {
		timeout = s.cfg.CallTimeout
	}
	c := &caller{s: s, own: d.Name, digest: digest, errorMeans: means}
	t, err := tools.Raw(tools.Definition{
		Name: base, Description: s.describe(host, d), Effect: effect, Trust: trust,
		Recovery: host.Recovery, Scope: host.Scope, Identity: host.Identity, Window: host.Window, Approval: host.Approval,
		InDoubtContinue: host.InDoubtContinue, Aliases: host.Aliases, Pinned: host.Pinned, Price: host.Price,
		Timeout: timeout, MaxOutput: host.MaxOutput,
	}, schemaOf(d.InputSchema), c.call)
	if err != nil {
		return Declared{}, err
	}
	if t, err = tools.Namespaced(s.cfg.Name, t); err != nil {
		return Declared{}, err
	}
	return Declared{Tool: t, Server: s.cfg.Name, Name: d.Name, Digest: digest, Tightened: tightened}, nil
}

// tellsNothing refuses a declaration with something secret in what cannot be
// cleaned: it goes to models, and into the record, as it is.
func (s *server) tellsNothing(d declaration) error {
	if s.host.Redactor.String(d.Name) != d.Name {
		return errors.New("there is something secret in its name")
	}
	// Text by text: that an argument is called password makes nothing secret of what
	// is said about it.
	in := json.NewDecoder(bytes.NewReader(schemaOf(d.InputSchema)))
	in.UseNumber()
	for {
		t, err := in.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("its schema cannot be read: %w", err)
		}
		text := fmt.Sprint(t)
		if s.host.Redactor.String(text) != text {
			return errors.New("there is something secret in its schema, or what looks like it")
		}
	}
}

// declaresOutput reports whether the server may hold results against a schema.
func (d *declaration) declaresOutput() bool {
	return len(d.OutputSchema) > 0 && string(d.OutputSchema) != "null"
}

func schemaOf(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(`{"type":"object"}`)
	}
	return raw
}

// describe is what models read of the tool.
func (s *server) describe(host Tool, d declaration) string {
	if host.Description != "" {
		return host.Description
	}
	for _, text := range []string{d.Description, d.Title} {
		if text = strings.TrimSpace(s.clean(text, maxDescription)); text != "" {
			return text
		}
	}
	return fmt.Sprintf("The tool %s of the server %s, which does not say what it does.", s.clean(d.Name, maxForeignName), s.cfg.Name)
}

// tighten holds the host's declaration against the server's hints. A hint is
// believed only where it makes the declaration stricter.
func tighten(host Tool, a *annotations) (effect tools.Effect, trust tools.Trust, what string) {
	effect, trust = host.Effect, host.Trust
	if a == nil {
		return effect, trust, ""
	}
	var why []string
	if hinted := a.effect(); strictness(hinted) > strictness(effect) {
		why = append(why, fmt.Sprintf("declared %s here, and %s by the server: it counts as %s", effect, hinted, hinted))
		effect = hinted
	}
	if trust == tools.Own && a.OpenWorld != nil && *a.OpenWorld {
		why = append(why, "declared own here, and the server says that it reaches the world outside: it counts as external")
		trust = tools.External
	}
	return effect, trust, strings.Join(why, "; ")
}

// strictness orders effects; unset is as strict as it gets.
func strictness(e tools.Effect) int {
	switch e {
	case tools.Readonly:
		return 1
	case tools.Idempotent:
		return 2
	}
	return 3
}

// effect is what the hints say of it, by the protocol's defaults; readonly, which
// tightens nothing, if they do not speak of it.
func (a *annotations) effect() tools.Effect {
	said := func(b *bool) bool { return b != nil }
	is := func(b *bool) bool { return b != nil && *b }
	switch {
	case is(a.ReadOnly), !said(a.ReadOnly) && !said(a.Destructive) && !said(a.Idempotent):
		return tools.Readonly
	case is(a.Idempotent):
		return tools.Idempotent
	}
	return tools.Destructive
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/cmd/internal/terminal"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/tools"
)

// toolView is a tool as it is shown. Fields are never renamed.
type toolView struct {
	Name        string       `json:"name"`
	Effect      tools.Effect `json:"effect,omitempty"` // empty: not stated, treated as destructive
	Recovery    string       `json:"recovery,omitempty"`
	RecoveryTTL string       `json:"recovery_ttl,omitempty"`
	Scope       tools.Scope  `json:"scope,omitempty"`
	Trust       tools.Trust  `json:"trust,omitempty"`     // empty: unknown, not safe
	Price       string       `json:"max_price,omitempty"` // dollars
	Approval    bool         `json:"approval,omitempty"`
	Pinned      bool         `json:"pinned,omitempty"`
	Needs       []string     `json:"needs,omitempty"`
	From        string       `json:"from"`
	Server      string       `json:"server,omitempty"`
	Digest      events.Hash  `json:"digest,omitzero"` // of what the MCP server declares
	Agents      []string     `json:"agents,omitempty"`
	AfterCrash  string       `json:"after_crash"`
	Description string       `json:"description"`
}

func newToolView(d *tools.Definition, from string) toolView {
	v := toolView{
		Name: d.Name, Effect: d.Effect, Trust: d.Trust, Approval: d.Approval, Pinned: d.Pinned, Needs: d.Needs, From: from,
		AfterCrash: d.AfterCrash(), Description: d.Description,
	}
	if d.IsDestructive() {
		v.Recovery, v.Scope = string(d.Recovery.Kind), d.Scope
		if d.Recovery.TTL > 0 {
			v.RecoveryTTL = d.Recovery.TTL.String()
		}
	}
	if d.Price > 0 {
		v.Price = (events.PicoUSD(d.Price) * events.MicroUSD).String()
	}
	return v
}

func (a *app) toolsCommand() *cobra.Command {
	var w workerFlags
	var output string
	c := &cobra.Command{
		Use:   "tools",
		Short: "Says which tools a worker would have, and what becomes of their calls after a crash",
		Long: `Says which tools a worker with these flags would have: what they do to the world, who can
write what they return, where they come from, and what becomes of a call that a crash cut
off. MCP servers are started and asked. With --agents it lists the tools that agents name,
and the agents that they call as tools.
It needs no ledger. How tools were used: ledgerctl tools.`,
		Example: `  runner tools
  runner tools --tools tools.yaml --agents ./agents
  runner tools --tools tools.yaml -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usagef("--output %q: want table, json", output)
			}
			views, err := a.toolViews(c.Context(), &w)
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(a.out)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(views)
			}
			return showTools(a.out, terminal.Width(a.out), views)
		},
	}
	w.addShelf(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "table", "table, json")
	return c
}

// toolViews opens what can be opened without a ledger.
func (a *app) toolViews(ctx context.Context, w *workerFlags) (views []toolView, err error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	k, err := a.shelfOf(ctx, w)
	if err != nil {
		return nil, err
	}
	defer k.close(log)
	r, vault, err := a.knownSecrets()
	if err != nil {
		return nil, err
	}
	if _, err := k.shelf.Connect(ctx, r, vault); err != nil { // the log has what is left out
		return nil, err
	}
	for _, item := range k.shelf.Items() {
		v := newToolView(item.Definition, string(item.Origin))
		if item.Origin == shelf.MCP {
			v.Server, v.Digest = item.Server, item.Digest
		}
		views = append(views, v)
	}
	for _, t := range k.flags {
		views = append(views, newToolView(t.Definition(), t.flag))
	}
	if w.agents == "" {
		return views, nil
	}
	as, err := k.loadAgents(nil, k.names(), nil)
	if err != nil {
		return nil, err
	}
	return append(chosen(views, as), callees(as)...), nil
}

// knownSecrets are those that the process was started with, and a redactor that knows them.
func (a *app) knownSecrets() (*redact.Redactor, *redact.Vault, error) {
	r := redact.New(redact.Config{})
	vault := redact.NewVault(r)
	for name, value := range a.opts.Secrets {
		if err := vault.Set(name, value); err != nil {
			return nil, nil, err
		}
	}
	return r, vault, nil
}

// chosen are the tools that agents name, with their names.
func chosen(views []toolView, as []*agents.Agent) []toolView {
	for i := range views {
		for _, a := range as {
			if slices.Contains(a.Tools, views[i].Name) {
				views[i].Agents = append(views[i].Agents, a.Name)
			}
		}
	}
	return slices.DeleteFunc(views, func(v toolView) bool { return len(v.Agents) == 0 })
}

// callees are the agents that others call as tools, with who calls them.
func callees(as []*agents.Agent) (views []toolView) {
	for _, caller := range as {
		for _, c := range caller.Agents {
			i := slices.IndexFunc(as, func(a *agents.Agent) bool { return a.Name == c.Agent })
			if i < 0 {
				continue // loading has said so
			}
			v := newToolView(runtime.AgentTool(c, *as[i]), "agent")
			if c.Budget != nil {
				v.Price = c.Budget.String()
			}
			v.Server, v.Agents = c.Agent, []string{caller.Name}
			same := slices.IndexFunc(views, func(o toolView) bool { return o.Name == v.Name && o.Price == v.Price })
			if same >= 0 {
				views[same].Agents = append(views[same].Agents, caller.Name)
				continue
			}
			views = append(views, v)
		}
	}
	return views
}

// from is where a tool comes from, in words.
func (v toolView) from() string {
	if v.Server != "" {
		return v.From + " " + v.Server
	}
	return v.From
}

// notes are what is told in the last column: what becomes of a call first.
func (v toolView) notes() []string {
	notes := []string{v.AfterCrash}
	note := func(show bool, format string, args ...any) {
		if show {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	note(v.Effect == "", "effect not stated: treated as destructive")
	note(v.Approval, "a person approves each call")
	note(v.Scope != "" && v.Scope != tools.ScopeRun, "the same effect is made once in a %s", v.Scope)
	note(v.Price != "", "costs at most $%s", v.Price)
	note(v.Pinned, "pinned: always shown")
	note(len(v.Needs) > 0, "needs %s", strings.Join(v.Needs, ", "))
	note(len(v.Agents) > 0, "of %s", strings.Join(v.Agents, ", "))
	return notes
}

// showTools writes a table. On a terminal the last column is broken into lines;
// a width of zero is none.
func showTools(w io.Writer, width int, views []toolView) error {
	or := func(s, instead string) string {
		if s == "" {
			return instead
		}
		return s
	}
	rows := [][]string{{"TOOL", "EFFECT", "TRUST", "FROM", "AFTER A CRASH"}}
	for _, v := range views {
		rows = append(rows, []string{v.Name, or(string(v.Effect), "unknown"), or(string(v.Trust), "unknown"), v.from(), ""})
	}
	const gap = "  "
	before := 0 // where the last column begins
	widths := make([]int, 4)
	for i := range widths {
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		before += widths[i] + len(gap)
	}
	const narrow = 24 // below that, words are told on a line of their own
	room := width - before
	if width > 0 && room < narrow {
		before, room = len(gap)*2, width-len(gap)*2
	}
	var b strings.Builder
	for n, r := range rows {
		for i, cell := range r[:4] {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + gap)
		}
		if n == 0 {
			b.WriteString(r[4] + "\n")
			continue
		}
		lines := views[n-1].notes()
		if width == 0 {
			b.WriteString(strings.Join(lines, "; ") + "\n")
			continue
		}
		var wrapped []string
		for n, line := range lines {
			if n > 0 {
				line = "· " + line // beside what becomes of a call
			}
			wrapped = append(wrapped, terminal.Wrap(line, room)...)
		}
		if before == len(gap)*2 {
			b.WriteString("\n" + strings.Repeat(" ", before))
		}
		b.WriteString(strings.Join(wrapped, "\n"+strings.Repeat(" ", before)) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

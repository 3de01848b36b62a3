package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/tools/policy"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Checks and tests rules about tool calls",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.policyCheckCommand())
	return c
}

// policyCheck is one run of the command.
type policyCheck struct {
	a      *app
	w      workerFlags
	call   string
	args   string
	taint  bool
	output string

	file  string
	list  *policy.List
	cases []policy.Case
	names []string      // of the agent's tools; nil for a file of the operator's
	tools []policy.Tool // that the process has
}

func (a *app) policyCheckCommand() *cobra.Command {
	p := &policyCheck{a: a}
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Reads the rules of a policy file or an AGENT.md, runs their tests, and says what they mean for each tool",
		Long: `Reads the rules of a policy file or an AGENT.md, runs the tests that stand beside them, and
says what the rules can mean for each tool. With --call it says what becomes of one call, and
by which rule. The flags that register tools say which there are; a tool that nobody knows
counts as destructive. It needs no ledger.`,
		Example: `  runner policy check ops.yaml --tools tools.yaml
  runner policy check agents/refunds/AGENT.md
  runner policy check ops.yaml --call refund --args '{"amount": 50}' --tainted`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one policy file or AGENT.md (see %s -h)", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p.file = args[0]
			return p.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&p.call, "call", "", "says what becomes of a call of this tool")
	f.StringVar(&p.args, "args", "{}", "its arguments, a JSON object")
	f.BoolVar(&p.taint, "tainted", false, "text from outside has come in before")
	f.StringVarP(&p.output, "output", "o", "table", "table, json")
	p.w.addShelf(f)
	return c
}

func (p *policyCheck) run(ctx context.Context) error {
	if p.output != "table" && p.output != "json" {
		return usagef("--output %q: want table, json", p.output)
	}
	if err := p.read(); err != nil {
		return err
	}
	if err := p.readTools(ctx); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.call != "" {
		return p.one()
	}
	return p.all()
}

// read reads rules and tests.
func (p *policyCheck) read() error {
	if filepath.Ext(p.file) != ".md" {
		f, err := policy.Load(p.file)
		if err != nil {
			return err
		}
		p.list, p.cases = f.List, f.Cases
		return nil
	}
	a, err := agents.Load(p.file)
	if err != nil {
		return err
	}
	if a.Policy == nil {
		return fmt.Errorf("%s: agent %q has no policy", p.file, a.Name)
	}
	p.list, p.cases, p.names = a.Policy, a.PolicyTests, a.Tools
	for i := range p.cases {
		if p.cases[i].Facts.Run.Agent == "" {
			p.cases[i].Facts.Run.Agent = a.Name
		}
	}
	return nil
}

// readTools finds out which tools the process has.
func (p *policyCheck) readTools(ctx context.Context) error {
	p.w.agents = ""
	views, err := p.a.toolViews(ctx, &p.w)
	if err != nil {
		return err
	}
	for _, v := range views {
		p.tools = append(p.tools, policy.Of(v.Name, string(v.Effect), v.Recovery, string(v.Trust), v.Pinned))
	}
	return nil
}

// tool is the declaration of a tool, and whether the process has it.
func (p *policyCheck) tool(name string) (policy.Tool, bool) {
	for _, t := range p.tools {
		if t.Name == name {
			return t, true
		}
	}
	return policy.Of(name, "", "", "", false), false
}

// subjects are the tools that the rules are about: the agent's, or all that there
// are and those that rules name.
func (p *policyCheck) subjects() []policy.Tool {
	if p.names == nil {
		all := slices.Clone(p.tools)
		for _, n := range p.list.Names() {
			if t, known := p.tool(n); !known {
				all = append(all, t)
			}
		}
		return all
	}
	var all []policy.Tool
	for _, n := range p.names {
		t, _ := p.tool(n)
		all = append(all, t)
	}
	return all
}

// check says what keeps a worker from starting with the rules.
func (p *policyCheck) check() error {
	red, _, err := p.a.knownSecrets()
	if err != nil {
		return err
	}
	var errs []error
	for _, err := range slices.Concat(p.typos(), p.list.CheckAsks(p.subjects()), p.list.CheckRedaction(red)) {
		var f *policy.Fault
		if errors.As(err, &f) {
			err = fmt.Errorf("%s:%d: %w", p.file, f.Line, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// typos are names of tools that look like those of others.
func (p *policyCheck) typos() []error {
	names := p.names // those of an agent are checked with it
	for _, t := range p.tools {
		names = append(names, t.Name)
	}
	return p.list.CheckTypos(names)
}

// decided is a decision as it is shown. Fields are never renamed.
type decided struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Then      policy.Outcome  `json:"then"`
	Rule      int             `json:"rule,omitempty"`
	When      string          `json:"when,omitempty"`
	Line      int             `json:"line,omitempty"`
	Text      string          `json:"text,omitempty"`
}

// one says what becomes of the call.
func (p *policyCheck) one() error {
	raw, err := canonical.JSON([]byte(p.args))
	if err != nil || len(raw) == 0 || raw[0] != '{' {
		return usagef("--args: want a JSON object such as '{\"amount\": 50}'")
	}
	t, known := p.tool(p.call)
	f := policy.Facts{Tool: t, Arguments: raw, Tainted: p.taint, Run: policy.Run{Turn: 1}}
	if p.taint {
		f.TaintedBy = "unknown"
	}
	d := p.list.Decide(&f)
	v := decided{Tool: t.Name, Arguments: raw, Then: d.Then, Rule: d.Rule, Text: d.Text()}
	if d.Rule > 0 {
		r := p.list.Rules()[d.Rule-1]
		v.When, v.Line = strings.Join(strings.Fields(r.When), " "), r.Line
	}
	if p.output == "json" {
		return p.json(v)
	}
	fmt.Fprintf(p.a.out, "%s\n", v.Then)
	if d.Rule == 0 {
		fmt.Fprintln(p.a.out, "no rule holds")
	} else {
		fmt.Fprintf(p.a.out, "%s\n%s:%d: %s\n", v.Text, p.file, v.Line, v.When)
	}
	if !known {
		fmt.Fprintf(p.a.err, "runner: this process has no tool %q: it is taken to be destructive\n", p.call)
	}
	return nil
}

func (p *policyCheck) json(v any) error {
	e := json.NewEncoder(p.a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// meaning is what the rules can mean for a tool. Fields are never renamed.
type meaning struct {
	Tool    string     `json:"tool"`
	Effect  string     `json:"effect"`
	Decides []possible `json:"decisions"` // the first that holds
}

type possible struct {
	Then policy.Outcome `json:"then"`
	Rule int            `json:"rule,omitempty"` // 0 = no rule holds
}

// tried is a test as it came out.
type tried struct {
	Test  string `json:"test"`
	Line  int    `json:"line"`
	Wrong string `json:"wrong,omitempty"`
}

// all runs the tests and says what the rules mean.
func (p *policyCheck) all() error {
	report := struct {
		Tools []meaning `json:"tools"`
		Tests []tried   `json:"tests"`
	}{[]meaning{}, []tried{}}
	for _, t := range p.subjects() {
		m := meaning{Tool: t.Name, Effect: t.Effect}
		if _, known := p.tool(t.Name); !known {
			m.Effect = "unknown"
		}
		for _, d := range p.list.Possible(t) {
			m.Decides = append(m.Decides, possible{d.Then, d.Rule})
		}
		report.Tools = append(report.Tools, m)
	}
	slices.SortFunc(report.Tools, func(x, y meaning) int { return strings.Compare(x.Tool, y.Tool) })
	failed := 0
	for _, c := range p.cases {
		if t, known := p.tool(c.Facts.Tool.Name); known && !c.Declared {
			c.Facts.Tool = t
		}
		_, wrong := c.Try(policy.Policy{p.list})
		if wrong != "" {
			failed++
		}
		report.Tests = append(report.Tests, tried{c.Title(), c.Line, wrong})
	}
	if p.output == "json" {
		if err := p.json(report); err != nil {
			return err
		}
	} else if err := p.table(report.Tools, report.Tests); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d tests failed", p.file, failed, len(p.cases))
	}
	return nil
}

func (p *policyCheck) table(ms []meaning, ts []tried) error {
	w := tabwriter.NewWriter(p.a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tEFFECT\tWHAT BECOMES OF ITS CALLS")
	for _, m := range ms {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.Tool, m.Effect, m.words())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	passed := 0
	for _, t := range ts {
		if t.Wrong == "" {
			passed++
			continue
		}
		fmt.Fprintf(p.a.out, "%s:%d: %s: %s\n", p.file, t.Line, t.Test, t.Wrong)
	}
	if len(ts) > 0 {
		fmt.Fprintf(p.a.out, "\n%d of %d tests passed\n", passed, len(ts))
	}
	return nil
}

// words say the decisions in the order in which the rules are asked.
func (m meaning) words() string {
	var parts []string
	for i, d := range m.Decides {
		switch {
		case d.Rule > 0:
			parts = append(parts, fmt.Sprintf("%s (rule %d)", d.Then, d.Rule))
		case i == 0:
			parts = append(parts, "allow: no rule is about it")
		default:
			parts = append(parts, string(d.Then))
		}
	}
	return strings.Join(parts, ", else ")
}

package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents/internal/front"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/loops"
)

// Loader reads definitions and checks them against what the process has. The
// zero value checks no loop, tool or model by name.
type Loader struct {
	Loops  []string // nil = not checked
	Tools  []string // nil = not checked
	Models []string // nil = not checked
	Roles  []string // that stand for models; checked with them
	// Strategies check the options of the loops that they are; the options of others
	// are read and not checked.
	Strategies []loops.Loop
	// Namespaces are beginnings of names of tools that are not known yet; tools of
	// such names are not checked.
	Namespaces []string
	// Skills finds the skill of a name for the agent of a file. Nil is [OwnSkills].
	Skills func(file, name string) (*skill.Skill, error)
	// Schema checks the schema of an output; nil = it is JSON, and no more is asked.
	Schema func(schema []byte) error

	file string // that is being read
}

// Load reads one file with the zero [Loader].
func Load(path string) (*Agent, error) { return Loader{}.Load(path) }

// LoadDir reads a folder of agents with the zero [Loader].
func LoadDir(dir string) ([]*Agent, error) { return Loader{}.LoadDir(dir) }

// Parse reads the text of a file with the zero [Loader].
func Parse(name string, text []byte) (*Agent, error) { return Loader{}.Parse(name, text) }

// Load reads one file. Errors: those of [Loader.Parse], and of reading.
func (l Loader) Load(path string) (*Agent, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load agent: %w", err)
	}
	return l.Parse(path, b)
}

// LoadDir reads AGENT.md in dir and in the folders right below it, sorted by
// the agents' names. The faults of all files are reported at once; two agents
// of one name are a fault, and so are a folder without any and what [CheckTeam] finds.
func (l Loader) LoadDir(dir string) ([]*Agent, error) {
	var files []string
	for _, pattern := range []string{FileName, filepath.Join("*", FileName)} {
		fs, err := filepath.Glob(filepath.Join(escape(dir), pattern))
		if err != nil {
			return nil, fmt.Errorf("load agents: %w", err)
		}
		files = append(files, fs...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("load agents: no %s in %s or a folder right below it; write one as %s", FileName, dir, filepath.Join(dir, "my-agent", FileName))
	}
	var as []*Agent
	var errs []error
	byName := map[string]*Agent{}
	for _, f := range files {
		a, err := l.Load(f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other := byName[a.Name]; other != nil {
			errs = append(errs, fmt.Errorf("%s: name: %q is also the agent of %s; rename one", f, a.Name, other.Path))
			continue
		}
		byName[a.Name] = a
		as = append(as, a)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(as, func(a, b *Agent) int { return strings.Compare(a.Name, b.Name) })
	if err := CheckTeam(as); err != nil {
		return nil, err
	}
	return as, nil
}

// escape keeps a folder's own name from being read as a pattern.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// Body is what stands below the front matter of a file, without white space around
// it: the prompt. The error is a [*strictyaml.Fault], which calls the file name.
func Body(name string, text []byte) (string, error) {
	f, err := front.Split(name, text, "prompt")
	if err != nil {
		return "", err
	}
	return f.Body(), nil
}

// Parse reads the text of a file; name is what errors call it and becomes
// [Agent.Path]. Skills that it names are read as [Loader.Skills] says. The error
// joins all faults, each a [*strictyaml.Fault] with file, line, field and what to
// write instead.
func (l Loader) Parse(name string, text []byte) (*Agent, error) {
	file, err := front.Split(name, text, "prompt")
	if err != nil {
		return nil, err
	}
	f, m := file.Fields(name)
	l.file = name
	a := l.read(m, name)
	a.Path = name
	a.Prompt = file.Body()
	if a.Prompt == "" {
		f.Fault(file.End(), "", "the prompt is empty; write below the front matter what the agent has to do")
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return a, nil
}

func (l Loader) read(m *strictyaml.Map, file string) *Agent {
	a := &Agent{
		Name:        m.Need("name", "a short name such as refunds"),
		Description: m.Text("description"),
	}
	l.readModel(m, a)
	l.readOutput(m, a)
	a.Tools = m.Texts("tools")
	l.readLoop(m, a)
	if a.Name != "" && !events.ValidName(a.Name) {
		m.Fault("name", "want 1 to 64 letters, digits, \"_\" and \"-\", got %q", a.Name)
	}
	l.checkTools(m, a.Tools)
	readTeam(m, a)
	l.readSkills(m, a, file)
	a.Select = int(m.Int("select", 1))
	a.Groups = readGroups(m, a)
	if lm := m.Map("limits"); lm != nil {
		a.Limits = events.Limits{
			MaxTurns:         int(lm.Int("max_turns", 1)),
			MaxTokens:        int(lm.Int("max_tokens", 1)),
			MaxModelAttempts: int(lm.Int("max_model_attempts", 1)),
			MaxChildren:      int(lm.Int("max_children", 1)),
			MaxDepth:         int(lm.Int("max_depth", 1)),
		}
		a.Timeout = lm.Duration("timeout")
		lm.Done("limits")
	}
	if s := m.Text("budget"); s != "" { // what is no text is said already
		a.Budget = new(events.PicoUSD)
		if err := a.Budget.UnmarshalText([]byte(s)); err != nil || *a.Budget < 0 {
			m.Fault("budget", `want dollars in quotes that a run may spend, such as "0.50", got %q`, s)
		}
	}
	a.BudgetUnpriced = m.Text("budget_unpriced")
	switch a.BudgetUnpriced {
	case "allow":
		a.BudgetUnpriced = "" // the default
	case "", "refuse":
	default:
		m.Fault("budget_unpriced", "want allow or refuse: what becomes of a call whose price nobody knows; got %q", a.BudgetUnpriced)
	}
	a.Approve = m.Texts("approve")
	checkApprove(m, a)
	a.Taint = m.Text("taint")
	switch a.Taint {
	case "allow":
		a.Taint = "" // the default
	case "", "ask", "deny":
	default:
		m.Fault("taint", "want allow, ask or deny: what becomes of a destructive call once text from outside has come in; got %q", a.Taint)
	}
	l.readPolicy(m, a)
	readHooks(m, a)
	a.ApprovalTimeout = m.Duration("approval_timeout")
	if rm := m.Map("retry"); rm != nil {
		a.Retry = Retry{MaxAttempts: int(rm.Int("max_attempts", 1)), Backoff: rm.Duration("backoff"), MaxBackoff: rm.Duration("max_backoff")}
		if a.Retry.MaxBackoff > 0 && a.Retry.MaxBackoff < a.Retry.Backoff {
			rm.Fault("max_backoff", "%s is less than backoff, %s; write at least as much", a.Retry.MaxBackoff, a.Retry.Backoff)
		}
		rm.Done("retry")
	}
	l.readCompaction(m, a)
	m.Done("an agent")
	return a
}

// checkApprove keeps a misspelt name from guarding nothing.
func checkApprove(m *strictyaml.Map, a *Agent) {
	for i, t := range a.Approve {
		switch {
		case slices.Contains(a.Approve[:i], t):
			m.Fault("approve", "%q is written twice; keep one", t)
		case t != "*" && len(a.Tools) == 0:
			m.Fault("approve", "%q is none of the agent's tools: it has none", t)
		case t != "*" && !slices.Contains(a.Tools, t):
			m.Fault("approve", "%q is none of the agent's tools; %s, or \"*\" for each destructive one", t, choice(t, a.Tools))
		}
	}
}

func (l Loader) checkTools(m *strictyaml.Map, tools []string) {
	seen := map[string]bool{}
	for _, t := range tools {
		switch {
		case seen[t]:
			m.Fault("tools", "%q is written twice; keep one", t)
		case strings.ContainsAny(t, " \t\n"):
			m.Fault("tools", "%q is no tool name; write a list such as [a, b]", t)
		case slices.ContainsFunc(l.Namespaces, func(n string) bool { return strings.HasPrefix(t, n) }):
		case l.Tools != nil && !slices.Contains(l.Tools, t):
			m.Fault("tools", "there is no tool %q; %s", t, choice(t, l.Tools))
		}
		seen[t] = true
	}
}

// choice says what could have been meant.
func choice(s string, names []string) string {
	if near := strictyaml.Nearest(s, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(names) == 0 {
		return "this process has none"
	}
	sorted := slices.Sorted(slices.Values(names))
	return "write one of " + strings.Join(sorted, ", ")
}

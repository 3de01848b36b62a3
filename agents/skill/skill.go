// Package skill reads skills: a SKILL.md file says in its front matter what a skill
// is for and which tools it needs; the text below tells a model how to do it. A
// skill is text. It grants nothing: no tool, no permission, no model.
package skill

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/agents/internal/front"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/command"
)

// FileName is what a skill is called in its folder, which has the skill's name.
const FileName = "SKILL.md"

// Bounds of a skill.
const (
	MaxBytes       = 64 << 10 // of the file, and of instructions and context together
	MaxDescription = 1024     // characters
	MaxTools       = 64
	MaxContext     = 16 // files
)

// Skill is what a model can be told about one kind of task.
type Skill struct {
	Name        string
	Description string // says what it is for and when: a model chooses by it
	// Instructions is the text below the front matter, without white space around it.
	Instructions string
	// Tools are those that it does not work without. A run that is to follow it must
	// have them by itself; what stands in parentheses narrows nothing here, since
	// nothing is granted.
	Tools []command.Entry
	// Context are texts that come after the instructions.
	Context []Context
	// Chosen: no model is offered it; an agent or a submission makes it active.
	Chosen bool
	// Trust says who can write it: that of what a call which loads it returns.
	Trust tools.Trust
	Path  string // of the file; not part of the digest
}

// Context is a file of a skill's folder.
type Context struct{ Name, Text string }

// Text is what a model is told: the instructions, then the context.
func (s *Skill) Text() string {
	texts := []string{s.Instructions}
	for _, c := range s.Context {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n\n")
}

// Digest is the SHA-256 of all that the skill says, wherever it is.
func (s *Skill) Digest() events.Hash {
	b, err := canonical.Marshal(struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Text        string      `json:"text"`
		Tools       []string    `json:"tools,omitempty"`
		Chosen      bool        `json:"chosen,omitempty"`
		Trust       tools.Trust `json:"trust"`
	}{s.Name, s.Description, s.Text(), s.Needs(), s.Chosen, s.Trust})
	if err != nil { // only text that is not UTF-8 fails, and Parse lets none in
		panic(fmt.Sprintf("hash skill %q: %v", s.Name, err))
	}
	return sha256.Sum256(append([]byte("daybook/skill/1\x00"), b...))
}

// Needs are its tools as they were written.
func (s *Skill) Needs() []string {
	var all []string
	for _, e := range s.Tools {
		all = append(all, e.Raw)
	}
	return all
}

// Missing are those of its tools that have does not report. It is the one
// question that is asked about them: whether the run has them by itself.
func (s *Skill) Missing(have func(tool string) bool) []string {
	var all []string
	for _, e := range s.Tools {
		if !have(e.Name) {
			all = append(all, e.Name)
		}
	}
	return all
}

// Parse reads the text of a file. name is what errors call it and becomes
// [Skill.Path]; read reads a file of its folder, nil reads none. The error joins all
// faults, each a [*strictyaml.Fault] with file, line, field and what to write
// instead. The trust is left unset.
func Parse(name string, text []byte, read func(file string) ([]byte, error)) (*Skill, error) {
	if len(text) > MaxBytes {
		return nil, &strictyaml.Fault{File: name, Message: fmt.Sprintf("it has over %d bytes; put what is not always wanted into files that it names", MaxBytes)}
	}
	file, err := front.Split(name, text, "instructions")
	if err != nil {
		return nil, err
	}
	f, m := file.Fields(name)
	s := &Skill{Path: name, Instructions: file.Body()}
	s.Name = m.Need("name", "the name of its folder")
	if s.Name != "" && !events.ValidName(s.Name) {
		m.Fault("name", "want 1 to 64 letters, digits, \"_\" and \"-\", got %q", s.Name)
	}
	s.Description = strings.Join(strings.Fields(m.Need("description", "what the skill is for and when to follow it: a model chooses by it")), " ")
	if n := utf8.RuneCountInString(s.Description); n > MaxDescription {
		m.Fault("description", "it has %d characters, at most %d", n, MaxDescription)
	}
	s.Tools = readTools(m)
	s.Chosen = m.Bool("disable-model-invocation")
	s.readContext(m, read)
	for _, field := range told {
		m.Has(field)
	}
	for _, field := range refused {
		if m.Has(field) {
			m.Fault(field, "a skill is text and cannot choose that; take the field out, and let the agent say it")
		}
	}
	m.Done("a skill")
	switch {
	case s.Instructions == "":
		f.Fault(file.End(), "", "there are no instructions; write below the front matter how the task is done")
	case strings.ContainsRune(s.Instructions, 0):
		f.Fault(0, "", "there is a NUL byte in it: this is no text")
	case len(s.Text()) > MaxBytes:
		m.Fault("context", "instructions and context have %d bytes together, at most %d", len(s.Text()), MaxBytes)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// told are fields that others read; they change nothing here.
var told = []string{"license", "compatibility", "metadata", "version", "argument-hint", "user-invocable"}

// refused are fields of other programs that would change what a run may do or is.
var refused = []string{"model", "agent", "hooks"}

// readTools reads allowed-tools, which others write, or tools, which says it shorter:
// a list, or a text with spaces or commas between entries.
func readTools(m *strictyaml.Map) []command.Entry {
	field := "allowed-tools"
	if m.Has("tools") {
		if m.Has(field) {
			m.Fault("tools", "it says the same as %s; keep one", field)
		}
		field = "tools"
	}
	var raw []string
	if text, ok := m.Scalar(field); ok {
		raw = entries(text)
	} else if m.Has(field) {
		raw = m.Texts(field)
	}
	if len(raw) > MaxTools {
		m.Fault(field, "there are %d tools, at most %d", len(raw), MaxTools)
		return nil
	}
	var all []command.Entry
	for _, r := range raw {
		e, err := command.ParseEntry(r)
		if err != nil {
			m.Fault(field, "%v; write Name or Name(specifier)", err)
			continue
		}
		all = append(all, e)
	}
	return all
}

// entries splits a text at spaces and commas that stand in no parentheses.
func entries(text string) []string {
	var all []string
	var b strings.Builder
	inside, escaped := false, false
	end := func() {
		if b.Len() > 0 {
			all = append(all, b.String())
		}
		b.Reset()
	}
	for _, r := range text {
		switch {
		case !inside && strings.ContainsRune(" \t\r\n,", r):
			end()
			continue
		case escaped:
			escaped = false
			b.WriteRune(r)
			continue
		case inside && r == '\\':
			escaped = true
		case r == '(':
			inside = true
		case r == ')':
			inside = false
		}
		b.WriteRune(r)
	}
	end()
	return all
}

// readContext reads the files that context names.
func (s *Skill) readContext(m *strictyaml.Map, read func(string) ([]byte, error)) {
	names := m.Texts("context")
	if len(names) > MaxContext {
		m.Fault("context", "there are %d files, at most %d", len(names), MaxContext)
		return
	}
	for i, n := range names {
		clean := filepath.FromSlash(n)
		switch {
		case !filepath.IsLocal(clean):
			m.Fault("context", "%q is no file of the skill's folder", n)
			continue
		case read == nil:
			m.Fault("context", "%q cannot be read: there is no folder", n)
			continue
		}
		b, err := read(clean)
		var text string
		if err == nil {
			text, err = prompt.Text(b)
		}
		text = strings.TrimSpace(text)
		switch {
		case err != nil:
			m.Fault("context", "file %q: %v", n, err)
		case text == "":
			m.Fault("context", "file %q is empty", n)
		default:
			s.Context = append(s.Context, Context{Name: names[i], Text: text})
		}
	}
}

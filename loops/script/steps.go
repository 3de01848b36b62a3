package script

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/loops"
)

// Script is what code acts through. It belongs to the code's own goroutine, while
// the code runs. Methods that wait do not come back if the worker lets go of the
// run: the code ends there, and runs again elsewhere.
type Script struct {
	m       *machine
	owner   uint64 // goroutine
	now     time.Time
	seed    [32]byte
	ids     uint64
	rand    *rand.Rand
	patches map[string]bool
	fault   error // a step that cannot be asked for
}

// begin makes what is the same each time the code runs. Dice and ids are those of the
// lineage, retries and forks included; the time is the run's own.
func (s *Script) begin(h *loops.History, name string) {
	o := h.Origin()
	input, err := canonical.JSON(o.Input)
	if err != nil {
		input = o.Input
	}
	s.now, s.patches = h.Begun(), map[string]bool{}
	s.seed = sha256.Sum256(fmt.Appendf(nil, "daybook/script/1\x00%s\x00%s\x00%s", o.Root, name, input))
	s.rand = rand.New(rand.NewPCG(binary.BigEndian.Uint64(s.seed[:]), binary.BigEndian.Uint64(s.seed[8:]))) //nolint:gosec // it has to come again
}

// own ends a goroutine that is not the code's, and fails the run for it: nobody
// could say in which order its steps come.
func (s *Script) own(method string) {
	if goroutine() == s.owner {
		return
	}
	what := fmt.Sprintf("Script.%s was called from another goroutine than the code's own, or after the code had returned: the order of steps must be the same each time. Use Script.Tools for what is to be done side by side", method)
	s.m.misuse.CompareAndSwap(nil, &what)
	runtime.Goexit()
}

// step asks for a step and returns once it is done.
func (s *Script) step(method string, asked events.StepPlanned) *loops.Planned {
	s.own(method)
	m := s.m
	select {
	case m.asked <- asked:
	case <-m.quit:
		runtime.Goexit()
	}
	var p *loops.Planned
	select {
	case p = <-m.answer:
	case <-m.quit:
		runtime.Goexit()
	}
	if p.Done {
		s.now = p.At
	}
	return p
}

// abort ends the code for a step that cannot be asked for.
func (s *Script) abort(format string, args ...any) {
	s.fault = Fail(KindScript, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Now returns the time at which the last step was done, or before the first one that at
// which the run was started: the same each time that the run's code runs. It is another
// one when the run is tried again. So it must not go into what a destructive call is
// known by (its identity, an id, a reference): the retry would do it a second time. Take
// [Script.NewID] for that.
func (s *Script) Now() time.Time {
	s.own("Now")
	return s.now
}

// Rand returns dice that fall the same each time: over crashes, in forks of the
// run and when it is tried again.
func (s *Script) Rand() *rand.Rand {
	s.own("Rand")
	return s.rand
}

// NewID returns 32 hexadecimal digits that nobody else has, with the property of
// [Script.Rand]: what is tried again is named the same. Runs of one lineage with the
// same script and the same input have the same.
func (s *Script) NewID() string {
	s.own("NewID")
	s.ids++
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(s.seed[:]), s.ids))
	return hex.EncodeToString(sum[:16])
}

// Patched reports whether the run has first come here with code that has this
// patch: then it is to do what is new, else what was done before. The answer is
// recorded, and is the same wherever else the code asks for the patch.
func (s *Script) Patched(id string) bool {
	s.own("Patched")
	if id == "" {
		s.abort("Patched: the patch has no name")
	}
	yes, known := s.patches[id]
	if !known {
		yes = s.step("Patched", events.StepPlanned{Op: events.OpPatch, Name: text(id)}).Done
		s.patches[id] = yes
	}
	return yes
}

// Ask is a question to the model.
type Ask struct {
	Text string
	// Continue shows the model the whole conversation of the run: its input, what it
	// was asked before and answered. Otherwise it sees Text alone. What the code has
	// tools do is in neither: put into Text what the model is to know.
	Continue bool
	// Tools lets the model use the run's tools until it has an answer.
	Tools bool
}

// Model asks the model. The error is a [*ModelError]: there is no answer, or half
// of one.
func (s *Script) Model(a Ask) (Answer, error) {
	s.own("Model")
	if a.Text == "" {
		s.abort("Model: the question is empty")
	}
	return answerOf(s.step("Model", events.StepPlanned{Op: events.OpModel, Text: text(a.Text), Continue: a.Continue, Tools: a.Tools}))
}

// Call is a call of a tool, or a wait, to be made beside others.
type Call struct {
	Tool      string
	Arguments any // what encodes to a JSON object; nil is an empty one
}

// Tool calls a tool of the agent's.
func (s *Script) Tool(name string, arguments any) Outcome {
	s.own("Tool")
	return s.calls("Tool", Call{name, arguments})[0]
}

// Tools makes calls of one turn: those that are not destructive side by side,
// each destructive one alone, in this order. It returns when all have an outcome.
func (s *Script) Tools(calls ...Call) []Outcome {
	s.own("Tools")
	if len(calls) == 0 {
		return nil
	}
	return s.calls("Tools", calls...)
}

func (s *Script) calls(method string, calls ...Call) []Outcome {
	step := events.StepPlanned{Op: events.OpCalls}
	for _, c := range calls {
		if c.Tool == "" {
			s.abort("%s: a call names no tool", method)
		}
		if w, ok := c.Arguments.(wait); ok != strings.HasPrefix(c.Tool, "script__") {
			s.abort("%s: %s is no tool: use Sleep, Await or Child", method, c.Tool)
		} else if ok {
			c.Arguments = w.arguments
		}
		if c.Arguments == nil {
			c.Arguments = struct{}{}
		}
		args, err := canonical.Marshal(c.Arguments)
		if err != nil {
			s.abort("%s: the arguments of %s, a %T, cannot be encoded: %v", method, c.Tool, c.Arguments, err)
		}
		step.Calls = append(step.Calls, events.ToolCall{Name: text(c.Tool), Arguments: args})
	}
	return outcomesOf(s.step(method, step))
}

// wait marks the arguments of a script's own tools.
type wait struct{ arguments any }

// Sleep lets time pass: the run is parked meanwhile. Zero or less is no step.
func (s *Script) Sleep(d time.Duration) {
	s.own("Sleep")
	if d <= 0 {
		return
	}
	s.sleep("Sleep", map[string]any{"ms": max(d.Milliseconds(), 1)})
}

// sleep ends the code if it could not wait: it must not go on as if it had.
func (s *Script) sleep(method string, args map[string]any) {
	if o := s.calls(method, Call{loops.SleepTool, wait{args}})[0]; !o.OK() {
		s.abort("%s: %v", method, o.Err())
	}
}

// SleepUntil waits for a moment, which may have passed.
func (s *Script) SleepUntil(t time.Time) {
	s.own("SleepUntil")
	s.sleep("SleepUntil", map[string]any{"until": t.UTC().Format(time.RFC3339Nano)})
}

// Signal is the call that waits for a signal, for [Script.Tools].
func Signal(name string, within time.Duration) Call {
	args := map[string]any{"name": name}
	if within > 0 {
		args["within_ms"] = max(within.Milliseconds(), 1)
	}
	return Call{loops.SignalTool, wait{args}}
}

// Await waits for a signal of that name and returns its data. One that came before
// and that nobody has taken counts, the oldest first. After within the outcome is
// failed; zero waits for ever.
func (s *Script) Await(name string, within time.Duration) Outcome {
	s.own("Await")
	return s.calls("Await", Signal(name, within))[0]
}

// Child is the call that has another agent do something, for [Script.Tools].
// input is anything that encodes to JSON.
func Child(agent string, input any) Call {
	return Call{loops.ChildTool, wait{map[string]any{"agent": agent, "input": input}}}
}

// Child gives input to another agent, as a run of its own, and returns its answer.
func (s *Script) Child(agent string, input any) Outcome {
	s.own("Child")
	return s.calls("Child", Child(agent, input))[0]
}

// Artifact is a version of something with a name.
type Artifact struct {
	Name string
	// Value is its content: a string as it is, anything else as JSON.
	Value any
	// Validators judge it, in this order. Config.Validators has to name them.
	Validators []string
}

// Artifact stores a version and has it judged; one that no validator refuses is
// the artifact from then on. The error is a [*Failure] of a validator itself.
func (s *Script) Artifact(a Artifact) (Version, error) {
	s.own("Artifact")
	if a.Name == "" {
		s.abort("Artifact: it has no name")
	}
	for _, v := range a.Validators {
		if !slices.Contains(s.m.loop.cfg.Validators, v) {
			s.abort("Artifact: the validator %q is not among Config.Validators: it is frozen with the run what it needs", v)
		}
	}
	step := events.StepPlanned{Op: events.OpArtifact, Name: text(a.Name), Parser: "text", Validators: a.Validators}
	if t, ok := a.Value.(string); ok {
		step.Text = text(t)
	} else {
		b, err := canonical.Marshal(a.Value)
		if err != nil {
			s.abort("Artifact: %s, a %T, cannot be encoded: %v", a.Name, a.Value, err)
		}
		step.Text, step.Parser = string(b), "json"
	}
	return versionOf(s.step("Artifact", step))
}

// text is s as it is recorded: what is no UTF-8 cannot be.
func text(s string) string { return strings.ToValidUTF8(s, "�") }

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

type submitFlags struct {
	in       runtime.Submit
	input    string
	agents   string
	deadline time.Duration
	delay    time.Duration
	notUntil string
	budget   string
	loop     string
	prompt   string
	wait     bool
	live     bool
	timeout  time.Duration
	output   string
}

func (a *app) submitCommand() *cobra.Command {
	var s submitFlags
	c := &cobra.Command{
		Use:   "submit",
		Short: "Queues a run; with --wait prints its result",
		Long: `Queues a run and returns once its row is committed. The same --key with the same
input is the same run, so a submission whose answer was lost can be sent again.

--wait waits until the run has ended or is parked. If an error stops the run and it is
tried again, it waits for the attempt that follows, and prints the last one.
--live shows on stderr what the model writes while it writes it, redacted; what is
recorded may differ, and is what is printed in the end.

Exit codes: 0 queued, or with --wait finished; 1 it could not be queued or waited for;
2 wrong usage; with --wait also 3 the run failed, 4 it was cancelled, 5 it is parked:
somebody or something has to come first (ledgerctl why RUN).`,
		Example: `  runner submit --dir .daybook --agent hello --input '"hi"' --key hello-1 --wait
  runner submit --postgres URL --nats URL --agent refunds --input @request.json --key R-001
  runner submit --dir .daybook --agent hello --input '"hi"' --key hello-2 --max-attempts 3 --delay 10m
  runner submit --dir .daybook --agent hello --input '"and then?"' --key ann-2 --session ann --continue --wait`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.submit(c.Context(), s) },
	}
	f := c.Flags()
	f.StringVar(&s.in.Agent, "agent", "", "agent that works on the run (required)")
	f.StringVar(&s.input, "input", "", "JSON, @FILE, or - for standard input (required)")
	f.StringVar(&s.agents, "agents", "", "folder with an AGENT.md in each subfolder: --input is held against the agent's input schema before anything is queued")
	f.StringVar(&s.in.ClientKey, "key", "", "client key: the same key is the same run (required)")
	f.StringVar(&s.in.Tenant, "tenant", "default", "tenant: letters, digits, - and _")
	f.StringVar(&s.in.Queue, "queue", "default", "queue")
	f.StringVar(&s.in.Owner, "owner", "", "on whose behalf the run is made")
	f.StringVar(&s.in.SessionID, "session", "", "session that the run belongs to: a scope of effects and memory, and with --continue a transcript")
	f.BoolVar(&s.in.Continue, "continue", false, "go on with the transcript of --session, after the runs that were submitted to it before")
	f.IntVar(&s.in.Priority, "priority", 0, "higher runs first")
	f.StringVar(&s.in.ConcurrencyKey, "concurrency-key", "", "runs with the same key count together for a queue's limit per key")
	f.IntVar(&s.in.MaxAttempts, "max-attempts", 0, "how often the run is tried in all when errors stop it; 0 means as its agent says")
	f.DurationVar(&s.delay, "delay", 0, "time from now before which no worker takes the run")
	f.StringVar(&s.notUntil, "not-before", "", "moment before which no worker takes the run, such as 2026-01-31T10:00:00Z")
	f.DurationVar(&s.deadline, "deadline", 0, "time from now after which the run is stopped; 0 means none")
	f.StringVar(&s.budget, "budget", "", "US dollars that the run may spend in all, with its retries and children; default what its agent says")
	f.StringVar(&s.loop, "loop", "", `loop that the run works by: a name, or JSON with options such as {"strategy":"revise","max_revisions":1,"validators":["schema"]}; default its agent's`)
	f.StringVar(&s.prompt, "prompt", "", "text that the run is told after everything else that its agent says, @FILE, or - for standard input")
	f.BoolVar(&s.in.NoLayers, "no-layers", false, "leave out the layers that are put upon the agent's text: AGENTS.md, SYSTEM.md and the like")
	f.StringSliceVar(&s.in.Skills, "skill", nil, "skill of the agent that the run follows from the beginning (repeatable)")
	f.BoolVar(&s.wait, "wait", false, "wait until the run has ended or is parked, and print it")
	f.BoolVar(&s.live, "live", false, "with --wait: show on stderr what the model writes while it writes it")
	f.DurationVar(&s.timeout, "timeout", 0, "with --wait: give up waiting after this time; 0 means never")
	f.StringVarP(&s.output, "output", "o", "text", "text or json")
	return c
}

func (a *app) submit(ctx context.Context, s submitFlags) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	switch {
	case s.output != "text" && s.output != "json":
		return usagef("--output %q: want text or json", s.output)
	case s.in.Agent == "":
		return usagef("--agent is required: the name of the agent that works on the run")
	case s.in.ClientKey == "":
		return usagef("--key is required: the same for every try of the same submission, so that it is one run")
	case s.deadline < 0, s.timeout < 0, s.delay < 0:
		return usagef("--deadline, --delay and --timeout are times from now, such as 10m: want none that is negative")
	case s.in.Continue && s.in.SessionID == "":
		return usagef("--continue goes on with a session: name it with --session")
	case s.live && !s.wait:
		return usagef("--live shows the run while --wait waits for it: give both")
	case s.delay > 0 && s.notUntil != "":
		return usagef("--delay and --not-before exclude each other: from now, or a moment")
	}
	if s.notUntil != "" {
		if s.in.DueAt, err = time.Parse(time.RFC3339, s.notUntil); err != nil {
			return usagef("--not-before %q: want a moment such as 2026-01-31T10:00:00Z", s.notUntil)
		}
	}
	if s.budget != "" {
		s.in.Budget = new(events.PicoUSD)
		if err := s.in.Budget.UnmarshalText([]byte(s.budget)); err != nil || *s.in.Budget < 0 {
			return usagef("--budget %q: want US dollars such as 0.50", s.budget)
		}
	}
	if s.in.Loop, err = readLoop(s.loop); err != nil {
		return err
	}
	if s.in.Prompt, err = a.readPrompt(s.prompt, s.input); err != nil {
		return err
	}
	raw, err := a.readInput(s.input)
	if err != nil {
		return err
	}
	if s.agents != "" {
		if err := checkInput(ctx, s.agents, s.in.Agent, s.input, raw); err != nil {
			return err
		}
	}
	// The time bounds what is waited for, not the submission itself: that was
	// either made or not.
	wait := ctx
	if s.wait && s.timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not within --timeout %s", s.timeout))
		defer cancel()
	}
	o, err := a.openLedger(wait, log, s.wait)
	if err != nil {
		return fmt.Errorf("nothing was queued: %w", err)
	}
	st, red := o.store, o.redactor
	defer st.Close()
	var waker runtime.Waker
	if a.opts.NATS != "" {
		w, done, err := system.Waker(a.opts.NATS)
		if err != nil {
			log.Warn("no wake-up: the run starts at the next sweep", "error", red.Error(err))
		} else {
			defer done()
			waker = w
		}
	}
	client := runtime.NewClient(st, red, waker)
	s.in.Input = raw
	if s.deadline > 0 {
		s.in.Deadline = time.Now().Add(s.deadline)
	}
	if s.delay > 0 {
		s.in.DueAt = time.Now().Add(s.delay)
	}
	r, existed, err := client.Submit(ctx, s.in)
	switch {
	case errors.Is(err, runtime.ErrInvalidSubmit):
		return usageError{err}
	case err != nil:
		return fmt.Errorf("submit with key %q: %w", s.in.ClientKey, err)
	}
	if s.wait {
		id := r.ID
		if s.live {
			r, err = a.watchRetries(wait, client, r)
		} else {
			r, err = client.WaitRetries(wait, id, true)
		}
		if err != nil {
			if wait.Err() != nil {
				err = context.Cause(wait)
			}
			return fmt.Errorf("stopped waiting for run %s, which goes on (see ledgerctl runs show %s): %w", id, id, err)
		}
	}
	if err := a.printRun(r, existed, s.output); err != nil {
		return err
	}
	if s.wait {
		return outcome(r)
	}
	return nil
}

// readPrompt reads --prompt: a text, @FILE, or - for standard input.
func (a *app) readPrompt(s, input string) (string, error) {
	var b []byte
	var err error
	switch {
	case s == "-" && input == "-":
		return "", usagef("--prompt and --input cannot both be standard input: write one into a file and give it as @FILE")
	case s == "-":
		b, err = io.ReadAll(io.LimitReader(a.in, prompt.MaxBytes+1))
	case strings.HasPrefix(s, "@"):
		b, err = pathtrust.Read(s[1:], prompt.MaxBytes)
	default:
		b = []byte(s)
	}
	if err != nil {
		return "", usagef("--prompt: %w", err)
	}
	text, err := prompt.Text(b)
	switch {
	case err != nil:
		return "", usagef("--prompt: %w", err)
	case s != "" && strings.TrimSpace(text) == "":
		return "", usagef("--prompt: it is empty; leave the flag out, or write what the run is to be told")
	}
	return strings.TrimSpace(text), nil
}

// readLoop reads --loop: a name, or an object.
func readLoop(s string) (sel loops.Selection, err error) {
	switch {
	case s == "":
		return sel, nil
	case s[0] != '{':
		return loops.Selection{Strategy: s}, nil
	}
	if err := json.Unmarshal([]byte(s), &sel); err != nil {
		return sel, usagef("--loop: %w", err)
	}
	return sel, nil
}

// outcome is what the exit code of --wait says of the run that was waited for.
func outcome(r ledger.Run) error {
	code, text := 0, r.Error
	switch r.State {
	case ledger.Failed:
		code = exitRunFailed
	case ledger.Cancelled:
		code, text = exitRunCancelled, r.CancelReason
	case ledger.Parked:
		code, text = exitRunParked, string(r.ParkReason)
	default:
		return nil
	}
	return outcomeError{code, fmt.Sprintf("run %s %s: %s", r.ID, r.State, text)}
}

func (a *app) readInput(s string) (json.RawMessage, error) {
	var b []byte
	var err error
	what := "--input"
	switch {
	case s == "":
		return nil, usagef("--input is required: JSON, @FILE, or - for standard input")
	case s == "-":
		what = "standard input"
		b, err = io.ReadAll(a.in)
	case s[0] == '@':
		what = s[1:]
		b, err = os.ReadFile(what)
	default:
		b = []byte(s)
	}
	if err != nil {
		return nil, usagef("--input: %w", err)
	}
	if fault := jsonFault(b); fault != "" {
		return nil, usagef("%s is not JSON: %s: write a text as '\"text\"', an object as '{\"name\": \"value\"}'", what, fault)
	}
	return b, nil
}

// jsonFault says where and why b is no JSON value, or "".
func jsonFault(b []byte) string {
	var v any
	err := json.Unmarshal(b, &v)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &syntax) && syntax.Offset > 0:
		before := b[:min(int(syntax.Offset)-1, len(b))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return fmt.Sprintf("line %d, column %d: %v", line, column, err)
	default:
		return err.Error()
	}
}

// submitted is what submit prints as JSON.
type submitted struct {
	Run       string          `json:"run"`
	State     ledger.State    `json:"state"`
	Existed   bool            `json:"existed"`
	Attempt   int             `json:"attempt,omitempty"`
	RetryOf   string          `json:"retry_of,omitempty"`
	Parked    string          `json:"parked,omitempty"`
	StoppedBy string          `json:"stopped_by,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func (a *app) printRun(r ledger.Run, existed bool, output string) error {
	p := submitted{
		Run: r.ID.String(), State: r.State, Existed: existed, StoppedBy: string(r.StoppedBy), Result: r.Result, Error: r.Error,
	}
	if !r.RetryOf.IsZero() {
		p.Attempt, p.RetryOf = r.Attempt, r.RetryOf.String()
	}
	if r.State == ledger.Parked {
		p.Parked = string(r.ParkReason) + ": " + r.ParkDetail
	}
	if output == "json" {
		return json.NewEncoder(a.out).Encode(p)
	}
	fmt.Fprintf(a.out, "run %s %s", p.Run, p.State)
	if r.Attempt > 1 {
		fmt.Fprintf(a.out, " (attempt %d)", r.Attempt)
	}
	if existed {
		fmt.Fprint(a.out, " (this key was submitted before)")
	}
	for _, s := range []string{p.StoppedBy, p.Parked, p.Error} {
		if s != "" {
			fmt.Fprintf(a.out, ", %s", s)
		}
	}
	fmt.Fprintln(a.out)
	if len(r.Result) > 0 {
		fmt.Fprintf(a.out, "%s\n", r.Result)
	}
	return nil
}

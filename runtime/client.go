package runtime

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/trace"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/redact"
)

// ClientLedger is what a client needs of the ledger.
type ClientLedger interface {
	Submit(ctx context.Context, s ledger.Submission) (ledger.Run, bool, error)
	Run(ctx context.Context, id events.RunID) (ledger.Run, error)
	Cancel(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error)
	Fork(ctx context.Context, r ledger.ForkRequest) (ledger.Run, bool, error)
	Pause(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, bool, error)
	Resume(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error)
	TenantKey(ctx context.Context, tenant string) ([]byte, error)
	ledger.Signals
	ledger.Schedules
}

// Client submits runs and asks about them. Safe for concurrent use.
type Client struct {
	ledger   ClientLedger
	redactor *redact.Redactor
	waker    Waker
	// Poll is how often Wait looks. Zero means 100 ms.
	Poll time.Duration
}

// NewClient returns a client. waker may be nil: then workers find the run at their next sweep.
func NewClient(l ClientLedger, r *redact.Redactor, waker Waker) *Client {
	return &Client{ledger: l, redactor: r, waker: waker}
}

// Submit describes a run to be queued. Agent, Input and ClientKey are required.
type Submit struct {
	Tenant string // default "default"
	Queue  string // default "default"
	Agent  string
	// Input is encoded to JSON; a json.RawMessage is taken as it is.
	Input any
	// ClientKey makes the submission idempotent: the same key with the same
	// input is the same run.
	ClientKey string
	Owner     string
	// SessionID is the scope of effects and memory that the run shares with others of
	// that name.
	SessionID string
	// Continue has the run also share the transcript of the session: it goes on from
	// the last run of it that has ended, and waits until those before it have. A
	// session is its owner's: nobody else continues it.
	Continue bool
	Priority int
	DueAt    time.Time
	Deadline time.Time
	// ConcurrencyKey groups runs that the queue's limit per key counts together.
	ConcurrencyKey string
	// MaxAttempts is how often the run is tried in all when errors stop it; each
	// attempt is a run of its own. 0 = as the agent says, else once.
	MaxAttempts int
	// Trace is a W3C traceparent; default: the span in the context, else a new trace.
	Trace string
	// Budget is what the run may spend in all, with its retries, forks and
	// children; nil = what its agent says, which may be no limit.
	Budget *events.PicoUSD
	// Loop is the loop that the run, its retries and its forks work by, with its
	// options, instead of its agent's; zero = the agent's. One that a worker does not
	// know, or options that it refuses, fail the run before its first turn.
	Loop loops.Selection
	// Prompt is told to the run, its retries and its forks after everything else: a
	// layer of source run, which comes last and wins. Empty = nothing.
	Prompt string
	// NoLayers leaves out all layers that are configured for the agent. Its base text
	// stays, and so do skills.
	NoLayers bool
	// Skills are made active for the run, its retries and its forks, beside those
	// that always are. One that the agent does not have, or that needs a tool which
	// the run does not have by itself, fails the run before its first turn.
	Skills []string
}

func (in *Submit) asked() asked {
	return asked{Text: in.Prompt, NoLayers: in.NoLayers, Skills: in.Skills}
}

var (
	tenantName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

// ErrInvalidSubmit marks a submission that cannot become a run; its text says which field and what to write.
var ErrInvalidSubmit = errors.New("invalid submission")

// Submit queues a run and returns once its row is committed. existed is true
// when the client key was used before with the same input. Errors:
// [ErrInvalidSubmit], [ledger.ErrClientKeyConflict], [ledger.ErrSessionOwner],
// [ledger.ErrSessionErased], [ledger.ErrUnavailable].
func (c *Client) Submit(ctx context.Context, in Submit) (run ledger.Run, existed bool, err error) {
	def(&in.Tenant, "default")
	def(&in.Queue, "default")
	if err := in.check(); err != nil {
		return ledger.Run{}, false, err
	}
	if in.Trace == "" {
		in.Trace = newTrace(ctx)
	}
	sub, err := c.submission(ctx, in)
	if err != nil {
		return ledger.Run{}, false, err
	}
	run, existed, err = c.ledger.Submit(ctx, sub)
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("submit: %w", err)
	}
	if !existed && c.waker != nil {
		c.waker.Wake(in.Queue)
	}
	return run, existed, nil
}

// submission seals the input of what has been checked.
func (c *Client) submission(ctx context.Context, in Submit) (ledger.Submission, error) {
	raw, err := json.Marshal(in.Input)
	if err != nil {
		return ledger.Submission{}, fmt.Errorf("%w: input: %w", ErrInvalidSubmit, err)
	}
	key, err := c.ledger.TenantKey(ctx, in.Tenant)
	if err != nil {
		return ledger.Submission{}, fmt.Errorf("submit: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(in.Agent + "\x00"))
	mac.Write(raw)
	red := c.redactor.ForTenant(key)
	input, err := red.JSON(json.RawMessage(raw))
	if err != nil {
		return ledger.Submission{}, fmt.Errorf("%w: input: %w", ErrInvalidSubmit, err)
	}
	var loop redact.JSON
	if !in.Loop.IsZero() {
		raw, err := json.Marshal(in.Loop)
		if err == nil {
			mac.Write(append([]byte{0}, raw...)) // another loop is another run
			loop, err = red.JSON(json.RawMessage(raw))
		}
		if err != nil {
			return ledger.Submission{}, fmt.Errorf("%w: loop: %w", ErrInvalidSubmit, err)
		}
	}
	var prompt redact.JSON
	if asked := in.asked(); !asked.isZero() {
		raw, err := json.Marshal(asked)
		if err == nil {
			mac.Write(append([]byte{1}, raw...)) // another prompt is another run
			prompt, err = red.JSON(json.RawMessage(raw))
		}
		if err == nil && prompt.Len() > maxAsked {
			err = fmt.Errorf("it has %d bytes, at most %d: make it shorter", prompt.Len(), maxAsked)
		}
		if err != nil {
			return ledger.Submission{}, fmt.Errorf("%w: prompt: %w", ErrInvalidSubmit, err)
		}
	}
	requires := []string{Capability(in.Agent)}
	if in.Continue {
		mac.Write(append([]byte{2}, in.SessionID...)) // said in another conversation it is another run
		requires = append(requires, SessionCapability)
	}
	if input.Len() > events.MaxDataBytes/2 {
		return ledger.Submission{}, fmt.Errorf("%w: input has %d bytes, at most %d: store large values outside and pass a reference", ErrInvalidSubmit, input.Len(), events.MaxDataBytes/2)
	}
	return ledger.Submission{
		Tenant: in.Tenant, Queue: in.Queue, Agent: in.Agent, ClientKey: in.ClientKey, Input: input, InputMAC: mac.Sum(nil),
		Owner: in.Owner, SessionID: in.SessionID, Continue: in.Continue, Requires: requires, Priority: in.Priority,
		DueAt: in.DueAt, Deadline: in.Deadline, Trace: in.Trace, Budget: in.Budget,
		ConcurrencyKey: in.ConcurrencyKey, MaxAttempts: in.MaxAttempts, Loop: loop, Prompt: prompt,
	}, nil
}

// maxLoopOptions bounds what run_queued and run_started repeat.
const maxLoopOptions = 16 << 10

// maxAttempts bounds what a client may ask for.
const maxAttempts = 1000

func (in Submit) check() error {
	switch {
	case !tenantName.MatchString(in.Tenant):
		return fmt.Errorf("%w: tenant %q: want 1 to 64 letters, digits, - or _", ErrInvalidSubmit, in.Tenant)
	case in.Agent == "":
		return fmt.Errorf("%w: agent is empty: name the agent that works on the run", ErrInvalidSubmit)
	case in.ClientKey == "" || len(in.ClientKey) > 512:
		return fmt.Errorf("%w: client key has %d bytes: want 1 to 512, the same for every try of the same submission", ErrInvalidSubmit, len(in.ClientKey))
	case in.Input == nil:
		return fmt.Errorf("%w: input is missing", ErrInvalidSubmit)
	case in.Continue && in.SessionID == "":
		return fmt.Errorf("%w: there is no session to continue: name one", ErrInvalidSubmit)
	case len(in.SessionID) > 512:
		return fmt.Errorf("%w: session has %d bytes: want 512 at most", ErrInvalidSubmit, len(in.SessionID))
	case in.Budget != nil && *in.Budget < 0:
		return fmt.Errorf("%w: budget %s USD: want no negative amount", ErrInvalidSubmit, *in.Budget)
	case in.Loop.Strategy == "" && len(in.Loop.Options) > 0, len(in.Loop.Options) > maxLoopOptions:
		return fmt.Errorf("%w: loop %q with %d bytes of options: want a name, and %d bytes at most", ErrInvalidSubmit, in.Loop.Strategy, len(in.Loop.Options), maxLoopOptions)
	case in.asked().check() != nil:
		return fmt.Errorf("%w: prompt: %w", ErrInvalidSubmit, in.asked().check())
	case in.MaxAttempts < 0 || in.MaxAttempts > maxAttempts:
		return fmt.Errorf("%w: max attempts is %d: want 0 (as the agent says) to %d", ErrInvalidSubmit, in.MaxAttempts, maxAttempts)
	case in.Trace != "" && !traceparent.MatchString(in.Trace):
		return fmt.Errorf("%w: trace %q: want a W3C traceparent", ErrInvalidSubmit, in.Trace)
	}
	return nil
}

// newTrace is the traceparent of the span in ctx, or of a new trace, whose root is
// the run's own span.
func newTrace(ctx context.Context) string {
	if sc := oteltrace.SpanContextFromContext(ctx); sc.IsValid() {
		return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
	}
	p := trace.Parent{Flags: 1}
	_, _ = rand.Read(p.Trace[:]) // never fails
	p.Span = trace.Root(p.Trace)
	return p.String()
}

// Run returns a run or [ledger.ErrNotFound].
func (c *Client) Run(ctx context.Context, id events.RunID) (ledger.Run, error) {
	return c.ledger.Run(ctx, id)
}

// Cancel asks for the end of a run; it is cancelled once its worker confirms.
// Errors: [ledger.ErrNotFound], [ledger.ErrEnded].
func (c *Client) Cancel(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error) {
	r, err := c.ledger.Cancel(ctx, id, by, reason)
	if err == nil && c.waker != nil {
		c.waker.Wake(r.Queue)
	}
	return r, err
}

// Signal sends a message to a run: the call that waits for it gets it, else the
// model is told before its next answer. Errors: [ledger.ErrNotFound],
// [ledger.ErrEnded], [ledger.ErrSignalConflict], [events.ErrTooLarge].
func (c *Client) Signal(ctx context.Context, id events.RunID, s ledger.Signal) error {
	if err := c.ledger.Signal(ctx, id, s); err != nil {
		return err
	}
	if c.waker != nil {
		if r, err := c.ledger.Run(ctx, id); err == nil { // only a hint
			c.waker.Wake(r.Queue)
		}
	}
	return nil
}

// Wait returns the run once it has ended, or when parked is true also once it
// is parked and what it waits for has not come. It returns ctx's cause when that
// ends first.
func (c *Client) Wait(ctx context.Context, id events.RunID, parked bool) (ledger.Run, error) {
	poll := c.Poll
	def(&poll, 100*time.Millisecond)
	for {
		r, err := c.ledger.Run(ctx, id)
		switch {
		case err != nil && !errors.Is(err, ledger.ErrUnavailable):
			return ledger.Run{}, err
		case err == nil && (r.State.Ended() || parked && r.State == ledger.Parked && (r.ParkReason == events.ParkPaused || !c.wakes(ctx, id))):
			return r, nil
		}
		if err := sleep(ctx, poll); err != nil {
			return r, err
		}
	}
}

// wakes reports whether a parked run has something to go on with: a person has
// decided, or a signal has come, and no worker has taken it yet.
func (c *Client) wakes(ctx context.Context, id events.RunID) bool {
	l, ok := c.ledger.(interface {
		Pending(ctx context.Context, run events.RunID) ([]events.Fact, error)
	})
	if !ok {
		return false
	}
	fs, err := l.Pending(ctx, id)
	return err != nil || len(fs) > 0 // with the database away, look again
}

// WaitRetries is Wait, but goes on to the run that tries a failed one again.
func (c *Client) WaitRetries(ctx context.Context, id events.RunID, parked bool) (ledger.Run, error) {
	for {
		r, err := c.Wait(ctx, id, parked)
		if err != nil || r.Successor.IsZero() {
			return r, err
		}
		id = r.Successor
	}
}

// Pause holds a run back: its worker parks it after the act in hand, and nobody
// claims it. done is false if it was paused before; that pause stands.
// Errors: [ledger.ErrNotFound], [ledger.ErrEnded], [ledger.ErrCancelling].
func (c *Client) Pause(ctx context.Context, id events.RunID, by, reason string) (run ledger.Run, done bool, err error) {
	return c.ledger.Pause(ctx, id, by, reason)
}

// Resume lets a paused run go on.
// Errors: [ledger.ErrNotFound], [ledger.ErrEnded], [ledger.ErrNotPaused].
func (c *Client) Resume(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error) {
	r, err := c.ledger.Resume(ctx, id, by, reason)
	if err == nil && c.waker != nil {
		c.waker.Wake(r.Queue)
	}
	return r, err
}

package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// DefaultEscalation is how long [Escalate] waits for a person unless told otherwise.
const DefaultEscalation = 7 * 24 * time.Hour

// maxEscalation bounds a question and its background, in bytes each.
const maxEscalation = 16 << 10

// Escalation is a question that an agent hands to a person. Its texts are the
// redacted ones.
type Escalation struct {
	Run       events.RunID
	Call      events.CallID
	Tenant    string
	SessionID string
	// Token is under what the answer is given: ledgerctl complete TOKEN
	// --result ANSWER, or a completion over NATS. It is the same when the call is made again
	// after a crash, so that a second notice can be told from a second question.
	Token      events.ID
	Question   string
	Background string
	// Within is how long the run waits for an answer.
	Within time.Duration
}

// EscalateConfig is how [Escalate] reaches people.
type EscalateConfig struct {
	// OnEscalate tells a person, by mail, chat or a ticket. It may be called again
	// for the same Token after a crash. An error fails the call, and the run goes
	// on. Nil tells nobody: ledgerctl handoffs lists what waits.
	OnEscalate func(context.Context, Escalation) error
	// Within is how long the run waits; then the call fails, and the model goes on
	// without an answer. Zero means [DefaultEscalation].
	Within time.Duration
}

// Escalate returns escalate, with which the model hands a question back to a
// person. The run is parked until the answer comes, which is the call's result;
// it holds no worker meanwhile. The tool is pinned. See docs/decisions/0015.
func Escalate(cfg EscalateConfig) tools.Tool {
	if cfg.Within <= 0 {
		cfg.Within = DefaultEscalation
	}
	return must(tools.New(tools.Definition{
		Name: "escalate",
		Description: "Hands a question to a person and waits for the answer. Use it when you must not or cannot decide yourself: " +
			"a rule is unclear, something is wrong, or the matter is sensitive.",
		Aliases: []string{"human", "ask a person", "help", "supervisor", "hand over"},
		Pinned:  true,
		Effect:  tools.Idempotent,
		Trust:   tools.Own, // whoever may answer is one of the host's people
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Question   string `json:"question" jsonschema:"what the person is to decide or answer"`
		Background string `json:"background,omitempty" jsonschema:"what they need to know for it: they have not seen this conversation"`
	},
	) (tools.HandedOff, error) {
		var problems []string
		if blank(in.Question) {
			problems = append(problems, "question: it is empty")
		}
		if n := len(in.Question); n > maxEscalation {
			problems = append(problems, fmt.Sprintf("question: %d bytes, at most %d are allowed", n, maxEscalation))
		}
		if n := len(in.Background); n > maxEscalation {
			problems = append(problems, fmt.Sprintf("background: %d bytes, at most %d are allowed", n, maxEscalation))
		}
		if problems != nil {
			return tools.HandedOff{}, &tools.ArgumentError{Tool: "escalate", Problems: problems}
		}
		if cfg.OnEscalate != nil {
			err := cfg.OnEscalate(ctx, Escalation{
				Run: inv.Run, Call: inv.Call, Tenant: inv.Tenant, SessionID: inv.SessionID, Token: inv.Token,
				Question: in.Question, Background: in.Background, Within: cfg.Within,
			})
			if err != nil {
				return tools.HandedOff{}, fmt.Errorf("nobody could be told: %w", err)
			}
		}
		return tools.HandOff(cfg.Within), nil
	}))
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// queueView is one queue in JSON and tables.
type queueView struct {
	Queue        string     `json:"queue"`
	Queued       int64      `json:"queued"`
	Due          int64      `json:"due"`
	Tenants      int64      `json:"tenants"`
	Running      int64      `json:"running"`
	Parked       int64      `json:"parked"`
	Held         int64      `json:"held"`
	Behind       int64      `json:"behind"` // waits for the runs before it in its session
	Dead         int64      `json:"dead"`
	OldestDue    *time.Time `json:"oldest_due,omitempty"`
	OldestLease  *time.Time `json:"oldest_running,omitempty"`
	LapsedLease  *time.Time `json:"lapsed_lease,omitempty"`
	MaxRunning   int        `json:"max_running,omitempty"`
	MaxPerKey    int        `json:"max_per_key,omitempty"`
	Rate         string     `json:"rate,omitempty"`
	PausedAt     *time.Time `json:"paused_at,omitempty"`
	PausedBy     string     `json:"paused_by,omitempty"`
	PausedReason string     `json:"paused_reason,omitempty"`
}

func viewOfQueue(s ledger.QueueStats) queueView {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	v := queueView{
		Queue: s.Queue, Queued: s.Queued, Due: s.Due, Tenants: s.Tenants, Running: s.Running, Parked: s.Parked, Held: s.Held, Behind: s.Behind, Dead: s.Dead,
		OldestDue: at(s.OldestDue), OldestLease: at(s.OldestLease), LapsedLease: at(s.LapsedLease),
		MaxRunning: s.Limit.MaxRunning, MaxPerKey: s.Limit.MaxPerKey,
		PausedAt: at(s.Paused.At), PausedBy: s.Paused.By, PausedReason: s.Paused.Reason,
	}
	if s.Limit.Rate > 0 {
		v.Rate = fmt.Sprintf("%d/%s", s.Limit.Rate, telling.Period(s.Limit.Per))
	}
	return v
}

func (a *app) queuesCommand() *cobra.Command {
	c := group("queues", "Lists queues, limits and pauses them")
	c.AddCommand(a.queuesListCommand(), a.queuesLimitCommand(), a.queuesPauseCommand(), a.queuesResumeCommand(), a.queuesActsCommand())
	return c
}

func (a *app) queuesListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list [QUEUE]",
		Short: "Lists queues: what waits, since when, what runs, limits",
		Long: `Lists queues: what waits, since when, what runs, limits.

queued      not begun; of these, due could be taken now but for limits and pauses
waits       how long the run has been due that has been so longest
runs for    how long the run has been going that has been so longest
dead        failed, and nothing tries them again (ledgerctl runs dead)`,
		Example: `  ledgerctl queues list
  ledgerctl queues list refunds -o json | jq .[0].oldest_due`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s wants at most one queue, got %d", c.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				stats, err := st.QueueStats(ctx, strings.Join(args, ""))
				if err != nil {
					return err
				}
				views := make([]queueView, len(stats))
				for i, s := range stats {
					views[i] = viewOfQueue(s)
				}
				return list(a, views, a.queueColumns(), "no queues: nothing waits or runs, and nothing is limited")
			})
		},
	}
	listFlags[queueView](a, c)
	return c
}

func (a *app) queueColumns() []column[queueView] {
	number := func(name string, f func(queueView) int64) column[queueView] {
		return column[queueView]{name: name, keep: true, right: true, text: func(v queueView) string { return strconv.FormatInt(f(v), 10) }}
	}
	since := func(name, raw string, f func(queueView) *time.Time) []column[queueView] {
		return []column[queueView]{
			{name: name, keep: true, right: true, only: true, text: func(v queueView) string {
				if f(v) == nil {
					return "-"
				}
				return a.age(*f(v))
			}},
			{name: raw, mixed: true, text: func(queueView) string { return "" }, raw: func(v queueView) string {
				if f(v) == nil {
					return ""
				}
				return exact(*f(v))
			}},
		}
	}
	cols := []column[queueView]{{name: "queue", keep: true, text: func(v queueView) string { return v.Queue }}}
	cols = append(cols, number("queued", func(v queueView) int64 { return v.Queued }), number("due", func(v queueView) int64 { return v.Due }))
	cols = append(cols, since("waits", "oldest_due", func(v queueView) *time.Time { return v.OldestDue })...)
	cols = append(cols, number("running", func(v queueView) int64 { return v.Running }))
	cols = append(cols, since("runs_for", "oldest_running", func(v queueView) *time.Time { return v.OldestLease })...)
	cols = append(cols, number("parked", func(v queueView) int64 { return v.Parked }),
		number("held", func(v queueView) int64 { return v.Held }), number("dead", func(v queueView) int64 { return v.Dead }))
	return append(cols, column[queueView]{name: "limits", want: 24, text: a.queueWords})
}

// queueWords say what bounds a queue, and what is wrong with it.
func (a *app) queueWords(v queueView) string {
	var parts []string
	if v.Behind > 0 {
		parts = append(parts, fmt.Sprintf("%s behind others of their session", plural(v.Behind, "run")))
	}
	if v.PausedAt != nil {
		parts = append(parts, fmt.Sprintf("paused %s ago by %s: %s", a.age(*v.PausedAt), v.PausedBy, v.PausedReason))
	}
	if v.LapsedLease != nil {
		parts = append(parts, fmt.Sprintf("a lease ran out %s ago", a.age(*v.LapsedLease)))
	}
	if v.MaxRunning > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", v.MaxRunning))
	}
	if v.MaxPerKey > 0 {
		parts = append(parts, fmt.Sprintf("%d per key", v.MaxPerKey))
	}
	if v.Rate != "" {
		parts = append(parts, v.Rate)
	}
	return strings.Join(parts, ", ")
}

func (a *app) queuesLimitCommand() *cobra.Command {
	var l ledger.QueueLimit
	var rate string
	var f acting
	c := &cobra.Command{
		Use:   "limit QUEUE",
		Short: "Sets all limits of a queue; what is not given is no limit",
		Long: `Sets all limits of a queue; what is not given is no limit. They hold over all workers.
A run that has begun counts, and is never refused: only new ones wait.
` + whoActs,
		Example: `  ledgerctl queues limit refunds --max-running 20 --max-per-key 1 --rate 100/1m
  ledgerctl queues limit refunds                # no limits any more`,
		Args: oneArg("a queue"),
		RunE: func(c *cobra.Command, args []string) error {
			if l.MaxRunning < 0 || l.MaxPerKey < 0 {
				return usagef("a limit is a number from 0 (none) up")
			}
			if rate != "" {
				n, per, ok := strings.Cut(rate, "/")
				count, nerr := strconv.Atoi(n)
				d, derr := time.ParseDuration(per)
				if !ok || nerr != nil || derr != nil || count < 1 || d <= 0 {
					return usagef("--rate %q: want starts per time, such as 10/1m", rate)
				}
				l.Rate, l.Per = count, d
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				by, err := a.actor(ctx, st, f)
				if err != nil {
					return err
				}
				if err := st.LimitQueue(ctx, args[0], l, by); err != nil {
					return err
				}
				words := a.queueWords(viewOfQueue(ledger.QueueStats{Queue: args[0], Limit: l}))
				if words == "" {
					words = "no limits"
				}
				_, err = fmt.Fprintf(a.out, "queue %s: %s\n", clean(args[0]), words)
				return err
			})
		},
	}
	fs := c.Flags()
	fs.IntVar(&l.MaxRunning, "max-running", 0, "runs held at once")
	fs.IntVar(&l.MaxPerKey, "max-per-key", 0, "runs held at once with the same concurrency key")
	fs.StringVar(&rate, "rate", "", "starts in any time of a length, such as 10/1m")
	f.person(c)
	a.changes(c)
	return c
}

// queueCommand is a command that a person does something to a queue with; what
// do returns is printed.
func (a *app) queueCommand(verb, short, why string, do func(ctx context.Context, st ledger.Store, queue, by, reason string) (string, error)) *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:     verb + " QUEUE",
		Short:   short,
		Long:    short + ".\n" + whoActs,
		Example: fmt.Sprintf("  ledgerctl queues %s refunds --reason %q", verb, why),
		Args:    oneArg("a queue"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				by, err := a.actor(ctx, st, f)
				if err != nil {
					return err
				}
				said, err := do(ctx, st, args[0], by, f.reason)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "queue %s %s\n", clean(args[0]), said)
				return err
			})
		},
	}
	f.add(c)
	a.changes(c)
	return c
}

func (a *app) queuesPauseCommand() *cobra.Command {
	return a.queueCommand("pause", "Stops the starting of runs; what has begun goes on", "the provider is down",
		func(ctx context.Context, st ledger.Store, queue, by, reason string) (string, error) {
			p, done, err := st.PauseQueue(ctx, queue, by, reason)
			if !done {
				return fmt.Sprintf("is paused already since %s, by %s: %s", a.since(p.At), clean(p.By), clean(p.Reason)), err
			}
			return "starts nothing any more; to let it go on: " + a.command("queues", "resume", queue, "--reason", "TEXT"), nil
		})
}

func (a *app) queuesResumeCommand() *cobra.Command {
	return a.queueCommand("resume", "Lets a paused queue start runs again", "it is back",
		func(ctx context.Context, st ledger.Store, queue, by, reason string) (string, error) {
			return "starts runs again", st.ResumeQueue(ctx, queue, by, reason)
		})
}

func (a *app) queuesActsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "acts QUEUE",
		Short:   "Lists who limited, paused and resumed a queue, latest first",
		Example: `  ledgerctl queues acts refunds`,
		Args:    oneArg("a queue"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.listActs(c.Context(), "queue", args[0], "nobody has limited or paused it")
		},
	}
	listFlags[actView](a, c)
	return c
}

func (a *app) listActs(ctx context.Context, kind, name, none string) error {
	return a.withLedger(ctx, func(st ledger.Store) error {
		acts, err := st.Acts(ctx, kind, name, 100)
		if err != nil {
			return err
		}
		return list(a, viewsOfActs(acts), actColumns(), none)
	})
}

type actView struct {
	At     time.Time `json:"at"`
	Verb   string    `json:"verb"`
	By     string    `json:"by"`
	Detail string    `json:"detail,omitempty"`
}

func viewsOfActs(acts []ledger.Act) []actView {
	out := make([]actView, len(acts))
	for i, a := range acts {
		out[i] = actView{At: a.At, Verb: a.Verb, By: a.By, Detail: a.Detail}
	}
	return out
}

func actColumns() []column[actView] {
	return []column[actView]{
		{name: "at", keep: true, text: func(v actView) string { return stamp(v.At) }, raw: func(v actView) string { return exact(v.At) }},
		{name: "verb", keep: true, text: func(v actView) string { return v.Verb }},
		{name: "by", keep: true, text: func(v actView) string { return v.By }},
		{name: "detail", want: 24, text: func(v actView) string { return v.Detail }},
	}
}

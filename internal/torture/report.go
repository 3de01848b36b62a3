package torture

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is what a torture came to. Its JSON names are a contract.
type Report struct {
	// Void: too few faults or too little traffic to have shown anything.
	Void    bool    `json:"void"`
	WhyVoid string  `json:"why_void,omitempty"`
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"` // under fire
	TTL     float64 `json:"lease_ttl_seconds"`
	Dir     string  `json:"dir"`

	Embedded bool   `json:"embedded"`
	Faults   Faults `json:"faults"`
	// Trouble is what the provider did by itself: requests dropped, or failed
	// although they took effect.
	Dropped int `json:"provider_dropped"`
	Lied    int `json:"provider_failed_after_effect"`

	Runs             int `json:"runs"`
	Finished         int `json:"finished"`
	ModelCalls       int `json:"model_calls"`
	ToolCalls        int `json:"tool_calls"`
	DestructiveCalls int `json:"destructive_calls"`
	Repeated         int `json:"repeated"`
	Takeovers        int `json:"takeovers"`
	Events           int `json:"events"`

	ProviderEffects int `json:"provider_effects"`
	// What must be zero.
	DuplicateEffects int `json:"duplicate_effects"`
	ToldDoneButNot   int `json:"told_done_but_not"`
	ToldFailedButIs  int `json:"told_failed_but_done"`
	UnknownEffects   int `json:"effects_without_attempt"` // at the provider, not in the ledger
	Lost             int `json:"lost_runs"`
	Stuck            int `json:"stuck_runs"`
	Failed           int `json:"failed_runs"`
	Tampered         int `json:"tampered"`
	Incomplete       int `json:"incomplete"`
	BilledWithoutRow int `json:"billed_without_row"`
	BilledWrong      int `json:"billed_wrong"`
	BilledTwice      int `json:"billed_twice"`
	OnlyInLedger     int `json:"billed_only_in_ledger"`

	// In doubt when everything was at rest: the provider's log says which of them happened.
	InDoubtHappened int `json:"in_doubt_happened"`
	InDoubtNot      int `json:"in_doubt_did_not"`

	Bills     int    `json:"bills"`
	Unsettled int    `json:"bills_unsettled"` // billed, and shown as an attempt without an outcome
	Invoice   string `json:"invoice_usd"`
	Ledger    string `json:"ledger_usd"`

	TakeoverP50 float64 `json:"takeover_p50_seconds"` // from the kill of a worker, with no other fault before; -1 = none seen
	TakeoverP99 float64 `json:"takeover_p99_seconds"`
	Timed       int     `json:"takeovers_timed"`
	// How old an event was when the feed brought it, its row being committed:
	// under fire, and in the calms between. -1 = not measured.
	LagP50     float64 `json:"feed_lag_p50_seconds"`
	LagP99     float64 `json:"feed_lag_p99_seconds"`
	CalmLagP50 float64 `json:"feed_lag_calm_p50_seconds"`
	CalmLagP99 float64 `json:"feed_lag_calm_p99_seconds"`
	// From the last fault before a calm until no event was over 2 s late any more.
	CaughtUpP50   float64 `json:"feed_caught_up_p50_seconds"`
	CaughtUpMax   float64 `json:"feed_caught_up_max_seconds"`
	RestSeconds   float64 `json:"rest_seconds"`   // from the last fault until all runs were at rest
	FeedSeconds   float64 `json:"feed_seconds"`   // from when all had ended until every event was folded and fed
	VerifySeconds float64 `json:"verify_seconds"` // for all events

	// Findings name what is wrong, the first of each kind.
	Findings []string `json:"findings,omitempty"`
}

// Floors below which a torture shows nothing, per second under fire.
const (
	faultsPerSecond = 1.0 / 8
	runsPerSecond   = 1.0 / 2
	minFaults       = 3
	minKills        = 1
	minRuns         = 10
)

// Passed reports whether everything that must be zero is, and the torture shows something.
func (r *Report) Passed() bool { return !r.Void && r.wrong() == 0 }

func (r *Report) wrong() int {
	return r.DuplicateEffects + r.ToldDoneButNot + r.ToldFailedButIs + r.UnknownEffects + r.Lost + r.Stuck + r.Failed +
		r.Tampered + r.Incomplete + r.BilledWithoutRow + r.BilledWrong + r.BilledTwice + r.OnlyInLedger
}

func (r *Report) judgeFloors(runs int, all bool) {
	need := func(ok bool, format string, args ...any) {
		if !ok && !r.Void {
			r.Void, r.WhyVoid = true, fmt.Sprintf(format, args...)
		}
	}
	faults := max(minFaults, int(faultsPerSecond*r.Seconds))
	need(r.Faults.total() >= faults, "%d faults in %.0f s, want %d or more", r.Faults.total(), r.Seconds, faults)
	need(!all || r.Faults.WorkerKills >= minKills, "no worker was killed")
	want := max(minRuns, int(runsPerSecond*r.Seconds))
	if runs > 0 {
		want = min(want, runs)
	}
	need(r.Runs >= want, "%d runs in %.0f s, want %d or more", r.Runs, r.Seconds, want)
	need(r.ProviderEffects > 0, "nothing happened at the provider")
	need(!all || r.Takeovers > 0, "no run was taken over")
}

// note keeps the first few findings of each kind.
func (r *Report) note(kind *int, format string, args ...any) {
	if *kind++; *kind <= 3 {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// Headline is the one line to remember.
func (r *Report) Headline() string {
	switch {
	case r.wrong() > 0:
		return fmt.Sprintf("FAILED: %d findings. This is a bug in Daybook: please report it with %s.", r.wrong(), r.Dir)
	case r.Void:
		return "VOID: " + r.WhyVoid + "; it shows nothing."
	}
	return fmt.Sprintf("Passed: %d faults, %d runs, %d effects; nothing twice, nothing lost, nothing stuck.", r.Faults.total(), r.Runs, r.ProviderEffects)
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n", r.Headline())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	f := r.Faults
	system := "PostgreSQL and NATS"
	if r.Embedded {
		system = "embedded (SQLite)"
	}
	line("system", "%s, lease TTL %.1f s, seed %d, %.0f s under fire", system, r.TTL, r.Seed, r.Seconds)
	line("workers", "%d killed, %d paused past their lease, %d restarted", f.WorkerKills, f.WorkerPauses, f.WorkerRestarts)
	if !r.Embedded {
		line("projectors", "%d killed, %d paused", f.ProjectorKills, f.ProjectorPauses)
		line("NATS", "%d killed, %d paused", f.NATSKills, f.NATSPauses)
		line("PostgreSQL", "%d killed, %d stopped, %d paused", f.PostgresKills, f.PostgresStops, f.PostgresPauses)
		line("", "%d power cuts, %d consumers and %d feeds deleted", f.PowerCuts, f.ConsumerDeleted, f.FeedDeleted)
	}
	line("provider", "%d requests dropped, %d failed although they took effect", r.Dropped, r.Lied)
	line("", "")
	line("runs", "%d, %d finished, %d takeovers", r.Runs, r.Finished, r.Takeovers)
	line("calls", "%d model calls, %d tool calls, %d of them destructive, %d answered with an earlier result", r.ModelCalls, r.ToolCalls, r.DestructiveCalls, r.Repeated)
	line("effects at the provider", "%d", r.ProviderEffects)
	line("in doubt at the end", "%d: %d had happened, %d had not", r.InDoubtHappened+r.InDoubtNot, r.InDoubtHappened, r.InDoubtNot)
	line("", "")
	line("duplicate effects", "%d", r.DuplicateEffects)
	line("told done, and is not", "%d", r.ToldDoneButNot)
	line("told failed, and is done", "%d", r.ToldFailedButIs)
	line("effects without attempt", "%d", r.UnknownEffects)
	line("lost runs", "%d", r.Lost)
	line("stuck runs", "%d", r.Stuck)
	line("failed runs", "%d", r.Failed)
	line("verify", "%d tampered, %d incomplete, of %d events", r.Tampered, r.Incomplete, r.Events)
	line("invoice", "%d lines, %s USD: %d without a row, %d with another amount, %d twice, %d unsettled; ledger %s USD",
		r.Bills, r.Invoice, r.BilledWithoutRow, r.BilledWrong, r.BilledTwice, r.Unsettled, r.Ledger)
	line("", "")
	line("takeover after a kill", "p50 %s, p99 %s, of %d with no other fault before", seconds(r.TakeoverP50), seconds(r.TakeoverP99), r.Timed)
	line("feed behind", "under fire p50 %s, p99 %s; in calms p50 %s, p99 %s", seconds(r.LagP50), seconds(r.LagP99), seconds(r.CalmLagP50), seconds(r.CalmLagP99))
	line("", "caught up after the last fault before a calm: p50 %s, at most %s", seconds(r.CaughtUpP50), seconds(r.CaughtUpMax))
	line("at rest after the last fault", "%s; all ended, folded and fed %s later; verified in %s", seconds(r.RestSeconds), seconds(r.FeedSeconds), seconds(r.VerifySeconds))
	line("kept in", "%s", r.Dir)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Findings) > 0 {
		fmt.Fprintf(out, "\nFindings:\n  %s\n", strings.Join(r.Findings, "\n  "))
	}
	return nil
}

func seconds(s float64) string {
	if s < 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.2f s", s)
}

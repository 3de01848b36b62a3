package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) artifactsCommand() *cobra.Command {
	c := group("artifacts", "Lists the versions of artifacts, shows and compares them")
	c.AddCommand(a.artifactsListCommand(), a.artifactsShowCommand(), a.artifactsDiffCommand())
	return c
}

// versionView is a version of an artifact.
type versionView struct {
	Run       events.RunID           `json:"run"`
	Seq       uint64                 `json:"seq"`
	Tenant    string                 `json:"tenant"`
	Artifact  string                 `json:"artifact"`
	Revision  int                    `json:"revision"`
	Turn      int                    `json:"turn"`
	Verdict   string                 `json:"verdict"`
	Validator string                 `json:"validator,omitempty"`
	Issues    []events.ArtifactIssue `json:"issues"`
	Content   events.Hash            `json:"content,omitzero"`
	Bytes     int64                  `json:"bytes"`
	At        time.Time              `json:"at"`
}

func newVersionView(v ledger.ArtifactVersion) versionView {
	out := versionView{
		Run: v.Run, Seq: v.Seq, Tenant: v.Tenant, Artifact: v.Name, Revision: v.Revision, Turn: v.Turn, Verdict: v.Verdict,
		Validator: v.Validator, Issues: []events.ArtifactIssue{}, Content: v.Content, Bytes: v.Bytes, At: v.At,
	}
	_ = json.Unmarshal(v.Issues, &out.Issues) // written by the fold, which verify compares
	return out
}

var verdicts = [...]string{ledger.VersionAccepted, ledger.VersionRefused, ledger.VersionNone}

type artifactsFlags struct {
	filter ledger.ArtifactFilter
	run    string
	agent  string
	queued queuedIn
	page   page
}

func (a *app) artifactsListCommand() *cobra.Command {
	var f artifactsFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists the versions of artifacts that were judged, newest first",
		Long: `Lists the versions of artifacts that were judged, newest first. Revision 0 is the model's
first answer. A verdict is accepted, refused, or none: then the host's code failed, and
the run with it.`,
		Example: `  ledgerctl artifacts list --run 7W6X5Y
  ledgerctl artifacts list --name release-notes --verdict refused -o jsonl`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.artifactsList(c, args, f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.run, "run", "", "run")
	fs.StringVar(&f.filter.Name, "name", "", "name of the artifact")
	fs.StringVar(&f.filter.Verdict, "verdict", "", "one of "+strings.Join(verdicts[:], ", "))
	fs.StringVar(&f.filter.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.filter.Owner, "owner", "", "owner of the run")
	fs.StringVar(&f.agent, "agent", "", "agent of the run")
	f.queued.add(c)
	f.page.add(c, "this RUN/SEQ")
	listFlags[versionView](a, c)
	_ = c.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions(verdicts[:], cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) artifactsList(c *cobra.Command, args []string, f artifactsFlags) error {
	if err := f.page.check(); err != nil {
		return err
	}
	if v := f.filter.Verdict; v != "" && !slices.Contains(verdicts[:], v) {
		return usagef("--verdict %q: want one of %s", v, strings.Join(verdicts[:], ", "))
	}
	from, before, err := f.queued.bounds(a)
	if err != nil {
		return err
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		if f.filter.Run, f.filter.BeforeRun, f.filter.BeforeSeq, err = a.rowsOf(ctx, st, f.run, f.page); err != nil {
			return err
		}
		if b := before; !b.IsZero() && lower(f.filter.BeforeRun, b) == b {
			f.filter.BeforeRun, f.filter.BeforeSeq = b, 0
		}
		return listPage(a, c, args, f.page, lister[ledger.ArtifactVersion, versionView]{
			read: func(n int, after *ledger.ArtifactVersion) ([]ledger.ArtifactVersion, error) {
				q := f.filter
				if q.Limit = n; after != nil {
					q.BeforeRun, q.BeforeSeq = after.Run, after.Seq
				}
				return st.Artifacts(ctx, q)
			},
			past:  func(v ledger.ArtifactVersion) bool { return string(v.Run[:]) < string(from[:]) },
			keep:  byAgent(ctx, st, f.agent, func(v ledger.ArtifactVersion) events.RunID { return v.Run }),
			view:  func(v ledger.ArtifactVersion) (versionView, error) { return newVersionView(v), nil },
			place: func(v ledger.ArtifactVersion) string { return v.Run.String() + "/" + strconv.FormatUint(v.Seq, 10) },
		}, a.versionColumns(), "no such artifacts")
	})
}

func (a *app) versionColumns() []column[versionView] {
	return []column[versionView]{
		{name: "run", keep: true, text: func(v versionView) string { return v.Run.String() }},
		{name: "artifact", want: 16, text: func(v versionView) string { return v.Artifact }},
		{name: "revision", keep: true, right: true, text: func(v versionView) string { return strconv.Itoa(v.Revision) }},
		{name: "age", keep: true, right: true, only: true, text: func(v versionView) string { return a.age(v.At) }, at: func(v versionView) time.Time { return v.At }},
		{name: "at", mixed: true, text: func(versionView) string { return "" }, raw: func(v versionView) string { return exact(v.At) }},
		{name: "verdict", keep: true, text: func(v versionView) string { return v.Verdict }, style: func(v versionView) style { return verdictStyle(v.Verdict) }},
		{name: "bytes", keep: true, right: true, drop: 1, text: func(v versionView) string { return strconv.FormatInt(v.Bytes, 10) }},
		{name: "content", keep: true, drop: 2, text: func(v versionView) string { return either("", shortKey(v.Content)) }, raw: func(v versionView) string {
			if v.Content.IsZero() {
				return ""
			}
			return v.Content.String()
		}},
		{name: "tenant", mixed: true, drop: 4, text: func(v versionView) string { return v.Tenant }},
		{name: "what", want: 24, text: versionWhat},
	}
}

func verdictStyle(v string) style {
	if v == ledger.VersionNone {
		return red
	}
	return plain
}

// versionWhat says in a few words what was wrong with a version.
func versionWhat(v versionView) string {
	if len(v.Issues) == 0 {
		return ""
	}
	first := either(": ", v.Issues[0].Path, v.Issues[0].Message)
	if n := len(v.Issues) - 1; n > 0 {
		first += fmt.Sprintf(" (and %d more)", n)
	}
	return either(": ", v.Validator, first)
}

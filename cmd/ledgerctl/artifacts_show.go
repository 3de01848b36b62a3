package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

// newest is the revision that a command takes if none is given.
const newest = -1

func (a *app) artifactsShowCommand() *cobra.Command {
	var name string
	var revision int
	var content bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Shows a version of a run's artifact: the verdict, what was wrong, the content",
		Long: `Shows a version of a run's artifact: the accepted one, or the last one that was judged,
unless --revision says which. With --content it prints the bytes as they are stored.`,
		Example: `  ledgerctl artifacts show 7W6X5Y
  ledgerctl artifacts show 7W6X5Y --revision 0 --content > first.json`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				v, err := a.findVersion(ctx, st, args[0], name, revision)
				if err != nil {
					return err
				}
				if content {
					b, err := a.versionContent(ctx, st, v)
					if err == nil {
						_, err = a.out.Write(b)
					}
					return err
				}
				return a.printVersion(ctx, st, v)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the artifact, if the run has several")
	c.Flags().IntVar(&revision, "revision", newest, "revision, from 0; -1 = the accepted one, else the last")
	c.Flags().BoolVar(&content, "content", false, "print only the content, byte for byte")
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) artifactsDiffCommand() *cobra.Command {
	var name string
	var from, to int
	c := &cobra.Command{
		Use:   "diff RUN",
		Short: "Compares two versions of a run's artifact, line by line",
		Long: `Compares two versions of a run's artifact, line by line: the last two that have a content,
unless --from and --to say which. Versions that are the same give nothing.`,
		Example: `  ledgerctl artifacts diff 7W6X5Y
  ledgerctl artifacts diff 7W6X5Y --from 0 --to 2`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error { return a.artifactsDiff(ctx, st, args[0], name, from, to) })
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the artifact, if the run has several")
	c.Flags().IntVar(&from, "from", newest, "revision to compare, from 0; -1 = the one before --to")
	c.Flags().IntVar(&to, "to", newest, "revision to compare with; -1 = the last")
	return c
}

// versions are those of one artifact of a run, oldest first.
func (a *app) versions(ctx context.Context, st ledger.Store, run, name string) ([]versionView, error) {
	r, err := a.readRun(ctx, st, run)
	if err != nil {
		return nil, err
	}
	rows, err := st.Artifacts(ctx, ledger.ArtifactFilter{Run: r.ID, Name: name, Limit: maxPage})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		if name != "" {
			return nil, fmt.Errorf("run %s has no artifact %q: %s shows what it has", r.ID, name, a.command("artifacts", "list", "--run", r.ID.String()))
		}
		return nil, fmt.Errorf("run %s has no artifacts (%s)", r.ID, a.command("why", r.ID.String()))
	}
	vs := make([]versionView, len(rows))
	for i, v := range rows {
		vs[len(rows)-1-i] = newVersionView(v)
		if v.Name != rows[0].Name {
			return nil, usagef("run %s has the artifacts %q and %q: say which with --name", r.ID, rows[0].Name, v.Name)
		}
	}
	return vs, nil
}

// findVersion is the revision asked for, or the accepted or last one.
func (a *app) findVersion(ctx context.Context, st ledger.Store, run, name string, revision int) (versionView, error) {
	vs, err := a.versions(ctx, st, run, name)
	if err != nil {
		return versionView{}, err
	}
	if revision == newest {
		for _, v := range vs {
			if v.Verdict == ledger.VersionAccepted {
				return v, nil
			}
		}
		return vs[len(vs)-1], nil
	}
	return a.revisionOf(vs, revision)
}

func (a *app) revisionOf(vs []versionView, revision int) (versionView, error) {
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].Revision == revision {
			return vs[i], nil
		}
	}
	return versionView{}, fmt.Errorf("run %s has no revision %d of %s: it has %d to %d", vs[0].Run, revision, vs[0].Artifact, vs[0].Revision, vs[len(vs)-1].Revision)
}

func (a *app) versionContent(ctx context.Context, st ledger.Store, v versionView) ([]byte, error) {
	if v.Content.IsZero() {
		return nil, fmt.Errorf("revision %d of %s has no content: %s", v.Revision, v.Artifact, versionWhat(v))
	}
	b, _, err := st.Blob(ctx, v.Tenant, v.Content)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("content %s of revision %d of %s is gone", v.Content, v.Revision, v.Artifact)
	}
	return b, err
}

func (a *app) printVersion(ctx context.Context, st ledger.Store, v versionView) error {
	if a.output != formatTable {
		return a.json(v)
	}
	content := ""
	if !v.Content.IsZero() {
		content = v.Content.String()
	}
	a.fields([]field{
		{"artifact", v.Artifact},
		{"run", v.Run.String()},
		{"revision", strconv.Itoa(v.Revision)},
		{"verdict", either(" by ", v.Verdict, v.Validator)},
		{"turn", strconv.Itoa(v.Turn)},
		{"at", a.since(v.At)},
		{"bytes", strconv.FormatInt(v.Bytes, 10)},
		{"content", content},
	})
	if len(v.Issues) > 0 {
		a.section("issues")
		for _, i := range v.Issues {
			fmt.Fprintln(a.out, clean(either(": ", i.Path, i.Message)))
		}
	}
	if v.Content.IsZero() {
		return nil
	}
	b, err := a.versionContent(ctx, st, v)
	if err != nil {
		return err
	}
	a.section("content")
	a.lines(string(b))
	return nil
}

// lines prints a text of others, line by line, with nothing in it that a
// terminal would act on.
func (a *app) lines(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(a.out, clean(strings.TrimSuffix(line, "\n")))
	}
}

func (a *app) artifactsDiff(ctx context.Context, st ledger.Store, run, name string, from, to int) error {
	vs, err := a.versions(ctx, st, run, name)
	if err != nil {
		return err
	}
	pick := func(revision int, among []versionView) (versionView, error) {
		if revision != newest {
			return a.revisionOf(vs, revision)
		}
		for i := len(among) - 1; i >= 0; i-- {
			if !among[i].Content.IsZero() {
				return among[i], nil
			}
		}
		return versionView{}, fmt.Errorf("run %s has too few versions of %s with a content to compare: %s shows them", vs[0].Run, vs[0].Artifact, a.command("artifacts", "list", "--run", vs[0].Run.String()))
	}
	second, err := pick(to, vs)
	if err != nil {
		return err
	}
	before := vs
	for i, v := range vs {
		if v.Seq == second.Seq {
			before = vs[:i]
		}
	}
	first, err := pick(from, before)
	if err != nil {
		return err
	}
	var sides [2][]byte
	for i, v := range []versionView{first, second} {
		if sides[i], err = a.versionContent(ctx, st, v); err != nil {
			return err
		}
	}
	title := func(v versionView) string {
		return fmt.Sprintf("%s, revision %d (%s)", v.Artifact, v.Revision, v.Verdict)
	}
	a.lines(string(diff.Diff(title(first), sides[0], title(second), sides[1])))
	return nil
}

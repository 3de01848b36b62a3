package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/export"
)

type exportFlags struct {
	filter            ledger.ExportFilter
	run, since, until string
	what              []string
	format, to, after string
	limit             int64
}

func (a *app) exportCommand() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export",
		Short: "Writes events, calls and runs out, with what proves them offline",
		Long: `Writes events, calls and runs out of the ledger: to stdout, lines of one kind; with
--to, to a directory (or one file), with a manifest and the last event of each run beside
them, against which ledgerctl verify --export checks the whole without any ledger.

jsonl        {"hash":…,"event":…} a line: the event's own bytes and their SHA-256
csv          the same in columns; no cell is run by a spreadsheet
cloudevents  CloudEvents 1.0 as JSON, as the feed has them; events only

Workers may go on. Every run that was there at the beginning is written as far as it was
when its turn came: a beginning of its history, which never changes. The state and sums of a
run are those of that moment. Broken off with --to, the same command goes on where it was;
to stdout, --after the last line. Runs come oldest first. See docs/auditing.md for fields.

Exit codes: 0 written, 4 written, but the archive had a hole (while workers write it may be
on its way), 1 failed, 2 wrong usage.`,
		Example: `  ledgerctl export --to audit-2026-11
  ledgerctl export --agent refunds --since 2026-11-01 --until 2026-12-01 --to november
  ledgerctl export --what calls -o csv --tool refund > refunds.csv
  ledgerctl export -o cloudevents --run 7W6X5Y
  ledgerctl verify --export audit-2026-11`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.export(c, args, f) },
	}
	fs := c.Flags()
	fs.StringVarP(&f.format, "output", "o", string(export.JSONL), "jsonl, csv, cloudevents")
	fs.StringSliceVar(&f.what, "what", nil, "events, calls, runs; several with commas (default all with --to, else events)")
	fs.StringVar(&f.to, "to", "", "a directory, or a file named *.jsonl, *.ndjson, *.json or *.csv")
	fs.StringVar(&f.run, "run", "", "run")
	fs.StringVar(&f.filter.Session, "session", "", "session")
	fs.StringVar(&f.filter.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.filter.Owner, "owner", "", "owner")
	fs.StringVar(&f.filter.Agent, "agent", "", "agent")
	fs.StringVar(&f.filter.Tool, "tool", "", "runs that called this tool; of calls, those of it")
	fs.StringVar(&f.since, "since", "", "only runs queued from then on: 2026-01-31, 2026-01-31T10:00:00Z or a time ago such as 24h")
	fs.StringVar(&f.until, "until", "", "only runs queued before then")
	fs.StringVar(&f.after, "after", "", "to stdout: goes on after this RUN/SEQ, or RUN")
	fs.Int64Var(&f.limit, "limit", 0, "to stdout: lines at most; 0 is all")
	a.progressFlag(c)
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words(export.Formats), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("what", cobra.FixedCompletions(words(export.Kinds), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// words are the texts of string kinds.
func words[T ~string](ts []T) (out []string) {
	for _, t := range ts {
		out = append(out, string(t))
	}
	return out
}

func (f *exportFlags) options() (export.Options, error) {
	o := export.Options{Format: export.Format(f.format)}
	if !slices.Contains(export.Formats, o.Format) {
		return o, usagef("--output %q: want %s", f.format, strings.Join(words(export.Formats), ", "))
	}
	for _, w := range f.what {
		k := export.Kind(w)
		if !slices.Contains(export.Kinds, k) || slices.Contains(o.Kinds, k) {
			return o, usagef("--what %q: want some of %s", strings.Join(f.what, ","), strings.Join(words(export.Kinds), ", "))
		}
		if k != export.Events && o.Format == export.CloudEvents {
			return o, usagef("--what %s: as CloudEvents there are only events; %s have jsonl and csv", w, w)
		}
		o.Kinds = append(o.Kinds, k)
	}
	switch {
	case f.to == "" && len(o.Kinds) == 0:
		o.Kinds = []export.Kind{export.Events}
	case f.to == "" && len(o.Kinds) > 1:
		return o, usagef("--what %s: stdout takes one of them; all go --to a directory", strings.Join(f.what, ","))
	case f.to != "" && (f.after != "" || f.limit != 0):
		return o, usagef("--after and --limit are for stdout: --to goes on by itself where it was broken off")
	case f.limit < 0:
		return o, usagef("--limit %d: want 0 or more", f.limit)
	}
	return o, nil
}

func (a *app) export(c *cobra.Command, args []string, f exportFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if f.since+f.until != "" {
		o.Asked = fmt.Sprintf("since %q until %q", f.since, f.until)
	}
	if f.filter.Since, err = a.moment("since", f.since); err != nil {
		return err
	}
	if f.filter.Until, err = a.moment("until", f.until); err != nil {
		return err
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		if f.run != "" {
			r, err := a.readRun(ctx, st, f.run)
			if err != nil {
				return err
			}
			f.filter.Run = r.ID
		}
		o.Filter = f.filter
		after, err := a.exportPlace(ctx, st, f.after, o)
		if err != nil {
			return err
		}
		size, err := st.ExportSize(ctx, o.Filter)
		if err != nil {
			return err
		}
		p := a.startProgress(ctx, "exporting", "events", size.Events)
		defer p.Stop()
		o.Done = p.Set
		if f.to != "" {
			return a.exportTo(ctx, st, o, f.to, p)
		}
		last, more, err := export.Stream(ctx, st, o, after, f.limit, a.out)
		p.Stop()
		if more {
			place := last.Run.String()
			if last.Seq > 0 {
				place += "/" + strconv.FormatUint(last.Seq, 10)
			}
			a.more(c, args, place)
		}
		return hole(err)
	})
}

// hole gives an export that is written, but for a hole, its exit code.
func hole(err error) error {
	if errors.Is(err, export.ErrIncomplete) {
		return verdictError{exitIncomplete, err.Error(), "hole"}
	}
	return err
}

func (a *app) exportPlace(ctx context.Context, st ledger.Store, after string, o export.Options) (p export.Place, err error) {
	if after == "" {
		return p, nil
	}
	run, seq, hasSeq := strings.Cut(after, "/")
	if p.Run, err = a.findRun(ctx, st, run); err != nil {
		return p, err
	}
	if hasSeq {
		if p.Seq, err = strconv.ParseUint(seq, 10, 63); err != nil || p.Seq == 0 || o.Kinds[0] == export.Runs {
			return p, usagef("--after %q: want RUN/SEQ, the last line that you have, or RUN", after)
		}
	}
	return p, nil
}

func (a *app) exportTo(ctx context.Context, st ledger.Store, o export.Options, to string, p *progress) error {
	r, err := export.To(ctx, st, o, to, a.now)
	p.Stop()
	if err != nil && !errors.Is(err, export.ErrIncomplete) {
		return err
	}
	if r.Resumed {
		fmt.Fprintf(a.err, "went on with an export that was broken off\n")
	}
	var parts []string
	for _, k := range append(slices.Clone(export.Kinds), export.Heads) {
		if n, ok := r.Manifest.Counts[k]; ok && k != export.Heads {
			parts = append(parts, plural(n, strings.TrimSuffix(string(k), "s")))
		}
	}
	fmt.Fprintf(a.out, "wrote %s of %s to %s\n", strings.Join(parts, ", "), plural(r.Manifest.Counts[export.Heads], "run"), to)
	fmt.Fprintf(a.out, "manifest %s  SHA-256 %s\n", r.Path, r.SHA256)
	fmt.Fprintf(a.err, "keep that hash elsewhere; check the export with: %s\n", "ledgerctl verify --export "+quote(to)+" --sha256 "+r.SHA256.String())
	return hole(err)
}

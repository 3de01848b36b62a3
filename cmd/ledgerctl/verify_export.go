package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/export"
)

// exportVerdict is what verify says of an export.
type exportVerdict struct {
	Verdict    string      `json:"verdict"` // whole, tampered or incomplete
	Runs       int64       `json:"runs"`
	Events     int64       `json:"events"`
	Calls      int64       `json:"calls"`              // compared with what the events fold to
	Compared   int64       `json:"compared,omitempty"` // runs, with the ledger
	Tampered   int64       `json:"tampered"`
	Incomplete int64       `json:"incomplete"`
	Holes      int         `json:"holes,omitempty"` // that the archive had when it was written
	Began      time.Time   `json:"began_at"`
	Ended      time.Time   `json:"ended_at"`
	SHA256     events.Hash `json:"manifest_sha256"`
}

// verifyExport checks an export, with the ledger only if asked.
func (a *app) verifyExport(ctx context.Context, path, want string, against bool) error {
	m, sum, err := export.Read(path)
	if err != nil {
		return err
	}
	var whole events.Hash
	if want != "" {
		if err := whole.UnmarshalText([]byte(want)); err != nil {
			return usagef("--sha256 %q: want the 64 hex digits that ledgerctl export printed", want)
		}
	}
	p := a.startProgress(ctx, "verifying", "events", m.CountEvents())
	defer p.Stop()
	var all []export.Fault
	found := func(f export.Fault) error {
		if a.output == formatJSON {
			all = append(all, f)
			return nil
		}
		return p.Above(a.out, func(w io.Writer) error { return a.printFault(w, f) })
	}
	v := exportVerdict{Verdict: "whole", Began: m.Began, Ended: m.Ended, SHA256: sum}
	if want != "" && whole != sum {
		v.Tampered++
		if err := found(export.Fault{File: "manifest.json", Kind: ledger.Tampered, Text: fmt.Sprintf("the manifest is not the one that was written: its SHA-256 is %s", sum)}); err != nil {
			return err
		}
	}
	got, err := export.Check(ctx, path, p.Set, found)
	if err != nil {
		return err
	}
	v.Runs, v.Events, v.Calls = got.Runs, got.Events, got.Calls
	v.Tampered, v.Incomplete = v.Tampered+got.Tampered, got.Incomplete
	if against {
		err := a.withLedger(ctx, func(st ledger.Store) error {
			v.Compared, err = export.Compare(ctx, path, st, func(f export.Fault) error {
				if f.Kind == ledger.Tampered {
					v.Tampered++
				} else {
					v.Incomplete++
				}
				return found(f)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	p.Stop()
	return a.printExportVerdict(v, m, all, against)
}

func (a *app) printFault(w io.Writer, f export.Fault) error {
	if a.output == formatJSONL {
		return a.jsonLine(f)
	}
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(" line %d", f.Line)
	}
	if !f.Run.IsZero() {
		place += " run " + f.Run.String()
	}
	if f.Seq > 0 {
		place += fmt.Sprintf(" seq %d", f.Seq)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s\n", a.term.paint(fmt.Sprintf("%-10s", f.Kind), stateStyle(string(f.Kind))), place, clean(f.Text))
	return err
}

func (a *app) printExportVerdict(v exportVerdict, m export.Manifest, all []export.Fault, against bool) error {
	var verdict error
	v.Holes = m.Holes
	switch {
	case v.Tampered > 0:
		v.Verdict = string(ledger.Tampered)
		verdict = verdictError{exitTampered, fmt.Sprintf("tampered: %s; this is not what was exported: ask for the export again and compare", plural(v.Tampered, "finding")), ""}
	case v.Incomplete > 0:
		v.Verdict = string(ledger.Incomplete)
		verdict = verdictError{exitIncomplete, fmt.Sprintf("incomplete: %s; ask for what is missing, or for the export again", plural(v.Incomplete, "finding")), ""}
	}
	if a.output != formatTable {
		if a.output == formatJSONL {
			return errors.Join(a.jsonLine(v), verdict)
		}
		if all == nil {
			all = []export.Fault{}
		}
		return errors.Join(a.json(struct {
			exportVerdict
			Findings []export.Fault `json:"findings"`
		}{v, all}), verdict)
	}
	st := green
	if v.Verdict != "whole" {
		st = red
	}
	fmt.Fprintf(a.out, "%s: %s, %s, %s compared with them; exported %s\n", a.term.paint(v.Verdict, st), plural(v.Runs, "run"), plural(v.Events, "event"), plural(v.Calls, "call"), exact(v.Ended))
	if m.Holes > 0 {
		fmt.Fprintf(a.out, "when it was written the archive had a hole in %s\n", plural(int64(m.Holes), "run"))
	}
	if against {
		fmt.Fprintf(a.out, "the ledger has the last event of %s as the export has it, but for the findings\n", plural(v.Compared, "run"))
	}
	_, err := fmt.Fprintf(a.out, "manifest SHA-256 %s\n", v.SHA256)
	return errors.Join(err, verdict)
}

package export

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// settled is how long before the export began something must have been there for its
// absence to be told of: a message of the journal may be on its way to the archive for
// as long, and clocks differ.
const settled = time.Minute

// comparing goes through an export and the ledger side by side, both in the order of runs.
type comparing struct {
	*check
	src    ledger.Exports
	filter ledger.ExportFilter
	before time.Time          // what the export must have is older
	page   []ledger.ExportRun // not looked at yet
	after  events.RunID
	ended  bool // the ledger has no more runs than page
	rows   *lines
}

// Compare holds an export against the ledger: each head against the event there, each
// row of runs against the run as far as that cannot have changed since; and it tells of
// runs, and of ends of histories, that the ledger had over a minute before the export
// began and the export lacks. What the manifest says of the export (filter, newest run,
// when it began) is believed. runs is how many have their last event compared.
func Compare(ctx context.Context, path string, src ledger.Exports, found func(Fault) error) (runs int64, err error) {
	m, _, err := Read(path)
	if err != nil {
		return 0, err
	}
	c := &comparing{check: &check{ctx: ctx, l: layoutOf(path), m: m, found: found}, src: src, filter: m.Filter.ledger(), before: m.Began.Add(-settled)}
	c.filter.Upto = m.Upto
	heads, err := c.open(Heads)
	if err != nil {
		return 0, err
	}
	defer heads.close()
	if heads.f == nil {
		return 0, nil // Check says so
	}
	if c.rows, err = c.open(Runs); err != nil {
		return 0, err
	}
	defer c.rows.close()
	if c.rows.bad != nil {
		if err := c.fault(Fault{File: c.rows.name, Kind: ledger.Tampered}, "%v", c.rows.bad); err != nil {
			return 0, err
		}
	}
	for {
		head, bad, err := heads.head()
		if errors.Is(err, io.EOF) {
			return runs, errors.Join(c.missing(nil), c.lastRow())
		}
		if err != nil {
			return runs, err
		}
		if bad != nil {
			continue // Check says what is wrong
		}
		if head.Seq > 0 {
			runs++
		}
		if err := c.missing(&head.Run); err != nil {
			return runs, err
		}
		if err := c.last(heads, head); err != nil {
			return runs, err
		}
		r, ok, err := c.peek()
		if err != nil {
			return runs, err
		}
		if ok = ok && r.ID == head.Run; ok {
			c.page = c.page[1:]
		}
		if err := c.row(head, r, ok); err != nil {
			return runs, err
		}
	}
}

// peek is the next run of the ledger that the manifest's filter selects.
func (c *comparing) peek() (r ledger.ExportRun, ok bool, err error) {
	if len(c.page) == 0 && !c.ended {
		if c.page, err = c.src.ExportRuns(c.ctx, c.filter, c.after, runsPage); err != nil {
			return r, false, err
		}
		if c.ended = len(c.page) < runsPage; len(c.page) > 0 {
			c.after = c.page[len(c.page)-1].ID
		}
	}
	if len(c.page) == 0 {
		return r, false, nil
	}
	return c.page[0], true, nil
}

// missing tells of runs before run (nil: of all that are left): no head has them.
func (c *comparing) missing(run *events.RunID) error {
	for {
		r, ok, err := c.peek()
		if err != nil || !ok || run != nil && bytes.Compare(r.ID[:], run[:]) >= 0 {
			return err
		}
		c.page = c.page[1:]
		was := r.CreatedAt.Before(c.before)
		if was && c.filter.Tool != "" { // it may have called the tool since
			cs, err := c.src.ExportCalls(c.ctx, r.ID, c.filter.Tool, 0, r.Folded, 1)
			if err != nil {
				return err
			}
			was = len(cs) > 0 && cs[0].At.Before(c.before)
		}
		if was {
			if err := c.fault(Fault{File: c.l.name(Heads, c.m.Format), Run: r.ID, Kind: ledger.Incomplete}, "the ledger has this run, queued %s, the export does not", r.CreatedAt.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
	}
}

// last compares the last event of a run, and says whether there was another.
func (c *comparing) last(l *lines, head Head) error {
	after, limit := uint64(0), 1
	if head.Seq > 0 {
		after, limit = head.Seq-1, 2
	}
	es, err := c.src.ExportEvents(c.ctx, head.Run, after, limit)
	if err != nil && !errors.Is(err, events.ErrHash) && !errors.Is(err, events.ErrMalformed) {
		return err
	}
	f := Fault{File: l.name, Line: l.n, Run: head.Run, Seq: head.Seq, Kind: ledger.Tampered}
	if head.Seq > 0 {
		switch i := slices.IndexFunc(es, func(e events.Sealed) bool { return e.Envelope().Seq == head.Seq }); {
		case i < 0:
			f.Kind = ledger.Incomplete
			return c.fault(f, "the ledger does not have this event, or not whole")
		case es[i].Hash() != head.Hash:
			return c.fault(f, "the ledger has another event here: %s, the export has %s", es[i].Hash(), head.Hash)
		}
	}
	if i := slices.IndexFunc(es, func(e events.Sealed) bool { return e.Envelope().Seq > head.Seq }); i >= 0 && es[i].Envelope().Time.Before(c.before) {
		env := es[i].Envelope()
		f.Seq, f.Kind = env.Seq, ledger.Incomplete
		return c.fault(f, "the export ends the run before this event (%s of %s), which is over a minute older than the export: it was cut off, or the archive did not have it yet; export again and compare",
			env.Type, env.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// What of a row of runs cannot have changed since it was written: ever; once the run has
// ended; and as long as no more of its events are folded, all the rest.
var (
	rowFixed = strings.Fields("run_id tenant queue agent owner session_id parent_id fork_of retry_of client_key created_at trace")
	rowEnded = strings.Fields("root_id state stopped_by park_reason error ended_at")
)

// row compares the next row of runs, which is that of head; r is the run, if the ledger has it.
func (c *comparing) row(head Head, r ledger.ExportRun, has bool) error {
	if c.rows.f == nil {
		return nil
	}
	f := Fault{File: c.rows.name, Run: head.Run, Kind: ledger.Tampered}
	line, record, err := c.rows.next()
	f.Line = c.rows.n
	var perr *csv.ParseError
	if errors.Is(err, io.EOF) {
		f.Kind = ledger.Incomplete
		return c.fault(f, "the run has no row")
	}
	if err != nil && !errors.As(err, &perr) {
		return err
	}
	var got map[string]string
	if err == nil {
		got, err = fields(c.m.Format, line, record)
	}
	if err != nil {
		return c.fault(f, "it is no row of runs: %v", err)
	}
	if id := strings.Trim(got["run_id"], `"`); id != head.Run.String() {
		return c.fault(f, "it is of run %.40s, the heads have %s in its place", id, head.Run)
	}
	if !has {
		return nil
	}
	want, err := runLine(c.m.Format, r)
	if err != nil {
		return err
	}
	if c.m.Format == CSV {
		if record, err = csv.NewReader(bytes.NewReader(want)).Read(); err != nil {
			return err
		}
	}
	is, err := fields(c.m.Format, bytes.TrimSuffix(want, []byte("\n")), record)
	if err != nil {
		return err
	}
	ended := got["ended_at"] != "" || !r.EndedAt.IsZero() && r.EndedAt.Before(c.before)
	for _, name := range names(Runs) {
		switch {
		case slices.Contains(rowFixed, name):
		case slices.Contains(rowEnded, name):
			if !ended {
				continue
			}
		case r.Folded != head.Calls:
			continue // the sums went on
		}
		if got[name] != is[name] {
			return c.fault(f, "%s is %.200s, the ledger has %.200s", name, either(got[name]), either(is[name]))
		}
	}
	return nil
}

func either(s string) string {
	if s == "" {
		return "empty"
	}
	return s
}

// lastRow tells of a row behind that of the last head.
func (c *comparing) lastRow() error {
	_, _, err := c.rows.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return c.fault(Fault{File: c.rows.name, Line: c.rows.n, Kind: ledger.Tampered}, "rows are left that no head has")
}

// fields are the columns of a row of runs, as they stand there; of JSON, a field once.
func fields(f Format, line []byte, record []string) (map[string]string, error) {
	all := map[string]string{}
	if f == CSV {
		if len(record) != len(names(Runs)) {
			return nil, fmt.Errorf("it has %d fields, want %d", len(record), len(names(Runs)))
		}
		for i, name := range names(Runs) {
			all[name] = record[i]
		}
		return all, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	again := []byte("{")
	for _, name := range names(Runs) {
		v, ok := raw[name]
		if !ok {
			continue
		}
		if len(again) > 1 {
			again = append(again, ',')
		}
		again = append(append(append(again, '"'), name+`":`...), v...)
		all[name] = string(v)
	}
	if !bytes.Equal(append(again, '}'), line) {
		return nil, errors.New("its fields are not those of a run, once each and in their order")
	}
	return all, nil
}

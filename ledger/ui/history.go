package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// eventsPage is how many events a page shows.
const eventsPage = 100

// eventRow is an event in a line.
type eventRow struct {
	events.Envelope
	what string
}

// history is a part of a run's events.
type history struct {
	rows    []eventRow
	pending []events.Fact
	from    uint64
	more    bool
}

func (p *page) events(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "events")
	if err != nil {
		return shown{}, err
	}
	v := history{from: 1}
	if s := r.URL.Query().Get("from"); s != "" {
		if v.from, err = strconv.ParseUint(s, 10, 63); err != nil || v.from == 0 {
			return shown{}, badQuery("from", s, "Want the number of an event, from 1.")
		}
	}
	err = c.read.Events(ctx, h.ID, v.from, func(s events.Sealed) error {
		if len(v.rows) == eventsPage {
			v.more = true
			return errEnough
		}
		v.rows = append(v.rows, rowOf(s))
		return nil
	})
	if err != nil && !isEnough(err) {
		return shown{}, err
	}
	if v.pending, err = c.read.Pending(ctx, h.ID); err != nil {
		return shown{}, err
	}
	return shown{"Events of " + tail(h.ID), runPage(*c, h, historyShown(*c, h, v))}, nil
}

// rowOf is an event in a line; what this build cannot read is shown as its bytes.
func rowOf(s events.Sealed) eventRow {
	row := eventRow{Envelope: s.Envelope()}
	data, err := s.Data()
	if err != nil {
		row.what = "its bytes cannot be read: " + err.Error()
		return row
	}
	row.what = eventWords(row.Type, row.Version, data)
	return row
}

// oneEvent is an event as it is stored.
type oneEvent struct {
	events.Envelope
	hash  string
	whole bool // its hash is that of its bytes
	data  string
	bytes string
	size  int
	prev  uint64
	next  uint64
}

func (p *page) event(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "events")
	if err != nil {
		return shown{}, err
	}
	h.again = ""
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	if err != nil || seq == 0 {
		return shown{}, ledger.ErrNotFound
	}
	v := oneEvent{}
	err = c.read.Events(ctx, h.ID, seq, func(s events.Sealed) error {
		env := s.Envelope()
		if env.Seq == seq+1 {
			v.next = env.Seq
		}
		if env.Seq != seq {
			return errEnough
		}
		v.Envelope, v.hash, v.bytes, v.size = env, s.Hash().String(), string(s.Bytes()), len(s.Bytes())
		_, derr := s.Decode()
		v.whole = derr == nil
		data, derr := s.Data()
		if derr == nil {
			v.data = readable(json.RawMessage(data))
		}
		return nil
	})
	if err != nil && !isEnough(err) {
		return shown{}, err
	}
	if v.Seq != seq {
		return shown{}, ledger.ErrNotFound
	}
	v.prev = seq - 1
	return shown{fmt.Sprintf("Event %d of %s", seq, tail(h.ID)), runPage(*c, h, eventShown(*c, h, v))}, nil
}

// recordView is what proving a run came to.
type recordView struct {
	report   ledger.VerifyReport
	findings []ledger.Finding
	more     bool
	took     time.Duration
}

// maxFindings bounds how many findings a page names.
const maxFindings = 200

func (c *chrome) verify(ctx context.Context, run events.RunID) (v recordView, err error) {
	begin := time.Now()
	v.report, err = c.read.Verify(ctx, run, func(f ledger.Finding) error {
		if len(v.findings) == maxFindings {
			v.more = true
			return nil
		}
		v.findings = append(v.findings, f)
		return nil
	})
	v.took = time.Since(begin)
	return v, err
}

func (p *page) runRecord(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "record")
	if err != nil {
		return shown{}, err
	}
	h.again = ""
	v, err := c.verify(ctx, h.ID)
	if err != nil {
		return shown{}, err
	}
	return shown{"Record of " + tail(h.ID), runPage(*c, h, runRecordShown(*c, h, v))}, nil
}

func plainNumber[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func tookMS(ms int64) string { return took(time.Duration(ms) * time.Millisecond) }

func lastDays(days []ledger.CostRow) []ledger.CostRow { return days[max(len(days)-maxColumns, 0):] }

func callTone(status string) string {
	switch status {
	case "finished", "resolved":
		return "good"
	case "error":
		return "bad"
	case "blocked":
		return "warn"
	case "in_doubt":
		return "doubt"
	}
	return "dim"
}

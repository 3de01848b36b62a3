package ui

import (
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
)

// sectionsPage is how many turns of a transcript a page shows.
const sectionsPage = 20

// transcriptView is a part of a run's transcript.
type transcriptView struct {
	sections []*telling.Section
	page     int // from 0
	pages    int
	cut      bool // the run has more events than a page reads
}

func (p *page) transcript(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "transcript")
	if err != nil {
		return shown{}, err
	}
	q := r.URL.Query()
	n, _ := strconv.Atoi(q.Get("page"))
	turn, _ := strconv.Atoi(q.Get("turn"))
	v := transcriptView{page: max(n-1, 0)}
	count := 0
	var last []*telling.Section
	t := telling.NewTeller(h.ID, false, func(s *telling.Section) error {
		if turn > 0 && s.Turn == turn {
			v.page, turn = count/sectionsPage, 0
			v.sections = last
		}
		if count%sectionsPage == 0 {
			last = nil
		}
		last = append(last, s)
		if count/sectionsPage == v.page {
			v.sections = last
		}
		count++
		return nil
	})
	seen := 0
	err = c.read.Events(ctx, h.ID, 1, func(s events.Sealed) error {
		if seen++; seen > maxEvents {
			v.cut = true
			return errEnough
		}
		return t.Event(s)
	})
	if err != nil && !isEnough(err) {
		return shown{}, err
	}
	if _, err := t.End(); err != nil {
		return shown{}, err
	}
	v.pages = max((count+sectionsPage-1)/sectionsPage, 1)
	if v.page >= v.pages {
		v.page, v.sections = v.pages-1, last
	}
	return shown{"Transcript of " + tail(h.ID), runPage(*c, h, transcriptShown(*c, h, v))}, nil
}

// toneOf is how something told looks.
func toneOf(t telling.Tone) string {
	switch t {
	case telling.ToneSoft:
		return "dim"
	case telling.ToneWarn:
		return "warn"
	case telling.ToneBad:
		return "bad"
	}
	return "good"
}

// sectionSum is what a turn came to.
func sectionSum(s *telling.Section) *big.Int { return s.Sums.Cost.OrZero() }

func sectionWords(s *telling.Section) string {
	u := s.Sums
	parts := []string{}
	if u.Input+u.CacheRead+u.CacheWrite+u.Output > 0 {
		parts = append(parts, count(u.Input+u.CacheRead+u.CacheWrite)+" + "+count(u.Output)+" tokens")
	}
	if u.ModelCalls+u.ToolCalls > 0 {
		parts = append(parts, dollars(sectionSum(s)))
	}
	if w := unknowns(u.Unpriced, u.Unmeasured, u.Unsettled); w != "" {
		parts = append(parts, "+ "+w)
	}
	if u.TookMS > 0 {
		parts = append(parts, took(time.Duration(u.TookMS)*time.Millisecond))
	}
	return joined(" · ", parts...)
}

// saying is what something told says, as one text.
func saying(v *telling.ToldView) string {
	s := v.Text
	if len(v.Data) > 0 && v.Kind != telling.ToldCall {
		s = joined("\n", s, readable(v.Data))
	}
	return s
}

// headOf names something told that is no call and no answer.
func headOf(v *telling.ToldView) string {
	if v.Label != "" {
		return v.Label
	}
	return words(v.Kind)
}

// eventWords is an event in one line; what this build cannot read is its bytes.
func eventWords(t events.Type, version int, data json.RawMessage) string {
	p, err := events.DecodePayload(t, version, data)
	if err != nil {
		return "not readable by this build: " + string(data)
	}
	return telling.Summary(p)
}

package main

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

type numberView struct {
	N int `json:"n"`
}

// numbers is a table of descending numbers, into which new ones come at the top.
type numbers struct{ rows []int }

func (t *numbers) lister(after int) lister[int, numberView] {
	return lister[int, numberView]{
		read: func(n int, last *int) ([]int, error) {
			if last != nil {
				after = *last
			}
			var out []int
			for _, r := range t.rows {
				if (after == 0 || r < after) && len(out) < n {
					out = append(out, r)
				}
			}
			t.rows = append([]int{t.rows[0] + 1}, t.rows...) // meanwhile
			return out, nil
		},
		view:  func(n int) (numberView, error) { return numberView{n}, nil },
		place: strconv.Itoa,
	}
}

// TestPagesLoseNothing walks a list that grows, in pages of all sizes: each row that
// was there comes once, in its order, with a filter and without; --limit counts what
// passed.
func TestPagesLoseNothing(t *testing.T) {
	const rows = 2500
	for _, tt := range []struct {
		name, filter string
		limit, scan  int
		passes       func(int) bool
	}{
		{"all", "", 7, maxScan, func(int) bool { return true }},
		{"all in one page", "", rows * 2, maxScan, func(int) bool { return true }},
		{"a page exactly", "", rows, maxScan, func(int) bool { return true }},
		{"few pass", "n % 100 == 0", 3, maxScan, func(n int) bool { return n%100 == 0 }},
		{"most pass", "n % 100 != 0", 999, maxScan, func(n int) bool { return n%100 != 0 }},
		{"bound on what is looked at", "n % 100 == 0", 3, 50, func(n int) bool { return n%100 == 0 }},
		{"none pass", "n < 0", 3, 700, func(n int) bool { return n < 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := new(numbers)
			var want []int
			for n := rows; n > 0; n-- {
				table.rows = append(table.rows, n)
				if tt.passes(n) {
					want = append(want, n)
				}
			}
			var got []int
			after, short := rows+1, 0
			for pages := 1; ; pages++ {
				var said strings.Builder
				a := newApp(nil, io.Discard, &said, time.Now)
				a.scan = tt.scan
				if tt.filter != "" {
					p, err := newPicker(tt.filter)
					if err != nil {
						t.Fatal(err)
					}
					a.shape.pick = p
				}
				views, next, err := table.lister(after).page(a, page{limit: tt.limit})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range views {
					got = append(got, v.N)
				}
				if len(views) > tt.limit {
					t.Fatalf("page of %d", len(views))
				}
				if next == "" {
					break
				}
				if len(views) < tt.limit {
					short++
					if !strings.HasPrefix(said.String(), "looked at "+strconv.Itoa(tt.scan)+" rows, and ") {
						t.Fatalf("a page of %d says %q", len(views), &said)
					}
				}
				if after, err = strconv.Atoi(next); err != nil || pages > rows {
					t.Fatalf("next %q, page %d", next, pages)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %d rows, want %d", len(got), len(want))
			}
			if (short > 0) != (tt.scan < maxScan) {
				t.Errorf("%d pages say that they stopped early", short)
			}
		})
	}
}

func TestFirstRunIsInTheOrderOfTime(t *testing.T) {
	at := time.Date(2026, 1, 15, 10, 1, 0, 0, time.UTC)
	if got := firstRun(at).String(); got != "01KF0HKTV00000000000000000" {
		t.Errorf("the lowest id at %s is %s", at, got)
	}
	if !firstRun(time.Time{}).IsZero() {
		t.Error("no time is a bound")
	}
}

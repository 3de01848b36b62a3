package papers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/apitest"
	"github.com/daybookhq/daybook/tools/papers"
)

// fixed is a source that knows what it says.
type fixed struct {
	name  string
	found papers.Found
	err   error
	meet  *sync.WaitGroup // waits until all are asked, if set
}

func (f *fixed) Name() string { return f.name }

func (f *fixed) Search(context.Context, papers.Query) (papers.Found, error) {
	if f.meet != nil {
		f.meet.Done()
		f.meet.Wait()
	}
	if f.found.Papers == nil && f.err == nil {
		panic("nothing to say")
	}
	return f.found, f.err
}

func list(titles ...string) papers.Found {
	f := papers.Found{Papers: []papers.Paper{}}
	for _, t := range titles {
		f.Papers = append(f.Papers, papers.Paper{Title: t})
	}
	return f
}

func titles(f papers.Found) string {
	var out []string
	for _, p := range f.Papers {
		out = append(out, p.Title)
	}
	return strings.Join(out, " ")
}

func num(n int) *int { return &n }

func micro(n int64) *int64 { return &n }

// meeting answers once another is being asked, too.
type meeting struct{ mine, others chan struct{} }

func (meeting) Name() string { return "meeting" }

func (m meeting) Search(ctx context.Context, _ papers.Query) (papers.Found, error) {
	close(m.mine)
	select {
	case <-m.others:
		return papers.Found{}, nil
	case <-ctx.Done():
		return papers.Found{}, context.Cause(ctx)
	}
}

// SG-133: asked in turn, neither would come back.
func TestSourcesAreAskedAtOnce(t *testing.T) {
	here, there := make(chan struct{}), make(chan struct{})
	if _, err := papers.Every(meeting{here, there}, meeting{there, here}).Search(t.Context(), papers.Query{}); err != nil {
		t.Error(err)
	}
}

func TestEvery(t *testing.T) {
	ask := func(max int, s ...papers.Source) (papers.Found, error) {
		return papers.Every(s...).Search(context.Background(), papers.Query{Text: "x", Max: max})
	}
	t.Run("SG-133 takes turns, and asks at once", func(t *testing.T) {
		var meet sync.WaitGroup
		meet.Add(3)
		f, err := ask(10, &fixed{name: "a", found: list("a1", "a2", "a3"), meet: &meet}, &fixed{name: "b", found: list("b1"), meet: &meet}, &fixed{name: "c", found: list("c1", "c2"), meet: &meet})
		if err != nil || titles(f) != "a1 b1 c1 a2 c2 a3" {
			t.Errorf("%q, %v", titles(f), err)
		}
	})
	t.Run("SG-133 no more than wanted", func(t *testing.T) {
		if f, _ := ask(3, &fixed{found: list("a1", "a2", "a3")}, &fixed{found: list("b1", "b2")}); titles(f) != "a1 b1 a2" {
			t.Errorf("%q", titles(f))
		}
	})
	t.Run("SG-134 SG-135 duplicates", func(t *testing.T) {
		type P = papers.Paper
		for _, tt := range []struct {
			name string
			a, b P
			want []P
		}{
			{"same DOI", P{Title: "One", DOI: "10.1/x", Citations: num(5), Abstract: "abc"}, P{Title: "Other words", DOI: "10.1/x", Citations: num(9), StudyType: "rct", SampleSize: 7}, []P{
				{Title: "One", DOI: "10.1/x", Citations: num(9), Abstract: "abc", StudyType: "rct", SampleSize: 7},
			}},
			{"the higher count stays", P{Title: "One", DOI: "10.1/x", Citations: num(9)}, P{Title: "One", DOI: "10.1/x", Citations: num(5)}, []P{{Title: "One", DOI: "10.1/x", Citations: num(9)}}},
			{"no DOI, same title", P{Title: "Tea, and Tides!"}, P{Title: "tea and  tides", Year: 2019, Authors: []string{"A"}}, []P{{Title: "Tea, and Tides!", Year: 2019, Authors: []string{"A"}}}},
			{"one DOI, same title", P{Title: "Tea"}, P{Title: "TEA", DOI: "10.1/x"}, []P{{Title: "Tea", DOI: "10.1/x"}}},
			{"two DOIs, same title", P{Title: "Editorial", DOI: "10.1/x"}, P{Title: "Editorial", DOI: "10.1/y"}, []P{{Title: "Editorial", DOI: "10.1/x"}, {Title: "Editorial", DOI: "10.1/y"}}},
			{"no title", P{Title: "???"}, P{Title: "!!!"}, []P{{Title: "???"}, {Title: "!!!"}}},
			{"accents matter", P{Title: "Thé"}, P{Title: "The"}, []P{{Title: "Thé"}, {Title: "The"}}},
		} {
			f, err := ask(10, &fixed{found: papers.Found{Papers: []P{tt.a}}}, &fixed{found: papers.Found{Papers: []P{tt.b}}})
			if err != nil || show(f.Papers) != show(tt.want) {
				t.Errorf("%s: %s, want %s", tt.name, show(f.Papers), show(tt.want))
			}
		}
	})
	t.Run("SG-136 one fails", func(t *testing.T) {
		busy := errors.New("busy has had too many requests (status 429)")
		r := call(t, papers.Every(&fixed{name: "good", found: list("One")}, &fixed{name: "busy", err: busy}, &fixed{name: "mad"}), `{"query":"tea"}`)
		if r.Status != tools.Completed || !strings.HasSuffix(r.Output, "1. One\nbusy did not answer: busy has had too many requests (status 429)\nmad did not answer: crashed\n") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-137 all fail", func(t *testing.T) {
		r := call(t, papers.Every(&fixed{name: "a", err: errors.New("out of tea")}, &fixed{name: "b", err: errors.New("out of milk")}), `{"query":"tea"}`)
		if r.Status != tools.Failed || !strings.Contains(r.Error, "a: out of tea") || !strings.Contains(r.Error, "b: out of milk") {
			t.Errorf("%+v", r)
		}
		if _, err := ask(10); err == nil {
			t.Error("no sources at all find something")
		}
	})
	t.Run("SG-138 the bill", func(t *testing.T) {
		cost := func(n int64) papers.Found { f := list("x"); f.CostMicroUSD = micro(n); return f }
		for _, tt := range []struct {
			sources []papers.Source
			want    string
		}{
			{[]papers.Source{&fixed{found: cost(1000)}, &fixed{found: cost(2500)}}, "3500"},
			{[]papers.Source{&fixed{found: cost(1000)}, &fixed{found: list("y")}}, "1000"},
			{[]papers.Source{&fixed{found: cost(1000)}, &fixed{found: cost(9999), err: errors.New("x")}}, "1000"},
			{[]papers.Source{&fixed{found: list("x")}}, "unmeasured"},
			{[]papers.Source{&fixed{found: cost(0)}}, "0"},
		} {
			f, err := ask(10, tt.sources...)
			got := "unmeasured"
			if f.CostMicroUSD != nil {
				got = fmt.Sprint(*f.CostMicroUSD)
			}
			if err != nil || got != tt.want {
				t.Errorf("%s, %v, want %s", got, err, tt.want)
			}
		}
	})
	t.Run("SG-139 one tool over real services", func(t *testing.T) {
		r := call(t, papers.Every(
			openAlex(t, apitest.New(t, 200, openAlexHits), ""), semantic(t, apitest.New(t, 200, semanticHits)), consensus(t, apitest.New(t, 429, ""), 2500),
		), `{"query":"tea"}`)
		for _, want := range []string{"1. Tea and tides (2019)", "cited 40 times", "2. Kettles compared (2021)", "finding: Most kettles boil.", "consensus did not answer: consensus has had too many requests (status 429); it asks to wait 9 seconds"} {
			if !strings.Contains(r.Output, want) {
				t.Errorf("%q is missing from\n%s", want, r.Output)
			}
		}
		if len(r.Sources) != 2 || r.Cost == nil || *r.Cost != 1000*events.MicroUSD {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a cancelled search", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := papers.Every(&fixed{found: list("x")}).Search(ctx, papers.Query{Max: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func show(all []papers.Paper) string {
	var out []string
	for _, p := range all {
		cited := 0
		if p.Citations != nil {
			cited = *p.Citations
		}
		p.Citations = nil
		out = append(out, fmt.Sprintf("%+v cited %d", p, cited))
	}
	return strings.Join(out, "\n")
}

func TestSpentOn(t *testing.T) {
	a, b := 1000*events.MicroUSD, 2500*events.MicroUSD
	t.Run("SG-132", func(t *testing.T) {
		if got := papers.SpentOn(events.ToolResult{Cost: &a}, events.ToolResult{}, events.ToolResult{Cost: &b}); got != 3500*events.MicroUSD {
			t.Errorf("%v", got)
		}
	})
}

func TestURLOfPaper(t *testing.T) {
	for _, tt := range []struct {
		p    papers.Paper
		want string
	}{
		{papers.Paper{OpenPDF: "https://a/x.pdf", Page: "https://b", DOI: "10.1/x"}, "https://a/x.pdf"},
		{papers.Paper{Page: "https://b", DOI: "10.1/x"}, "https://b"},
		{papers.Paper{DOI: "10.1/x"}, "https://doi.org/10.1/x"},
		{papers.Paper{OpenPDF: "javascript:alert(1)", Page: "file:///etc/passwd"}, ""},
	} {
		t.Run("SG-130 "+tt.want, func(t *testing.T) {
			if got := tt.p.URL(); got != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
}

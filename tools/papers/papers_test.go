package papers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/apitest"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/papers"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// Answers in the shape of the services, with papers that do not exist.
const (
	openAlexHits = `{"meta":{"count":2,"page":1,"per_page":10,"cost_usd":0.001},"results":[
		{"id":"https://openalex.org/W1","doi":"https://doi.org/10.5555/TEA.1","display_name":"Tea and  tides","publication_year":2019,"cited_by_count":12,
		 "type":"article","authorships":[{"author":{"display_name":"A. Bell"}},{"author":{"display_name":"C. Dorn"}},{"author":{"display_name":"E. Frey"}},{"author":{"display_name":"G. Hahn"}}],
		 "primary_location":{"source":{"display_name":"Annals of Tea"}},"best_oa_location":{"pdf_url":"https://oa.example.org/tea.pdf"},
		 "abstract_inverted_index":{"Tea":[0,3],"follows":[1],"tides.":[2],"cools.":[4]}},
		{"id":"https://openalex.org/W2","doi":null,"display_name":"Kettles, compared!","publication_year":null,"cited_by_count":null,
		 "authorships":[],"primary_location":null,"best_oa_location":null,"abstract_inverted_index":null}]}`
	semanticHits = `{"total":3,"offset":0,"data":[
		{"paperId":"s1","url":"https://www.semanticscholar.org/paper/s1","title":"Kettles compared","abstract":"Nine kettles.","venue":"J. Kettles","year":2021,
		 "citationCount":3,"openAccessPdf":null,"externalIds":{"CorpusId":1},"authors":[{"authorId":"1","name":"K. Lund"}],"tldr":{"model":"m","text":"Most kettles boil."},
		 "publicationTypes":["JournalArticle","Review"]},
		{"paperId":"s2","url":"https://www.semanticscholar.org/paper/s2","title":"Tea & tides","abstract":null,"venue":"","year":2019,"citationCount":40,
		 "openAccessPdf":{"url":"","status":null},"externalIds":{"DOI":"10.5555/tea.1"},"authors":[],"tldr":null,"publicationTypes":null}]}`
	consensusHits = `{"results":[
		{"title":"Tea trial","authors":["M. Nord"],"abstract":"We poured.","journal_name":"Trials","publish_year":2022,"citation_count":7,"doi":"10.5555/trial",
		 "url":"https://consensus.app/papers/x","study_type":"rct","sample_size":120,"takeaway":"Tea is warm."},
		{"title":"Little cited","authors":"O. Prim, Q. Rask","publish_year":2022,"citation_count":1,"doi":null,"url":"https://consensus.app/papers/y","study_type":"meta-analysis"}]}`
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func openAlex(t *testing.T, s *apitest.Service, key string) papers.Source {
	t.Helper()
	return must[papers.Source](t)(papers.OpenAlex(papers.OpenAlexOptions{APIKey: key, BaseURL: s.URL}))
}

func semantic(t *testing.T, s *apitest.Service) papers.Source {
	t.Helper()
	return must[papers.Source](t)(papers.SemanticScholar(papers.SemanticScholarOptions{APIKey: "s3cret", BaseURL: s.URL, FieldsOfStudy: []string{"Tea", "Computer Science"}}))
}

func consensus(t *testing.T, s *apitest.Service, cost int64) papers.Source {
	t.Helper()
	return must[papers.Source](t)(papers.Consensus(papers.ConsensusOptions{
		APIKey: "s3cret", BaseURL: s.URL, StudyTypes: []string{"rct", "meta-analysis"}, ExcludePreprints: true, CostMicroUSD: cost,
	}))
}

func call(t *testing.T, source papers.Source, args string) events.ToolResult {
	t.Helper()
	tool := must[tools.Tool](t)(papers.Search(papers.Options{Source: source}))
	d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(args)})
	return d.Result
}

const everything = `{"query":" tea and tides ","year_min":2015,"year_max":2022,"min_citations":5,"open_access":true}`

func TestSourcesAskTheirWay(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		source     func(*testing.T, *apitest.Service) papers.Source
		body       string
		want       url.Values
		header     string
	}{
		{
			"SG-125 openalex", "/works", func(t *testing.T, s *apitest.Service) papers.Source { return openAlex(t, s, "s3cret") }, openAlexHits,
			url.Values{"search": {"tea and tides"}, "per_page": {"10"}, "filter": {"publication_year:2015-2022,cited_by_count:>4,is_oa:true"}},
			"Authorization",
		},
		{
			"SG-126 semantic scholar", "/graph/v1/paper/search", semantic, semanticHits,
			url.Values{"query": {"tea and tides"}, "limit": {"10"}, "year": {"2015-2022"}, "minCitationCount": {"5"}, "openAccessPdf": {""}, "fieldsOfStudy": {"Tea,Computer Science"}},
			"X-Api-Key",
		},
		{
			"SG-127 consensus", "/v1/search", func(t *testing.T, s *apitest.Service) papers.Source { return consensus(t, s, 2500) }, consensusHits,
			url.Values{
				"query": {"tea and tides"}, "page_size": {"10"}, "year_min": {"2015"}, "year_max": {"2022"}, "open_access": {"true"},
				"exclude_preprints": {"true"}, "study_types": {"rct", "meta-analysis"},
			},
			"X-Api-Key",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := apitest.New(t, 200, tt.body)
			if r := call(t, tt.source(t, s), everything); r.Status != tools.Completed {
				t.Fatalf("%+v", r)
			}
			if len(s.Seen()) != 1 {
				t.Fatalf("%d requests", len(s.Seen()))
			}
			r := s.Seen()[0]
			q := r.URL.Query()
			q.Del("select")
			q.Del("fields")
			if r.Method != "GET" || r.URL.Path != tt.path || q.Encode() != tt.want.Encode() || !strings.HasSuffix(r.Header.Get(tt.header), "s3cret") {
				t.Errorf("%s %s?%v with %v, want %v", r.Method, r.URL.Path, q, r.Header, tt.want)
			}
			if strings.Contains(r.URL.String(), "s3cret") {
				t.Error("the key is in the URL")
			}
		})
	}
	t.Run("SG-125 open ended years", func(t *testing.T) {
		for args, want := range map[string]string{
			`{"query":"x","year_min":2015}`: "publication_year:>2014", `{"query":"x","year_max":2015}`: "publication_year:<2016", `{"query":"x"}`: "",
		} {
			s := apitest.New(t, 200, openAlexHits)
			call(t, openAlex(t, s, ""), args)
			if got := s.Seen()[0].URL.Query().Get("filter"); got != want || s.Seen()[0].Header.Get("Authorization") != "" {
				t.Errorf("%s: filter %q, want %q", args, got, want)
			}
		}
	})
	t.Run("SG-127 a key is required", func(t *testing.T) {
		if _, err := papers.Consensus(papers.ConsensusOptions{}); err == nil {
			t.Error("accepted without one")
		}
	})
}

func TestPaperSearchShowsPapers(t *testing.T) {
	t.Run("SG-124 SG-129 SG-130 SG-131 openalex", func(t *testing.T) {
		r := call(t, openAlex(t, apitest.New(t, 200, openAlexHits), ""), `{"query":"tea"}`)
		want := "1. Tea and tides (2019)\n   A. Bell, C. Dorn, E. Frey and others; Annals of Tea; cited 12 times\n   https://oa.example.org/tea.pdf\n" +
			"   abstract: Tea follows tides. Tea cools.\n2. Kettles, compared!\n   https://openalex.org/W2\n"
		sources := []events.Source{{Title: "Tea and tides", URL: "https://oa.example.org/tea.pdf"}, {Title: "Kettles, compared!", URL: "https://openalex.org/W2"}}
		if r.Output != want || fmt.Sprint(r.Sources) != fmt.Sprint(sources) || r.Cost == nil || *r.Cost != 1000*events.MicroUSD || r.Trust != string(tools.External) {
			t.Errorf("%+v\n%s", r, r.Output)
		}
	})
	t.Run("SG-126 semantic scholar", func(t *testing.T) {
		r := call(t, semantic(t, apitest.New(t, 200, semanticHits)), `{"query":"tea"}`)
		if !strings.Contains(r.Output, "finding: Most kettles boil.") || !strings.Contains(r.Output, "review") || r.Cost != nil { // unmeasured, not free
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-127 SG-131 consensus", func(t *testing.T) {
		r := call(t, consensus(t, apitest.New(t, 200, consensusHits), 2500), `{"query":"tea","min_citations":5}`)
		want := "1. Tea trial (2022)\n   M. Nord; Trials; cited 7 times; rct; n = 120\n   https://consensus.app/papers/x\n   finding: Tea is warm.\n   abstract: We poured.\n"
		if r.Output != want || r.Cost == nil || *r.Cost != 2500*events.MicroUSD {
			t.Errorf("%+v\n%s", r, r.Output)
		}
		if r := call(t, consensus(t, apitest.New(t, 200, consensusHits), 0), `{"query":"tea"}`); r.Cost != nil || !strings.Contains(r.Output, "O. Prim, Q. Rask") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("nothing found", func(t *testing.T) {
		for name, s := range map[string]papers.Source{
			"openalex":  openAlex(t, apitest.New(t, 200, `{"meta":{"count":0},"results":[]}`), ""),
			"semantic":  semantic(t, apitest.New(t, 200, `{"total":0,"offset":0}`)),
			"consensus": consensus(t, apitest.New(t, 200, `{"results":[]}`), 0),
		} {
			if r := call(t, s, `{"query":"tea"}`); r.Status != tools.Completed || !strings.Contains(r.Output, "no papers found") || len(r.Sources) != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
	t.Run("SG-128 the preset", func(t *testing.T) {
		s := apitest.New(t, 200, openAlexHits)
		a := must[tools.Tool](t)(papers.OpenAlexSearch(papers.OpenAlexOptions{BaseURL: s.URL}))
		b := must[tools.Tool](t)(papers.Search(papers.Options{Source: openAlex(t, s, "")}))
		if a.Definition().Hash() != b.Definition().Hash() {
			t.Error("it declares another tool")
		}
		toolstest.TestTool(t, a, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"query":"tea"}`)})
	})
	t.Run("SG-21 SG-122 wants a phrase", func(t *testing.T) {
		d := must[tools.Tool](t)(papers.OpenAlexSearch(papers.OpenAlexOptions{})).Definition()
		if d.Wants == nil || d.Wants.Name == "" || d.Wants.Description == "" {
			t.Errorf("wants %+v", d.Wants)
		}
	})
}

func TestServicesThatFail(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"401", 401, `{"error":"bad key s3cret"}`, "refused the key, or wants one (status 401)"},
		{"403", 403, `<html>forbidden</html>`, "refused the key, or wants one (status 403)"},
		{"429", 429, `{"message":"Too Many Requests"}`, "has had too many requests (status 429); it asks to wait 9 seconds"},
		{"400", 400, `{"error":"x"}`, "refused the request (status 400)"},
		{"500", 500, ``, "is out of order (status 500)"},
		{"503", 503, `down`, "is out of order (status 503)"},
		{"204", 204, ``, "gave no answer (status 204)"},
		{"no JSON", 200, `<html>`, "answered something unreadable"},
		{"truncated", 200, openAlexHits[:300], "answered something unreadable"},
		{"another shape", 200, `{"ok":true}`, "answered something unreadable"},
		{"wrong types", 200, `{"meta":{"cost_usd":{}},"results":"none","data":"x"}`, "answered something unreadable"},
		{"null", 200, `null`, "answered something unreadable"},
		{"deep", 200, strings.Repeat("[", 100_000), "answered something unreadable"},
	} {
		t.Run("SG-136 "+tt.name, func(t *testing.T) {
			s := apitest.New(t, tt.status, tt.body)
			for _, source := range []papers.Source{openAlex(t, s, "s3cret"), semantic(t, s), consensus(t, s, 1)} {
				r := call(t, source, `{"query":"tea"}`)
				if r.Status != tools.Failed || r.Error != source.Name()+" "+tt.want || r.Cost != nil {
					t.Errorf("%s: %+v, want %q", source.Name(), r, tt.want)
				}
			}
			if len(s.Seen()) != 3 {
				t.Errorf("%d requests for three searches", len(s.Seen()))
			}
		})
	}
	t.Run("a server that is away", func(t *testing.T) {
		s := apitest.New(t, 200, ``)
		gone := httptest.NewServer(http.NotFoundHandler())
		s.URL = gone.URL
		gone.Close()
		if r := call(t, openAlex(t, s, "s3cret"), `{"query":"tea"}`); r.Error != "openalex cannot be reached" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a broken-off answer", func(t *testing.T) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"meta":`)
		}))
		t.Cleanup(srv.Close)
		if r := call(t, openAlex(t, &apitest.Service{URL: srv.URL}, ""), `{"query":"tea"}`); r.Error != "openalex broke off its answer" {
			t.Errorf("%+v", r)
		}
	})
}

// A service that sends its key back carries it nowhere: not into a result, an
// error or an event.
func TestKeysAreWithheld(t *testing.T) {
	const key = netguardtest.Canary
	for name, form := range netguardtest.Echoes(key) {
		t.Run("SG-136 "+name, func(t *testing.T) {
			text, _ := json.Marshal("You are " + form + ".")
			for status, source := range map[int][]papers.Source{200: echoing(t, 200, string(text)), 401: echoing(t, 401, string(text))} {
				for _, s := range append(source, papers.Every(source...)) {
					tool := must[tools.Tool](t)(papers.Search(papers.Options{Source: s}))
					d, es := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(`{"query":"tea"}`)})
					b, err := json.Marshal([]any{d.Result, es})
					if err != nil {
						t.Fatal(err)
					}
					if leaks := netguardtest.Leaks(key, string(b)); leaks != nil || status == 200 != strings.Contains(string(b), "[withheld]") {
						t.Errorf("%s, %d: %v in %s", s.Name(), status, leaks, b)
					}
				}
			}
		})
	}
}

// echoing are all sources with a key, whose services answer with text, in JSON.
func echoing(t *testing.T, status int, text string) []papers.Source {
	t.Helper()
	const key = netguardtest.Canary
	open := apitest.New(t, status, `{"meta":{"cost_usd":0.001},"results":[{"id":"W1","display_name":`+text+`}]}`)
	scholar := apitest.New(t, status, `{"total":1,"data":[{"url":"x","title":`+text+`}]}`)
	other := apitest.New(t, status, `{"results":[{"title":"Tea","authors":[`+text+`],"takeaway":`+text+`}]}`)
	return []papers.Source{
		openAlex(t, open, key),
		must[papers.Source](t)(papers.SemanticScholar(papers.SemanticScholarOptions{APIKey: key, BaseURL: scholar.URL})),
		must[papers.Source](t)(papers.Consensus(papers.ConsensusOptions{APIKey: key, BaseURL: other.URL})),
	}
}

func TestArguments(t *testing.T) {
	s := apitest.New(t, 200, openAlexHits)
	tool := must[tools.Tool](t)(papers.Search(papers.Options{Source: openAlex(t, s, "")}))
	for _, args := range []string{
		`{"query":"x","fields":"tea"}`, `{"query":"x","study_types":["rct"]}`, `{}`, `{"query":7}`, `{"query":"x","year_min":"2015"}`, `{"query":"x","year_min":20.5}`,
	} {
		t.Run("SG-124 "+args, func(t *testing.T) {
			toolstest.AssertBlocked(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(args)}, events.BlockedInvalidArguments)
		})
	}
	for _, args := range []string{
		`{"query":" "}`, `{"query":"x","year_min":2020,"year_max":2019}`, `{"query":"x","year_min":-1}`, `{"query":"x","year_max":12345}`,
		`{"query":"x","min_citations":-1}`, `{"query":"` + strings.Repeat("a", 1001) + `"}`,
	} {
		t.Run("SG-124 "+args[:min(len(args), 60)], func(t *testing.T) {
			if r := call(t, openAlex(t, s, ""), args); r.Status != tools.Failed || !strings.Contains(r.Error, "invalid arguments for paper_search") {
				t.Errorf("%+v", r)
			}
		})
	}
	if len(s.Seen()) != 0 {
		t.Errorf("%d requests were made", len(s.Seen()))
	}
	for _, o := range []papers.Options{{}, {Source: openAlex(t, s, ""), MaxResults: -1}, {Source: openAlex(t, s, ""), MaxResults: 101}} {
		if _, err := papers.Search(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

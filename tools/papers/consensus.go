package papers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/tools/netguard"
)

// ConsensusOptions configure [Consensus].
type ConsensusOptions struct {
	APIKey string // required
	// StudyTypes such as "rct", "meta-analysis"; empty is all.
	StudyTypes       []string
	ExcludePreprints bool
	// CostMicroUSD is what one search costs by contract, since the answer does
	// not say. Zero means that nobody knows.
	CostMicroUSD int64
	// BaseURL is https://api.consensus.app if empty.
	BaseURL string
	Net     netguard.Net
}

// Consensus returns Consensus as a source: the one that knows study type,
// sample size and a finding of one line.
func Consensus(o ConsensusOptions) (Source, error) {
	if o.APIKey == "" {
		return nil, errors.New("consensus: a key is required")
	}
	if o.CostMicroUSD < 0 {
		return nil, errors.New("consensus: the cost of a search is negative")
	}
	s, err := netguard.NewService(netguard.ServiceConfig{
		Name: "consensus", BaseURL: cmp.Or(o.BaseURL, "https://api.consensus.app"), Header: http.Header{"X-Api-Key": {o.APIKey}}, Net: o.Net,
	})
	if err != nil {
		return nil, err
	}
	o.APIKey = ""
	return &consensus{s, o}, nil
}

type consensus struct {
	service *netguard.Service
	options ConsensusOptions
}

func (*consensus) Name() string { return "consensus" }

type consensusAnswer struct {
	Results []struct {
		Title         string `json:"title"`
		Authors       names  `json:"authors"`
		Abstract      string `json:"abstract"`
		JournalName   string `json:"journal_name"`
		PublishYear   int    `json:"publish_year"`
		CitationCount *int   `json:"citation_count"`
		DOI           string `json:"doi"`
		URL           string `json:"url"`
		StudyType     string `json:"study_type"`
		SampleSize    int    `json:"sample_size"`
		Takeaway      string `json:"takeaway"`
		PDFURL        string `json:"open_access_pdf_url"`
	} `json:"results"`
}

// names are a list, or one text with commas.
type names []string

func (n *names) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*[]string)(n))
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	return nil
}

func (s *consensus) Search(ctx context.Context, q Query) (Found, error) {
	v := url.Values{"query": {q.Text}, "page_size": {strconv.Itoa(min(q.Max, 100))}}
	if q.YearMin != 0 {
		v.Set("year_min", strconv.Itoa(q.YearMin))
	}
	if q.YearMax != 0 {
		v.Set("year_max", strconv.Itoa(q.YearMax))
	}
	if q.OpenAccess {
		v.Set("open_access", "true")
	}
	if s.options.ExcludePreprints {
		v.Set("exclude_preprints", "true")
	}
	v["study_types"] = s.options.StudyTypes
	var a consensusAnswer
	if err := s.service.Get(ctx, "/v1/search", v, &a); err != nil {
		return Found{}, err
	}
	if a.Results == nil {
		return Found{}, unreadable(s)
	}
	f := Found{}
	if c := s.options.CostMicroUSD; c > 0 {
		f.CostMicroUSD = &c
	}
	for _, r := range a.Results {
		if q.MinCitations > 0 && (r.CitationCount == nil || *r.CitationCount < q.MinCitations) {
			continue // it has no filter for that
		}
		f.Papers = append(f.Papers, Paper{
			Title: r.Title, Year: r.PublishYear, Authors: r.Authors, Venue: r.JournalName, Citations: r.CitationCount, DOI: bareDOI(r.DOI),
			OpenPDF: r.PDFURL, Page: r.URL, StudyType: r.StudyType, SampleSize: r.SampleSize, Takeaway: r.Takeaway, Abstract: r.Abstract,
		})
	}
	return f, nil
}

package papers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/tools/netguard"
)

// SemanticScholarOptions configure [SemanticScholar]. The zero value works.
type SemanticScholarOptions struct {
	// APIKey allows one request a second of one's own. Without one, a thousand a
	// second are shared with everybody: expect status 429.
	APIKey string
	// FieldsOfStudy such as "Medicine" or "Computer Science"; empty is all.
	FieldsOfStudy []string
	// BaseURL is https://api.semanticscholar.org if empty.
	BaseURL string
	Net     netguard.Net
}

// SemanticScholar returns Semantic Scholar as a source. Its summaries of one
// sentence are the takeaways. It does not say what a search cost.
func SemanticScholar(o SemanticScholarOptions) (Source, error) {
	h := http.Header{}
	if o.APIKey != "" {
		h.Set("X-Api-Key", o.APIKey)
	}
	s, err := netguard.NewService(netguard.ServiceConfig{
		Name: "semantic_scholar", BaseURL: cmp.Or(o.BaseURL, "https://api.semanticscholar.org"), Header: h, Net: o.Net,
	})
	if err != nil {
		return nil, err
	}
	return &semanticScholar{s, strings.Join(o.FieldsOfStudy, ",")}, nil
}

type semanticScholar struct {
	service *netguard.Service
	fields  string
}

func (*semanticScholar) Name() string { return "semantic_scholar" }

type semanticAnswer struct {
	Total *int `json:"total"`
	Data  []struct {
		URL           string `json:"url"`
		Title         string `json:"title"`
		Abstract      string `json:"abstract"`
		Venue         string `json:"venue"`
		Year          int    `json:"year"`
		CitationCount *int   `json:"citationCount"`
		OpenAccessPDF *struct {
			URL string `json:"url"`
		} `json:"openAccessPdf"`
		ExternalIDs struct {
			DOI string `json:"DOI"`
		} `json:"externalIds"`
		Authors []struct {
			Name string `json:"name"`
		} `json:"authors"`
		TLDR *struct {
			Text string `json:"text"`
		} `json:"tldr"`
		PublicationTypes []string `json:"publicationTypes"`
	} `json:"data"`
}

// studyTypes are those publication types that say how a result was come by.
var studyTypes = map[string]string{
	"Review": "review", "MetaAnalysis": "meta-analysis", "ClinicalTrial": "clinical trial", "CaseReport": "case report", "Study": "study",
}

func (s *semanticScholar) Search(ctx context.Context, q Query) (Found, error) {
	v := url.Values{
		"query": {q.Text}, "limit": {strconv.Itoa(min(q.Max, 100))},
		"fields": {"title,abstract,venue,year,citationCount,openAccessPdf,externalIds,authors,tldr,publicationTypes,url"},
	}
	if q.YearMin != 0 || q.YearMax != 0 {
		v.Set("year", spell(q.YearMin)+"-"+spell(q.YearMax))
	}
	if q.MinCitations > 0 {
		v.Set("minCitationCount", strconv.Itoa(q.MinCitations))
	}
	if q.OpenAccess {
		v.Set("openAccessPdf", "")
	}
	if s.fields != "" {
		v.Set("fieldsOfStudy", s.fields)
	}
	var a semanticAnswer
	if err := s.service.Get(ctx, "/graph/v1/paper/search", v, &a); err != nil {
		return Found{}, err
	}
	if a.Data == nil && (a.Total == nil || *a.Total != 0) { // with no hits it leaves data out
		return Found{}, unreadable(s)
	}
	f := Found{}
	for _, r := range a.Data {
		p := Paper{
			Title: r.Title, Year: r.Year, Venue: r.Venue, Citations: r.CitationCount, DOI: bareDOI(r.ExternalIDs.DOI), Page: r.URL, Abstract: r.Abstract,
		}
		for _, a := range r.Authors {
			p.Authors = append(p.Authors, a.Name)
		}
		if r.OpenAccessPDF != nil {
			p.OpenPDF = r.OpenAccessPDF.URL
		}
		if r.TLDR != nil {
			p.Takeaway = r.TLDR.Text
		}
		for _, t := range r.PublicationTypes {
			p.StudyType = cmp.Or(p.StudyType, studyTypes[t])
		}
		f.Papers = append(f.Papers, p)
	}
	return f, nil
}

// spell writes a year, and nothing for none.
func spell(year int) string {
	if year == 0 {
		return ""
	}
	return fmt.Sprint(year)
}

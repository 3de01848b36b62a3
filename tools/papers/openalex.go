package papers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// OpenAlexOptions configure [OpenAlex]. The zero value works.
type OpenAlexOptions struct {
	// APIKey travels in the Authorization header, never in a URL. It allows ten
	// times as much a day; without one there is little.
	APIKey string
	// BaseURL is https://api.openalex.org if empty.
	BaseURL string
	Net     netguard.Net
}

// OpenAlex returns OpenAlex as a source. It says what each search cost.
func OpenAlex(o OpenAlexOptions) (Source, error) {
	h := http.Header{}
	if o.APIKey != "" {
		h.Set("Authorization", "Bearer "+o.APIKey)
	}
	s, err := netguard.NewService(netguard.ServiceConfig{
		Name: "openalex", BaseURL: cmp.Or(o.BaseURL, "https://api.openalex.org"), Header: h, Net: o.Net,
	})
	if err != nil {
		return nil, err
	}
	return &openAlex{s}, nil
}

// OpenAlexSearch returns paper_search over OpenAlex alone.
func OpenAlexSearch(o OpenAlexOptions) (tools.Tool, error) {
	s, err := OpenAlex(o)
	if err != nil {
		return nil, err
	}
	return Search(Options{Source: s})
}

type openAlex struct{ service *netguard.Service }

func (*openAlex) Name() string { return "openalex" }

type openAlexAnswer struct {
	Meta *struct {
		CostUSD json.Number `json:"cost_usd"`
	} `json:"meta"`
	Results []struct {
		ID            string           `json:"id"`
		DOI           string           `json:"doi"`
		DisplayName   string           `json:"display_name"`
		Year          int              `json:"publication_year"`
		CitedBy       *int             `json:"cited_by_count"`
		Type          string           `json:"type"`
		AbstractIndex map[string][]int `json:"abstract_inverted_index"`
		Authorships   []struct {
			Author struct {
				DisplayName string `json:"display_name"`
			} `json:"author"`
		} `json:"authorships"`
		PrimaryLocation *struct {
			Source *struct {
				DisplayName string `json:"display_name"`
			} `json:"source"`
		} `json:"primary_location"`
		BestOALocation *struct {
			PDFURL string `json:"pdf_url"`
		} `json:"best_oa_location"`
	} `json:"results"`
}

const openAlexFields = "id,doi,display_name,publication_year,cited_by_count,type,authorships,primary_location,best_oa_location,abstract_inverted_index"

func (s *openAlex) Search(ctx context.Context, q Query) (Found, error) {
	v := url.Values{"search": {q.Text}, "per_page": {strconv.Itoa(min(q.Max, 100))}, "select": {openAlexFields}}
	var filter []string
	if q.YearMin != 0 || q.YearMax != 0 {
		filter = append(filter, "publication_year:"+years(q))
	}
	if q.MinCitations > 0 {
		filter = append(filter, fmt.Sprintf("cited_by_count:>%d", q.MinCitations-1))
	}
	if q.OpenAccess {
		filter = append(filter, "is_oa:true")
	}
	if filter != nil {
		v.Set("filter", strings.Join(filter, ","))
	}
	var a openAlexAnswer
	if err := s.service.Get(ctx, "/works", v, &a); err != nil {
		return Found{}, err
	}
	if a.Results == nil || a.Meta == nil {
		return Found{}, unreadable(s)
	}
	f := Found{}
	if micro, ok := netguard.MicroUSD(a.Meta.CostUSD); ok {
		f.CostMicroUSD = &micro
	}
	for _, r := range a.Results {
		p := Paper{
			Title: r.DisplayName, Year: r.Year, Citations: r.CitedBy, DOI: bareDOI(r.DOI), Page: r.ID, Abstract: abstractOf(r.AbstractIndex),
		}
		for _, a := range r.Authorships {
			p.Authors = append(p.Authors, a.Author.DisplayName)
		}
		if l := r.PrimaryLocation; l != nil && l.Source != nil {
			p.Venue = l.Source.DisplayName
		}
		if l := r.BestOALocation; l != nil {
			p.OpenPDF = l.PDFURL
		}
		if r.Type == "review" {
			p.StudyType = "review"
		}
		f.Papers = append(f.Papers, p)
	}
	return f, nil
}

// years writes a range as OpenAlex reads it.
func years(q Query) string {
	switch {
	case q.YearMin == 0:
		return fmt.Sprintf("<%d", q.YearMax+1)
	case q.YearMax == 0:
		return fmt.Sprintf(">%d", q.YearMin-1)
	}
	return fmt.Sprintf("%d-%d", q.YearMin, q.YearMax)
}

// abstractOf puts an abstract together that is stored as word → positions.
func abstractOf(index map[string][]int) string {
	type word struct {
		at   int
		text string
	}
	var words []word
	for text, positions := range index {
		for _, at := range positions {
			words = append(words, word{at, text})
		}
	}
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) })
	var b strings.Builder
	for _, w := range words {
		if b.Len() > maxAbstract {
			break
		}
		b.WriteString(w.text)
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// unreadable is an answer of another shape than that of the service.
func unreadable(s Source) error {
	return fmt.Errorf("%s answered something unreadable", s.Name())
}

package search

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/daybookhq/daybook/tools/internal/fanout"
	"github.com/daybookhq/daybook/tools/netguard"
)

// SearXNGOptions configure [SearXNG].
type SearXNGOptions struct {
	// BaseURL is where the instance is, such as http://searxng:8080. Its address
	// may be private, since no model has a say in it.
	BaseURL string
	// Language such as "en"; empty is that of the instance.
	Language string
	// Engines such as "wikipedia"; empty is those of the instance.
	Engines []string
	// Domains: results from elsewhere are left out.
	Domains []string
	// Read reads the pages behind the hits, at public addresses alone. Nil: the
	// answer is made of what the engines quote.
	Read Reader
	Net  netguard.Net
}

// SearXNG returns a self-hosted SearXNG: no key, no bill. The text of the first
// pages is the answer: 5 of them for quick, 8 for pro, 10 for deep.
func SearXNG(o SearXNGOptions) (Searcher, error) {
	if o.BaseURL == "" {
		return nil, errors.New("searxng: the address of an instance is required")
	}
	s, err := netguard.NewService(netguard.ServiceConfig{Name: "searxng", BaseURL: o.BaseURL, Net: o.Net})
	if err != nil {
		return nil, err
	}
	return &searxng{s, o}, nil
}

type searxng struct {
	service *netguard.Service
	options SearXNGOptions
}

func (*searxng) Name() string { return "searxng" }

var pagesOf = map[Depth]int{Quick: 5, Pro: 8, Deep: 10}

// maxPageText is what is told of one page, in bytes.
const maxPageText = 6000

type searxngAnswer struct {
	Results *[]searxngHit `json:"results"`
}

type searxngHit struct {
	URL     string `json:"url"`
	Title   string `json:"title"`
	Content string `json:"content"`
}

func (s *searxng) Search(ctx context.Context, q Query) (Result, error) {
	v := url.Values{"q": {q.Text}, "format": {"json"}}
	if len(s.options.Domains) > 0 {
		v.Set("q", q.Text+" site:"+strings.Join(s.options.Domains, " OR site:"))
	}
	if s.options.Language != "" {
		v.Set("language", s.options.Language)
	}
	if len(s.options.Engines) > 0 {
		v.Set("engines", strings.Join(s.options.Engines, ","))
	}
	if q.Recency != "" {
		v.Set("time_range", string(q.Recency))
	}
	var a searxngAnswer
	err := s.service.Get(ctx, "/search", v, &a)
	if e := (*netguard.ServiceError)(nil); errors.As(err, &e) && e.Status == 403 {
		return Result{}, errors.New("searxng refused to answer in JSON (status 403): list json under search.formats in its settings.yml, and switch its limiter off")
	}
	if err != nil {
		return Result{}, err
	}
	if a.Results == nil {
		return Result{}, errors.New("searxng answered something unreadable")
	}
	var hits []searxngHit
	for _, h := range *a.Results {
		if len(hits) < pagesOf[q.Depth] && s.wanted(h.URL) {
			hits = append(hits, h)
		}
	}
	return s.read(ctx, hits)
}

// wanted reports whether a hit can be shown and comes from a domain of the
// options. Engines take site: for a wish.
func (s *searxng) wanted(link string) bool {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return false
	}
	for _, d := range s.options.Domains {
		if h := strings.ToLower(u.Hostname()); h == d || strings.HasSuffix(h, "."+d) {
			return true
		}
	}
	return len(s.options.Domains) == 0
}

// read puts the answer together from the pages, and from what the engine
// quotes of those that cannot be read.
func (s *searxng) read(ctx context.Context, hits []searxngHit) (Result, error) {
	texts, cut := make([]string, len(hits)), make([]bool, len(hits))
	var all sync.WaitGroup
	for i, h := range hits {
		all.Go(func() { texts[i], cut[i] = s.page(ctx, h) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	r := Result{Model: "searxng", Domains: s.options.Domains}
	var b strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&b, "%d. %s\n%s\n%s\n\n", i+1, line(h.Title), line(h.URL), texts[i])
		r.Results = append(r.Results, Hit{Title: line(h.Title), URL: h.URL})
		r.Truncated = r.Truncated || cut[i]
	}
	if r.Answer = b.String(); r.Answer == "" {
		r.Answer = "nothing found; try other words"
	}
	return r, nil
}

func (s *searxng) page(ctx context.Context, h searxngHit) (text string, cut bool) {
	if s.options.Read == nil {
		return line(h.Content), false
	}
	p, err := s.options.Read.Read(ctx, h.URL)
	if err != nil {
		return line(h.Content) + "\n(the page was not read: " + line(err.Error()) + ")", false
	}
	if len(p.Text) > maxPageText {
		return strings.ToValidUTF8(p.Text[:maxPageText], ""), true
	}
	return p.Text, p.Cut
}

// line makes one line of text from outside.
func line(s string) string { return fanout.Line(s, 500) }

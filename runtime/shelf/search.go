package shelf

import (
	"errors"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/papers"
	"github.com/daybookhq/daybook/tools/search"
)

func (r *reader) webSearch(m *strictyaml.Map) func() error {
	o := search.Options{
		MaxDepth: search.Depth(oneOf(m, "max_depth", string(search.Deep), string(search.Pro), string(search.Quick))),
		Price:    microUSD(m, "price"),
	}
	var pages *extract.Options
	if pm := m.Map("pages"); pm != nil {
		p := r.pages(pm)
		pages = &p
		pm.Done("pages")
	}
	links := m.Bool("links")
	if links && pages == nil {
		m.Fault("links", "links are read as pages are; write under pages which hosts may be read")
	}
	var searx *search.SearXNGOptions
	if sm := m.Map("searxng"); sm != nil {
		searx = &search.SearXNGOptions{
			BaseURL: sm.Need("url", "where your instance is, such as http://searxng:8080"), Language: sm.Text("language"),
			Engines: sm.Texts("engines"), Domains: sm.Texts("domains"), Net: r.o.Net,
		}
		sm.Done("searxng")
	}
	var sonar *search.SonarOptions
	if sm := m.Map("sonar"); sm != nil {
		sonar = &search.SonarOptions{APIKey: r.secret(sm, "secret", true), Domains: sm.Texts("domains"), BaseURL: sm.Text("url"), Net: r.o.Net}
		sm.Done("sonar")
	}
	return func() error {
		var all []search.Searcher
		var errs []error
		take := func(s search.Searcher, err error) {
			all, errs = append(all, s), append(errs, err)
		}
		if pages != nil {
			reader, err := extract.NewReader(*pages)
			if err != nil {
				return err
			}
			if links {
				o.Read = reader
			}
			if searx != nil {
				searx.Read = reader
			}
		}
		if searx != nil {
			take(search.SearXNG(*searx))
		}
		if sonar != nil {
			take(search.Sonar(*sonar))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		switch len(all) {
		case 0:
			return errors.New("there is nothing to search with; write searxng or sonar below it")
		case 1:
			o.Searcher = all[0] // an answer of one need not say whose it is
		default:
			o.Searcher = search.Every(all...)
		}
		t, err := search.Web(o)
		return r.put(Builtin, t, err)
	}
}

func (r *reader) paperSearch(m *strictyaml.Map) func() error {
	o := papers.Options{MaxResults: int(m.Int("max_results", 1)), Price: microUSD(m, "price")}
	var open []func() (papers.Source, error)
	for _, source := range []struct {
		name string
		read func(*reader, *strictyaml.Map) func() (papers.Source, error)
	}{
		{"openalex", (*reader).openAlex},
		{"semantic_scholar", (*reader).semanticScholar},
		{"consensus", (*reader).consensus},
	} {
		if sm := m.Map(source.name); sm != nil {
			open = append(open, source.read(r, sm))
			sm.Done(source.name)
		}
	}
	return func() error {
		var all []papers.Source
		for _, f := range open {
			s, err := f()
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		switch len(all) {
		case 0:
			return errors.New("there is nothing to search; write openalex: {}, semantic_scholar: {} or consensus below it")
		case 1:
			o.Source = all[0]
		default:
			o.Source = papers.Every(all...)
		}
		t, err := papers.Search(o)
		return r.put(Builtin, t, err)
	}
}

func (r *reader) openAlex(m *strictyaml.Map) func() (papers.Source, error) {
	o := papers.OpenAlexOptions{APIKey: r.secret(m, "secret", false), BaseURL: m.Text("url"), Net: r.o.Net}
	return func() (papers.Source, error) { return papers.OpenAlex(o) }
}

func (r *reader) semanticScholar(m *strictyaml.Map) func() (papers.Source, error) {
	o := papers.SemanticScholarOptions{
		APIKey: r.secret(m, "secret", false), FieldsOfStudy: m.Texts("fields_of_study"), BaseURL: m.Text("url"), Net: r.o.Net,
	}
	return func() (papers.Source, error) { return papers.SemanticScholar(o) }
}

func (r *reader) consensus(m *strictyaml.Map) func() (papers.Source, error) {
	o := papers.ConsensusOptions{
		APIKey: r.secret(m, "secret", true), StudyTypes: m.Texts("study_types"), ExcludePreprints: m.Bool("exclude_preprints"),
		CostMicroUSD: microUSD(m, "cost"), BaseURL: m.Text("url"), Net: r.o.Net,
	}
	return func() (papers.Source, error) { return papers.Consensus(o) }
}

package builtin

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// WikidataOptions configure [Wikidata]. The zero value works.
type WikidataOptions struct {
	// Language of labels, as in "en" or "de"; "en" if empty.
	Language string
	// BaseURL is https://www.wikidata.org if empty.
	BaseURL string
	Net     netguard.Net
}

var languageRule = regexp.MustCompile(`^[a-z]{2,3}(-[a-z]{2,8})*$`)

// Wikidata returns wikidata, which looks up a thing by its name and tells what
// is known of it: every property and value by its label, none by a bare id.
func Wikidata(o WikidataOptions) (tools.Tool, error) {
	w := &wikidata{language: cmp.Or(o.Language, "en")}
	if !languageRule.MatchString(w.language) {
		return nil, fmt.Errorf("wikidata: language %q: want a code such as en", o.Language)
	}
	var err error
	w.service, err = netguard.NewService(netguard.ServiceConfig{Name: "wikidata", BaseURL: cmp.Or(o.BaseURL, "https://www.wikidata.org"), Net: o.Net})
	if err != nil {
		return nil, err
	}
	return tools.New(tools.Definition{
		Name:        "wikidata",
		Description: "Looks up a person, place, work or other thing in Wikidata by its name and returns the facts known about it.",
		Aliases:     []string{"facts", "entity", "encyclopedia", "knowledge"},
		Effect:      tools.Readonly,
		Trust:       tools.External,
	}, w.look)
}

type wikidata struct {
	service  *netguard.Service
	language string
}

// Bounds of what is asked and told.
const (
	maxStatements = 60 // properties
	maxValues     = 8  // of one property
	labelsAtOnce  = 50 // the limit of the service
)

func (w *wikidata) look(ctx context.Context, _ *tools.Invocation, in struct {
	Name string `json:"name" jsonschema:"what is looked up, by its name or its id such as Q42"`
},
) (page, error) {
	name := strings.TrimSpace(in.Name)
	if name == "" || len(name) > 250 {
		return page{}, &tools.ArgumentError{Tool: "wikidata", Problems: []string{"name: want 1 to 250 bytes"}}
	}
	id, others, err := w.find(ctx, name)
	if err != nil {
		return page{}, err
	}
	if id == "" {
		return page{Answer: "nothing of that name was found; try another spelling", Results: []events.Source{}}, nil
	}
	e, err := w.entity(ctx, id)
	if err != nil {
		return page{}, err
	}
	facts, refs := e.facts()
	labels, err := w.labels(ctx, refs)
	if err != nil {
		return page{}, err
	}
	title := e.text(e.Labels, w.language)
	if title == "" {
		title = name
	}
	var b strings.Builder
	b.WriteString(title)
	if d := e.text(e.Descriptions, w.language); d != "" {
		b.WriteString(": " + d)
	}
	b.WriteByte('\n')
	for _, f := range facts {
		f.write(&b, labels)
	}
	if len(others) > 0 {
		b.WriteString("also of that name: " + strings.Join(others, "; ") + "\n")
	}
	return page{b.String(), []events.Source{{Title: title, URL: "https://www.wikidata.org/wiki/" + id}}}, nil
}

var entityRule = regexp.MustCompile(`^[QP][1-9][0-9]{0,15}$`)

// find returns the best match, and what others are.
func (w *wikidata) find(ctx context.Context, name string) (id string, others []string, err error) {
	if entityRule.MatchString(name) {
		return name, nil, nil
	}
	var a struct {
		Search *[]struct {
			ID          string `json:"id"`
			Label       string `json:"label"`
			Description string `json:"description"`
		} `json:"search"`
	}
	err = w.service.Get(ctx, "/w/api.php", url.Values{
		"action": {"wbsearchentities"}, "format": {"json"}, "search": {name}, "language": {w.language}, "uselang": {w.language}, "limit": {"5"},
	}, &a)
	if err != nil {
		return "", nil, err
	}
	if a.Search == nil {
		return "", nil, errUnreadable
	}
	for _, hit := range *a.Search {
		switch {
		case !entityRule.MatchString(hit.ID):
		case id == "":
			id = hit.ID
		case hit.Description != "":
			others = append(others, oneLine(hit.Label+", "+hit.Description))
		}
	}
	return id, others, nil
}

func (w *wikidata) entity(ctx context.Context, id string) (*wikidataEntity, error) {
	all, err := w.entities(ctx, []string{id}, "labels|descriptions|claims")
	if err != nil {
		return nil, err
	}
	for _, e := range all { // a redirect comes under another id
		if e.Missing == nil {
			return &e, nil
		}
	}
	return nil, fmt.Errorf("wikidata has nothing under %s", id)
}

func (w *wikidata) entities(ctx context.Context, ids []string, props string) (map[string]wikidataEntity, error) {
	var a struct {
		Entities map[string]wikidataEntity `json:"entities"`
	}
	err := w.service.Get(ctx, "/w/api.php", url.Values{
		"action": {"wbgetentities"}, "format": {"json"}, "ids": {strings.Join(ids, "|")}, "props": {props},
		"languages": {w.language}, "languagefallback": {"1"},
	}, &a)
	if err != nil {
		return nil, err
	}
	if a.Entities == nil {
		return nil, errUnreadable
	}
	return a.Entities, nil
}

// labels finds what ids are called.
func (w *wikidata) labels(ctx context.Context, ids []string) (map[string]string, error) {
	labels := map[string]string{}
	for some := range slices.Chunk(ids, labelsAtOnce) {
		all, err := w.entities(ctx, some, "labels")
		if err != nil {
			return nil, err
		}
		for id, e := range all {
			labels[id] = e.text(e.Labels, w.language)
		}
	}
	return labels, nil
}

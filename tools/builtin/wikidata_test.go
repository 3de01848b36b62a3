package builtin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// A thing that does not exist, in the shape of the service.
const (
	wikidataHits  = `{"search":[{"id":"Q7001","label":"Ada Quill","description":"invented engineer"},{"id":"Q7002","label":"Ada Quill","description":"a ship"},{"id":"L9","label":"x","description":"y"}]}`
	wikidataThing = `{"entities":{"Q7001":{"id":"Q7001","labels":{"en":{"language":"en","value":"Ada Quill"}},"descriptions":{"en":{"value":"invented  engineer"}},"claims":{
		"P31":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid","value":{"id":"Q5"}}}}],
		"P569":[{"rank":"deprecated","mainsnak":{"snaktype":"value","datatype":"time","datavalue":{"type":"time","value":{"time":"+1900-00-00T00:00:00Z","precision":9}}}},
		        {"rank":"normal","mainsnak":{"snaktype":"value","datatype":"time","datavalue":{"type":"time","value":{"time":"+1921-03-11T00:00:00Z","precision":11}}}}],
		"P570":[{"rank":"normal","mainsnak":{"snaktype":"somevalue","datatype":"time"}}],
		"P2048":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"quantity","datavalue":{"type":"quantity","value":{"amount":"+171","unit":"http://www.wikidata.org/entity/Q174728"}}}}],
		"P27":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid","value":{"id":"Q404"}}}},
		       {"rank":"preferred","mainsnak":{"snaktype":"value","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid","value":{"id":"Q39"}}}}],
		"P106":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid","value":{"id":"Q999"}}}},
		        {"rank":"normal","mainsnak":{"snaktype":"value","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid","value":{"id":"Q81096"}}}}],
		"P214":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"external-id","datavalue":{"type":"string","value":"12345"}}}],
		"P1559":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"monolingualtext","datavalue":{"type":"monolingualtext","value":{"text":"Ada\nQuill","language":"en"}}}}],
		"P7777":[{"rank":"normal","mainsnak":{"snaktype":"value","datatype":"string","datavalue":{"type":"string","value":"unlabelled property"}}}]}}}}`
	wikidataLabels = `{"entities":{"P31":{"labels":{"en":{"value":"instance of"}}},"P569":{"labels":{"en":{"value":"date of birth"}}},"P2048":{"labels":{"en":{"value":"height"}}},
		"P27":{"labels":{"en":{"value":"country of citizenship"}}},"P106":{"labels":{"en":{"value":"occupation"}}},"P1559":{"labels":{"en":{"value":"name in native language"}}},
		"Q5":{"labels":{"en":{"value":"human"}}},"Q174728":{"labels":{"en":{"value":"centimetre"}}},"Q39":{"labels":{"en":{"value":"Switzerland"}}},"Q81096":{"labels":{"de":{"value":"Ingenieur"}}},
		"Q999":{"labels":{}},"P7777":{"missing":""}}}`
)

func wikidata(t *testing.T, answer func(q map[string]string) (int, string)) (tools.Tool, *int) {
	t.Helper()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		q := map[string]string{}
		for k, v := range r.URL.Query() {
			q[k] = v[0]
		}
		status, body := answer(q)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return made(t)(builtin.Wikidata(builtin.WikidataOptions{BaseURL: srv.URL})), &n
}

func asWikidata(q map[string]string) (int, string) {
	switch {
	case q["action"] == "wbsearchentities":
		return 200, wikidataHits
	case strings.Contains(q["props"], "claims"):
		return 200, wikidataThing
	}
	return 200, wikidataLabels
}

func TestWikidata(t *testing.T) {
	tool, n := wikidata(t, asWikidata)
	t.Run("SG-79 labels and no ids", func(t *testing.T) {
		r := call(t, tool, `{"name":"Ada Quill"}`)
		want := "Ada Quill: invented engineer\n- country of citizenship: Switzerland\n- instance of: human\n- occupation: Ingenieur; and 1 more\n- date of birth: 1921-03-11\n" +
			"- name in native language: Ada Quill\n- height: 171 centimetre\nalso of that name: Ada Quill, a ship\n"
		if r.Output != want || len(r.Sources) != 1 || r.Sources[0] != (events.Source{Title: "Ada Quill", URL: "https://www.wikidata.org/wiki/Q7001"}) {
			t.Errorf("%+v\n%s", r, r.Output)
		}
		if bare := regexp.MustCompile(`\b[QP][0-9]+\b`).FindString(r.Output); bare != "" {
			t.Errorf("%s is left", bare)
		}
		if *n != 3 {
			t.Errorf("%d requests", *n)
		}
	})
	t.Run("SG-79 by id", func(t *testing.T) {
		*n = 0
		if r := call(t, tool, `{"name":"Q7001"}`); !strings.HasPrefix(r.Output, "Ada Quill") || *n != 2 {
			t.Errorf("%+v after %d requests", r, *n)
		}
	})
	t.Run("SG-79 the kit", func(t *testing.T) {
		toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"name":"Ada Quill"}`)})
	})
	t.Run("SG-79 nothing of that name", func(t *testing.T) {
		tool, _ := wikidata(t, func(map[string]string) (int, string) { return 200, `{"search":[]}` })
		if r := call(t, tool, `{"name":"nobody"}`); r.Status != tools.Completed || !strings.Contains(r.Output, "nothing of that name") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SG-79 an id that is none", func(t *testing.T) {
		tool, _ := wikidata(t, func(map[string]string) (int, string) { return 200, `{"entities":{"Q1":{"id":"Q1","missing":""}}}` })
		if r := call(t, tool, `{"name":"Q1"}`); r.Status != tools.Failed {
			t.Errorf("%+v", r)
		}
	})
	for name, a := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"403":          {403, "", "wikidata refused the key, or wants one (status 403)"},
		"429":          {429, "", "wikidata has had too many requests (status 429)"},
		"503":          {503, "", "wikidata is out of order (status 503)"},
		"an error":     {200, `{"error":{"code":"x"}}`, "wikidata answered something unreadable"},
		"truncated":    {200, wikidataHits[:40], "wikidata answered something unreadable"},
		"another type": {200, `{"search":{"a":1}}`, "wikidata answered something unreadable"},
	} {
		t.Run("SG-79 "+name, func(t *testing.T) {
			tool, _ := wikidata(t, func(map[string]string) (int, string) { return a.status, a.body })
			if r := call(t, tool, `{"name":"Ada"}`); r.Status != tools.Failed || r.Error != a.want {
				t.Errorf("%+v, want %q", r, a.want)
			}
		})
	}
	t.Run("SG-79 arguments", func(t *testing.T) {
		for _, args := range []string{`{"name":" "}`, `{"name":"` + strings.Repeat("a", 251) + `"}`} {
			if r := call(t, tool, args); r.Status != tools.Failed {
				t.Errorf("%+v", r)
			}
		}
		if _, err := builtin.Wikidata(builtin.WikidataOptions{Language: "en&x=1"}); err == nil {
			t.Error("a language that is none is accepted")
		}
	})
}

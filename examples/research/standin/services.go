package standin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// answer sends JSON.
func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the caller may be gone
}

func file(name string) []byte {
	b, err := data.ReadFile("data/" + name)
	if err != nil {
		panic(err) // it is built in
	}
	return b
}

// about reports whether a query is about the one thing that is known here.
func about(query string) bool { return strings.Contains(strings.ToLower(query), "kelp") }

// searxng answers as an instance whose settings.yml lists json.
func searxng(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Get("format") != "json":
		http.Error(w, "pages for people are not made here", http.StatusForbidden)
	case !about(q.Get("q")):
		answer(w, []byte(`{"query":"","number_of_results":0,"results":[],"answers":[],"corrections":[],"infoboxes":[],"suggestions":[],"unresponsive_engines":[]}`))
	default:
		answer(w, file("searxng.json"))
	}
}

// openAlex wants a key in the header that the real one reads.
func (w *World) openAlex(rw http.ResponseWriter, r *http.Request) {
	body := file("openalex.json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+w.cfg.Key:
		rw.WriteHeader(http.StatusUnauthorized)
		return
	case !about(r.URL.Query().Get("search")):
		body = []byte(`{"meta":{"count":0,"page":1,"per_page":10,"cost_usd":0.001},"results":[],"group_by":[]}`)
	case w.cfg.Leak:
		body = bytes.ReplaceAll(body, []byte("without a conclusion"), []byte("for "+w.cfg.Key))
	}
	answer(rw, body)
}

func (w *World) semanticScholar(rw http.ResponseWriter, r *http.Request) {
	body := file("semanticscholar.json")
	switch {
	case !about(r.URL.Query().Get("query")):
		body = []byte(`{"total":0,"offset":0}`) // the real one leaves data out, too
	case w.cfg.Leak:
		body = bytes.ReplaceAll(body, []byte("We counted urchins."), []byte("We counted "+w.cfg.Key))
	}
	answer(rw, body)
}

// wikidata knows wbsearchentities and wbgetentities.
func wikidata(w http.ResponseWriter, r *http.Request) {
	var known struct {
		Search   []json.RawMessage          `json:"search"`
		Entities map[string]json.RawMessage `json:"entities"`
	}
	if err := json.Unmarshal(file("wikidata.json"), &known); err != nil {
		panic(err) // it is built in
	}
	q := r.URL.Query()
	var out map[string]any
	switch q.Get("action") {
	case "wbsearchentities":
		if !strings.EqualFold(q.Get("search"), "Port Merrow") {
			known.Search = []json.RawMessage{}
		}
		out = map[string]any{"searchinfo": map[string]string{"search": q.Get("search")}, "search": known.Search, "success": 1}
	case "wbgetentities":
		found := map[string]any{}
		for _, id := range slices.Compact(strings.Split(q.Get("ids"), "|")) {
			found[id] = map[string]string{"id": id, "missing": ""}
			if e, ok := known.Entities[id]; ok {
				found[id] = e
			}
		}
		out = map[string]any{"entities": found, "success": 1}
	default:
		out = map[string]any{"error": map[string]string{"code": "badvalue", "info": "unrecognised action"}}
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // it is all JSON already
	}
	answer(w, b)
}

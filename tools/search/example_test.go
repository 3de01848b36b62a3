package search_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/search"
)

// stand answers as a service does that this example cannot reach.
func stand(body string) (url string, end func()) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	return srv.URL, srv.Close
}

// SG-123: both searchers asked directly, without a tool around them, then both at
// once, which is what web_search is given.
func Example() {
	instance, end := stand(`{"results":[{"url":"https://quay.example.org/","title":"The quay","content":"Low water is at three."}]}`)
	defer end()
	service, end := stand(`{"model":"sonar","choices":[{"finish_reason":"stop","message":{"content":"High water is at nine [1]."}}],
		"search_results":[{"title":"Tides","url":"https://tides.example.org/"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"cost":{"total_cost":0.006}}}`)
	defer end()

	engine, err := search.SearXNG(search.SearXNGOptions{BaseURL: instance, Language: "en"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	sonar, err := search.Sonar(search.SonarOptions{APIKey: "key", BaseURL: service})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, s := range []search.Searcher{engine, sonar, search.Every(engine, sonar)} {
		r, err := s.Search(context.Background(), search.Query{Text: "when is high water?", Depth: search.Quick})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		fmt.Printf("== %s\n%s\n", s.Name(), strings.TrimSpace(r.Answer))
		for _, h := range r.Results {
			fmt.Println("link:", h.Title, h.URL)
		}
		fmt.Println("tokens:", r.Usage.Input, "in,", r.Usage.Output, "out; billed:", r.CostMicroUSD != nil)
	}
	tool, err := search.Web(search.Options{Searcher: search.Every(engine, sonar), MaxDepth: search.Pro})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println("tool:", tool.Definition().Name, tool.Definition().Trust == tools.External)

	// Output:
	// == searxng
	// 1. The quay
	// https://quay.example.org/
	// Low water is at three.
	// link: The quay https://quay.example.org/
	// tokens: 0 in, 0 out; billed: false
	// == sonar
	// High water is at nine [1].
	// link: Tides https://tides.example.org/
	// tokens: 10 in, 20 out; billed: true
	// == searxng+sonar
	// # via searxng
	//
	// 1. The quay
	// https://quay.example.org/
	// Low water is at three.
	//
	// # via sonar
	//
	// High water is at nine [1].
	// link: The quay https://quay.example.org/
	// link: Tides https://tides.example.org/
	// tokens: 10 in, 20 out; billed: true
	// tool: web_search true
}

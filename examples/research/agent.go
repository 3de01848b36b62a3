package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/papers"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
	"github.com/daybookhq/daybook/tools/search"
)

//go:embed agent
var files embed.FS

// toolbox makes the agent's tools of what the order says. With the real
// services there would be no BaseURL but that of SearXNG, and no Net.
func toolbox(o order, mem memory.Client, r *redact.Redactor, servers *mcp.Servers) (*tools.Registry, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pages, err := o.Web.Net()
	if err != nil {
		return nil, err
	}
	reader, err := extract.NewReader(extract.Options{
		Policy:  netguard.Policy{Allow: []string{".portmerrow.example", "journal.tidemark.example"}, Net: pages},
		Command: []string{self, "parse"}, // what strangers wrote is parsed in a process of its own
	})
	if err != nil {
		return nil, err
	}
	programs, err := javascript.New(javascript.Config{Command: []string{self, "javascript"}})
	if err != nil {
		return nil, err
	}
	remembered, err := memory.New(memory.Options{
		Client: mem, Redactor: r,
		Root: func(inv *tools.Invocation) string { return "person:" + inv.Owner }, // nobody reads what others' agents know
	})
	if err != nil {
		return nil, err
	}
	ts := append(slices.Concat(remembered.Tools(), servers.Tools()),
		builtin.Finish(), builtin.Decline(),
		builtin.CodeExec(programs, builtin.CodeExecConfig{Language: "javascript", Effect: tools.Readonly}), // it can do nothing
		// The board knows a notice by its key: after a crash it may be sent again.
		builtin.Publish(builtin.PublishConfig{Publish: pinUp(o.Services + "/board"), Recovery: tools.Keyed(24 * time.Hour)}),
	)
	add := func(t tools.Tool, e error) {
		ts, err = append(ts, t), errors.Join(err, e)
	}
	add(extract.Tool(reader))
	add(builtin.Wikidata(builtin.WikidataOptions{BaseURL: o.Services + "/wikidata"}))
	add(webSearch(o, reader))
	add(paperSearch(o))
	if err != nil {
		return nil, err
	}
	return tools.NewRegistry(ts...)
}

// openFiles starts the MCP server that has the agent's folder. What its tools do
// is said here: what a server says of itself is believed only if it is stricter.
func openFiles(ctx context.Context, o order, r *redact.Redactor, log *slog.Logger) (*mcp.Servers, error) {
	return mcp.Open(ctx, mcp.Config{Redactor: r, Logger: log, Servers: []mcp.Server{{
		Name: "files", Command: o.Files, Dir: o.Folder,
		Tools: map[string]mcp.Tool{
			"read_text_file": {Effect: tools.Readonly, Trust: tools.Own},
			"write_file":     {Effect: tools.Destructive, Trust: tools.Own},
		},
		Only: []string{"read_text_file", "write_file"},
	}}})
}

// webSearch asks a SearXNG, and reads the pages that it finds.
func webSearch(o order, reader search.Reader) (tools.Tool, error) {
	engine, err := search.SearXNG(search.SearXNGOptions{BaseURL: o.Services + "/searxng", Read: reader})
	if err != nil {
		return nil, err
	}
	return search.Web(search.Options{Searcher: engine})
}

// paperSearch asks two catalogues at once. What is in both is one paper.
func paperSearch(o order) (tools.Tool, error) {
	openalex, err := papers.OpenAlex(papers.OpenAlexOptions{BaseURL: o.Services + "/openalex", APIKey: o.OpenAlexKey})
	if err != nil {
		return nil, err
	}
	semantic, err := papers.SemanticScholar(papers.SemanticScholarOptions{BaseURL: o.Services + "/semanticscholar"})
	if err != nil {
		return nil, err
	}
	return papers.Search(papers.Options{Source: papers.Every(openalex, semantic), Price: 1000}) // a tenth of a cent at most
}

// pinUp publishes on the notice board, under the effect's own key.
func pinUp(board string) func(context.Context, builtin.Publication) (string, error) {
	// No connection is kept: a transport that has one may send a request again by itself.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context, p builtin.Publication) (string, error) {
		body, err := json.Marshal(map[string]string{"name": p.Name, "text": p.Content})
		if err != nil {
			return "", tools.NoEffect(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, board, bytes.NewReader(body))
		if err != nil {
			return "", tools.NoEffect(err)
		}
		req.Header.Set("Idempotency-Key", p.Key)
		resp, err := client.Do(req)
		if err != nil {
			return "", err // nobody can know
		}
		defer resp.Body.Close()
		var done struct {
			URL string `json:"url"`
		}
		if resp.StatusCode != http.StatusCreated {
			return "", fmt.Errorf("the notice board said %s", resp.Status)
		}
		err = json.NewDecoder(resp.Body).Decode(&done)
		return done.URL, err
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestConfiguredModel: an agent works with a provider of a file, over the wire;
// the provider fails once in between, and its key is nowhere but in its header.
func TestConfiguredModel(t *testing.T) {
	const key = "sk-canary-0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	var calls, without atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			without.Add(1)
		}
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"busy, `+key+`"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"model":"m-1","choices":[{"delta":{"content":"my key is `+key+`, ","tool_calls":[{"index":0,"function":{"name":"finish","arguments":"{\"answer\":\"Hello!\"}"}}]},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"model":"m-1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
	}))
	defer srv.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	config := write("models.yaml", fmt.Sprintf("models:\n  - {name: local, api: openai/chat, base_url: %q, model: m, key: secret://provider, fields: {temperature: 0.2}}\n", srv.URL+"/v1"))
	agent := write("AGENT.md", "---\nname: greeter\nmodel: local\ntools: [finish]\n---\nGreet.\n")
	state := filepath.Join(dir, "state")
	at := []string{"--dir", state, "--secret", "provider=" + write("key", key+"\n")}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	work, stop := context.WithCancel(ctx)
	var log, out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(work, append(at, "dev", "--agents", agent, "--model-config", config), nil, &log, &log)
	}()
	code := run(ctx, append(at, "submit", "--agent", "greeter", "--input", `"hi"`, "--key", "one", "--wait", "--timeout", "2m"), nil, &out, &out)
	stop()
	if end := <-ended; code != exitOK || end != exitOK || !strings.Contains(out.String(), `"Hello!"`) {
		t.Fatalf("exit codes %d and %d\n%s\n%s", code, end, out.String(), log.String())
	}
	if calls.Load() != 2 || without.Load() != 0 {
		t.Errorf("%d wire calls, %d without the key", calls.Load(), without.Load())
	}
	if strings.Contains(log.String()+out.String(), key) {
		t.Errorf("the key is told:\n%s\n%s", out.String(), log.String())
	}
	files := 0
	err := filepath.WalkDir(state, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(p)
		if bytes.Contains(b, []byte(key)) {
			t.Errorf("the key is in %s", p)
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestModelConfigFaults: what is wrong in a file is said with its line, all at
// once, and no key is repeated.
func TestModelConfigFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "models.yaml")
	text := `models:
  - name: a
    api: openai/magic
    key: sk-canary-0a1b2c3d4e5f60718293a4b5c6d7e8f9
    thinking: "yes"
  - name: b
    api: openai/chat
    key: secret://nowhere
    base_url: http://me:hunter2@127.0.0.1/v1
    fields: 3
    colour: red
    headers: {X-Token: tell-nobody-1, X-Title: Daybook}
  - {name: c, api: openai/chat, fields: {user: secret://provider}}
  - api: openai/responses
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := run(t.Context(), []string{"dev", "--dir", t.TempDir(), "--model-config", file}, nil, &out, &out)
	want := `runner: --model-config: models.yaml:3: models[0].api: there is no api "openai/magic"; want one of openai/responses, openai/chat, anthropic/messages
models.yaml:4: models[0].key: want secret://NAME, and the value in a file: --secret NAME=FILE
models.yaml:5: models[0].thinking: want off, minimal, low, medium or high, got "yes"
models.yaml:8: models[1].key: the secret named here is not given; none is; start with --secret NAME=FILE
models.yaml:9: models[1].base_url: want an address without a password or a query; a key goes into key: secret://NAME
models.yaml:10: models[1].fields: want fields of the request's body, such as {temperature: 0.2}
models.yaml:11: models[1].colour: a model has no such field; known fields: name, api, base_url, model, key, thinking, idle, headers, fields, max_concurrent, endpoints, price
models.yaml:12: models[1].headers.X-Token: this looks like a secret, which does not belong in here: write secret://NAME, and the value in a file: --secret NAME=FILE
models.yaml:13: models[2].fields: secret:// is no value here; secrets go into key or headers
models.yaml:14: models[3].name: missing; write what agents write as their model, such as gpt-5
`
	if code != exitUsage || out.String() != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, out.String(), want)
	}
}

package mcp_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

// written is a value in the encodings of redact that survive JSON and a query.
func written(v string) []string {
	return []string{
		v,
		strings.ToUpper(v),
		base64.StdEncoding.EncodeToString([]byte("Bearer " + v + " x")),
		hex.EncodeToString([]byte(v)),
		url.QueryEscape("?" + v + "/"),
		fmt.Sprintf("&#%d;%s", v[0], v[1:]),
		fmt.Sprintf(`\u%04x%s`, v[0], v[1:]),
	}
}

// bare stands in for handles and tells nobody: no vault.
type bare map[string]string

func (b bare) Resolve(raw json.RawMessage) (json.RawMessage, error) {
	s := string(raw)
	for name, v := range b {
		s = strings.ReplaceAll(s, "secret://"+name, v)
	}
	return json.RawMessage(s), nil
}

// TestEchoedCredentials: what a server hands back of what it was configured with
// is in no result, link, report, error or description, in no encoding, also where
// the host's secrets are no vault, and where a header holds it in plain text.
func TestEchoedCredentials(t *testing.T) {
	const fromHandle, plain, password = "canary-4Wq8Zr1Tb6", "customer-93kXa7", "pw-canary-5Ty2Lk"
	var all []string
	for _, v := range []string{fromHandle, plain, password} {
		all = append(all, written(v)...)
	}
	for name, leaks := range map[string]bool{"quiet": false, "in declarations": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.http = &mcptest.Server{Dir: p.dir, Secret: strings.Join(all, " and "), Leaks: leaks}
			p.web = httptest.NewServer(p.http)
			t.Cleanup(p.web.Close)
			r := redact.New(redact.Config{})
			secrets := bare{"crm": fromHandle, "basic": base64.StdEncoding.EncodeToString([]byte("me:" + password))}
			servers, err := mcp.Open(t.Context(), mcp.Config{
				Secrets: secrets, Redactor: r,
				Servers: []mcp.Server{{
					Name: "wild", URL: p.web.URL + "/mcp", Tools: map[string]mcp.Tool{"secret": {Effect: tools.Readonly}},
					Headers: map[string]string{"X-Api-Key": "secret://crm", "X-Customer": plain, "Authorization": "Basic secret://basic"},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = servers.Close() })
			sees := func(what string, v any) {
				t.Helper()
				text := fmt.Sprintf("%+v", v)
				if b, err := json.Marshal(v); err == nil {
					text += string(b)
				}
				for _, c := range all {
					if strings.Contains(text, c) || strings.Contains(strings.ToLower(text), strings.ToLower(c)) {
						t.Errorf("%s has %q:\n%.600s", what, c, text)
					}
				}
			}
			p.redact = redact.New(redact.Config{}) // knows nothing: what is withheld here was withheld before
			for _, how := range []string{"", "error", "failed"} {
				d, es := p.try(servers, "wild__secret", `{"how":"`+how+`"}`)
				sees("result "+how, d)
				sees("events "+how, es)
				if !strings.Contains(d.Result.Output+d.Result.Error, "key") {
					t.Errorf("nothing is left of the answer: %+v", d.Result)
				}
				if how == "" && !strings.Contains(fmt.Sprintf("%+v", es), "with the key") {
					t.Errorf("the report is not there: %+v", es)
				}
			}
			for _, tool := range servers.Tools() {
				d := tool.Definition()
				sees("definition", d.Description+string(d.JSONSchema()))
				if d.Name == "wild__leaky" {
					t.Error("a tool with a credential in its schema was taken")
				}
			}
			sees("problems", servers.Problems())
			told := fmt.Sprint(servers.Problems())
			if strings.Contains(told, "credential of this server") != leaks {
				t.Errorf("problems: %s", told)
			}
			// What comes from a handle is the redactor's from now on, wherever it turns up.
			for _, v := range []string{fromHandle, secrets["basic"]} {
				if r.String("x "+v) == "x "+v {
					t.Errorf("the redactor does not know %q", v)
				}
			}
		})
	}
}

// TestPlainSecretsAreRefused: what looks like a secret must come by a handle,
// whatever it is called; the error says how, and does not have it.
func TestPlainSecretsAreRefused(t *testing.T) {
	const key = "sk-proj-Ab3dE5gH7jK9mN1pQ3sT5vW7xY9zB2cD4fG6hJ8kL"
	for _, tt := range []struct {
		name   string
		server mcp.Server
		fine   bool
	}{
		{"a key in a header", mcp.Server{URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"X-Customer": key}}, false},
		{"a password in a url", mcp.Server{Command: []string{"true"}, Env: map[string]string{"DATABASE_URL": "postgres://me:hunter2-long@db/x"}}, false},
		{"a name that the redactor knows", mcp.Server{Command: []string{"true"}, Env: map[string]string{"SIGNING_KEY": "hunter2-long"}}, false},
		{"a key beside a handle", mcp.Server{Command: []string{"true"}, Env: map[string]string{"ARGS": key + " secret://key"}}, false},
		{"ordinary values", mcp.Server{Command: []string{"no-such-program-at-all"}, Env: map[string]string{"LOG": "info", "ROOT": "/srv/docs", "URL": "postgres://me:secret://key@db/x"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.server = tt.server
			p.server.Name = "a"
			_, err := p.tryOpen(nil)
			if err == nil {
				t.Fatal("opened")
			}
			if refused := strings.Contains(err.Error(), "write secret://NAME"); refused == tt.fine || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), key) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestShortSecrets: what is too short to be found again is refused before the
// server is asked.
func TestShortSecrets(t *testing.T) {
	asked := false
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(web.Close)
	_, err := mcp.Open(t.Context(), mcp.Config{
		Secrets: bare{"pin": "7391"}, Redactor: redact.New(redact.Config{}),
		Servers: []mcp.Server{{Name: "a", URL: web.URL, Headers: map[string]string{"Authorization": "Bearer secret://pin"}}},
	})
	if err == nil || !strings.Contains(err.Error(), "shorter than 8 bytes") || strings.Contains(err.Error(), "7391") || asked {
		t.Errorf("%v; asked %v", err, asked)
	}
}

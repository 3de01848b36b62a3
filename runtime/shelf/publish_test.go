package shelf_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

// SG-78: what the host's answer says of an effect, and where it is public.
func TestPublish(t *testing.T) {
	in := netguardtest.New(t)
	var asked int
	in.HandleFunc("files.example.com", func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("X-Key") != "op" || r.Method != http.MethodPost {
			t.Errorf("%s with key %q", r.Method, r.Header.Get("X-Key"))
		}
		switch r.URL.Path {
		case "/url":
			_, _ = w.Write([]byte(`{"url":"https://public.example.com/r.md"}`))
		case "/script":
			_, _ = w.Write([]byte(`{"url":"javascript:alert(1)"}`))
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	for _, tt := range []struct {
		path, want string
		noEffect   bool
		fails      bool
	}{
		{"/url", "https://public.example.com/r.md", false, false},
		{"/script", "", false, false},
		{"/nothing", "", false, false},
		{"/refused", "", true, true},
		{"/broken", "", false, true},
	} {
		t.Run(tt.path, func(t *testing.T) {
			text := "publish: {url: 'https://files.example.com" + tt.path + "', allow: [files.example.com], key_header: X-Key, key_ttl: 1h}\nbuiltins: []\n"
			s, err := shelf.Parse(t.Context(), "f", t.TempDir(), []byte(text), shelf.Options{Net: in.Net()})
			if err != nil {
				t.Fatal(err)
			}
			var reg tools.Registry
			if err := s.Register(&reg, shelf.Parts{Redactor: redact.New(redact.Config{})}); err != nil {
				t.Fatal(err)
			}
			tool, _ := reg.Lookup("publish")
			if d := tool.Definition(); d.Effect != tools.Destructive || d.Recovery.Kind != tools.RecoveryKeyed {
				t.Errorf("declared %s, %v", d.Effect, d.Recovery)
			}
			got, err := tool.Call(t.Context(), &tools.Invocation{OpKey: "op", Arguments: []byte(`{"name":"r.md","content":"text"}`)})
			if (err != nil) != tt.fails || errors.Is(err, tools.ErrNotApplied) != tt.noEffect {
				t.Errorf("err = %v (%T), no effect %v", err, err, errors.Is(err, tools.ErrNotApplied))
			}
			if m, ok := got.(map[string]string); tt.want != "" && (!ok || m["url"] != tt.want) {
				t.Errorf("published at %v, want %s", got, tt.want)
			} else if tt.want == "" && ok {
				t.Errorf("published at %v", got)
			}
		})
	}
	if asked != 5 {
		t.Errorf("the host was asked %d times, want once for each", asked)
	}
	// A request that never left took no effect.
	s, err := shelf.Parse(t.Context(), "f", t.TempDir(), []byte("publish: {url: 'https://gone.example.com/', allow: [gone.example.com]}\n"), shelf.Options{Net: in.Net()})
	if err != nil {
		t.Fatal(err)
	}
	var reg tools.Registry
	if err := s.Register(&reg, shelf.Parts{}); err != nil {
		t.Fatal(err)
	}
	tool, _ := reg.Lookup("publish")
	_, err = tool.Call(context.Background(), &tools.Invocation{OpKey: "op", Arguments: []byte(`{"name":"r.md","content":"text"}`)})
	if !errors.Is(err, tools.ErrNotApplied) {
		t.Errorf("err = %v, want one that says that it took no effect", err)
	}
}

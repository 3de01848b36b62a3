package builtin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// site is an internet with api.example.com, and a policy that allows it.
func site(t *testing.T, h http.HandlerFunc) (*netguardtest.Internet, netguard.Policy) {
	t.Helper()
	in := netguardtest.New(t)
	in.Handle("api.example.com", h)
	return in, netguard.Policy{
		Allow: []string{"api.example.com"}, Net: in.Net(),
		Headers: []netguard.Header{{Host: "api.example.com", Name: "Authorization", Value: "Bearer s3cret-t0ken"}},
	}
}

func made(t *testing.T) func(tools.Tool, error) tools.Tool {
	return func(tool tools.Tool, err error) tools.Tool {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
}

func TestHTTPConforms(t *testing.T) {
	_, p := site(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) })
	t.Run("SG-72 http_request", func(t *testing.T) {
		toolstest.TestTool(t, made(t)(builtin.HTTPRequest(p)), toolstest.ToolCase{ValidArguments: json.RawMessage(`{"url":"https://api.example.com/"}`)})
	})
	t.Run("SG-72 http_post", func(t *testing.T) {
		toolstest.TestTool(t, made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p})),
			toolstest.ToolCase{ValidArguments: json.RawMessage(`{"url":"https://api.example.com/","body":"{}"}`)})
	})
	t.Run("SG-72 an allow list is required", func(t *testing.T) {
		if _, err := builtin.HTTPRequest(netguard.Policy{}); err == nil {
			t.Error("http_request without one is accepted")
		}
		if _, err := builtin.HTTPPost(builtin.HTTPPostOptions{}); err == nil {
			t.Error("http_post without one is accepted")
		}
	})
	t.Run("what each declares", func(t *testing.T) {
		get, post := made(t)(builtin.HTTPRequest(p)).Definition(), made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p})).Definition()
		if get.Effect != tools.Readonly || get.Trust != tools.External || post.Effect != tools.Destructive || post.Trust != tools.External || post.Recovery.Kind != tools.RecoveryNone {
			t.Errorf("%+v\n%+v", get, post)
		}
	})
}

func TestHTTPRequestShowsTheAnswer(t *testing.T) {
	_, p := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"auth":%q}`, r.Header.Get("Authorization"))
		case "/png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte("\x89PNG\r\n\x1a\n\x00\x00"))
		case "/missing":
			http.Error(w, "no such thing", http.StatusNotFound)
		case "/busy":
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		case "/back":
			http.Redirect(w, r, "/json?as="+url.QueryEscape(r.Header.Get("Authorization")), http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/json", http.StatusFound)
		}
	})
	tool := made(t)(builtin.HTTPRequest(p))
	for _, tt := range []struct{ path, want string }{
		{"/json", "200 OK, application/json, from https://api.example.com/json\n\n{\"auth\":\"[withheld]\"}"},
		{"/png", "200 OK, image/png, from https://api.example.com/png\n10 bytes that are no text, not shown\n"},
		{"/missing", "404 Not Found, text/plain, from https://api.example.com/missing\n\nno such thing\n"},
		{"/busy", "429 Too Many Requests, no content type, from https://api.example.com/busy\nasks to wait 30 seconds\nno body\n"},
		{"/moved", "200 OK, application/json, from https://api.example.com/json\n\n{\"auth\":\"[withheld]\"}"},
	} {
		t.Run("SG-74 "+tt.path, func(t *testing.T) {
			r := call(t, tool, `{"url":"https://api.example.com`+tt.path+`"}`)
			if r.Status != tools.Completed || r.Output != tt.want || r.Trust != string(tools.External) || len(r.Sources) != 1 || !strings.HasPrefix(r.Sources[0].URL, "https://api.example.com/") {
				t.Errorf("%+v, want %q", r, tt.want)
			}
		})
	}
	t.Run("a credential that comes back in the address is withheld", func(t *testing.T) {
		r := call(t, tool, `{"url":"https://api.example.com/back"}`)
		if b, _ := json.Marshal(r); r.Status != tools.Completed || len(r.Sources) != 1 || strings.Contains(string(b), "s3cret") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a long answer is cut, and says so", func(t *testing.T) {
		r := call(t, tool, `{"url":"https://api.example.com/long"}`)
		if r.Truncated == nil || r.Truncated.Kept != len(r.Output) || r.Truncated.Of <= 100_000 {
			t.Errorf("%+v, %d bytes", r.Truncated, len(r.Output))
		}
	})
	t.Run("SG-74 the model has no headers to set", func(t *testing.T) {
		for _, args := range []string{
			`{"url":"https://api.example.com/","headers":{"X":"1"}}`, `{"url":"https://api.example.com/","method":"DELETE"}`,
		} {
			toolstest.AssertBlocked(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(args)}, events.BlockedInvalidArguments)
		}
	})
}

func TestHTTPRefusesWithoutConnecting(t *testing.T) {
	in, p := site(t, func(http.ResponseWriter, *http.Request) {})
	in.Resolve("api.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	get, post := made(t)(builtin.HTTPRequest(p)), made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p}))
	for _, url := range []string{"http://api.example.com/", "https://evil.org/?data=s3cret-t0ken", "https://127.0.0.1/", "https://api.example.com/"} {
		t.Run("SG-73 "+url, func(t *testing.T) {
			r := call(t, get, fmt.Sprintf(`{"url":%q}`, url))
			if r.Status != tools.Failed || !strings.HasPrefix(r.Error, "refused: ") || strings.Contains(r.Error, "s3cret") || strings.Contains(r.Error, "10.0.0.1") {
				t.Errorf("get: %+v", r)
			}
			disp, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: post, Arguments: json.RawMessage(fmt.Sprintf(`{"url":%q,"body":"{}"}`, url))})
			if disp.State != tools.StateDone || !strings.HasPrefix(disp.Result.Error, "refused: ") { // done, not in doubt
				t.Errorf("post: %+v", disp)
			}
		})
	}
	if got := in.Dialled(); len(got) != 0 {
		t.Errorf("connections attempted to %v", got)
	}
}

func TestHTTPPostKnowsWhatItKnows(t *testing.T) {
	var bodies, keys, types []string
	status := 0
	_, p := site(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies, keys, types = append(bodies, string(b)), append(keys, r.Header.Get("Idempotency-Key")), append(types, r.Header.Get("Content-Type"))
		if status == 0 {
			panic(http.ErrAbortHandler) // the connection breaks after the work
		}
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "said "+r.Header.Get("Authorization"))
	})
	tool := made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p, KeyHeader: "Idempotency-Key"}))
	for _, tt := range []struct {
		status int
		state  tools.State
		ok     bool
	}{
		{200, tools.StateDone, true},
		{201, tools.StateDone, true},
		{303, tools.StateDone, true},
		{307, tools.StateDone, false},
		{308, tools.StateDone, false},
		{301, tools.StateInDoubt, false},
		{302, tools.StateInDoubt, false},
		{400, tools.StateDone, false},
		{404, tools.StateDone, false},
		{409, tools.StateDone, false},
		{429, tools.StateDone, false},
		{408, tools.StateInDoubt, false},
		{500, tools.StateInDoubt, false},
		{503, tools.StateInDoubt, false},
		{0, tools.StateInDoubt, false},
	} {
		t.Run(fmt.Sprintf("answer %d", tt.status), func(t *testing.T) {
			bodies, keys, types, status = nil, nil, nil, tt.status
			disp, es := toolstest.DispatchAndCollect(t, toolstest.Probe{
				Tool: tool, Arguments: json.RawMessage(`{"url":"https://api.example.com/pay","body":"{\"amount\":5}"}`),
			})
			if disp.State != tt.state || (disp.State == tools.StateDone) && (disp.Result.Status == tools.Completed) != tt.ok {
				t.Errorf("%+v", disp)
			}
			if len(bodies) != 1 || bodies[0] != `{"amount":5}` || len(keys[0]) != 64 || types[0] != "application/json" {
				t.Errorf("arrived: bodies %q, keys %q, types %q", bodies, keys, types)
			}
			if told, _ := json.Marshal(es); strings.Contains(string(told), "s3cret") {
				t.Errorf("the credential was recorded: %s", told)
			}
		})
	}
	t.Run("a body that is no JSON is not sent", func(t *testing.T) {
		bodies = nil
		disp, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(`{"url":"https://api.example.com/","body":"a=b"}`)})
		if disp.State != tools.StateDone || disp.Result.Error == "" || len(bodies) != 0 {
			t.Errorf("%+v, %q", disp, bodies)
		}
	})
	t.Run("a promise of the hosts makes it keyed", func(t *testing.T) {
		d := made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p, KeyHeader: "Idempotency-Key", KeyTTL: 24 * time.Hour})).Definition()
		if d.Recovery != tools.Keyed(24*time.Hour) {
			t.Errorf("recovery %+v", d.Recovery)
		}
		for _, o := range []builtin.HTTPPostOptions{{Policy: p, KeyTTL: time.Hour}, {Policy: p, KeyHeader: "Host"}, {Policy: p, KeyHeader: "A B"}} {
			if _, err := builtin.HTTPPost(o); err == nil {
				t.Errorf("%+v is accepted", o)
			}
		}
	})
}

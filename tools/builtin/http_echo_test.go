package builtin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// A host that sends back what it was asked with carries the operator's credential
// nowhere: not into a result, an error or an event.
func TestHTTPWithholdsCredentials(t *testing.T) {
	for name, form := range netguardtest.Echoes(netguardtest.Canary) {
		t.Run("SG-74 "+name, func(t *testing.T) {
			_, p := site(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				status := map[string]int{"/404": 404, "/500": 500, "/307": 307}[r.URL.Path]
				if status == 307 {
					w.Header().Set("Location", "https://elsewhere.example.org/"+form)
				}
				if status != 0 {
					w.WriteHeader(status)
				}
				_ = json.NewEncoder(w).Encode(map[string]string{"you": "are " + form + "."})
			})
			p.Headers = append(p.Headers, netguard.Header{Host: "api.example.com", Name: "X-Key", Value: netguardtest.Canary})
			for tool, paths := range map[tools.Tool][]string{
				made(t)(builtin.HTTPRequest(p)):                               {"/", "/404", "/307"},
				made(t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: p})): {"/", "/404", "/500", "/307"},
			} {
				for _, path := range paths {
					args := fmt.Sprintf(`{"url":"https://api.example.com%s"}`, path)
					if tool.Definition().Name == "http_post" {
						args = fmt.Sprintf(`{"url":"https://api.example.com%s","body":"{}"}`, path)
					}
					d, es := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(args)})
					b, err := json.Marshal([]any{d.Result, es})
					if err != nil {
						t.Fatal(err)
					}
					if leaks := netguardtest.Leaks(netguardtest.Canary, string(b)); leaks != nil {
						t.Errorf("%s %s: %v in %s", tool.Definition().Name, path, leaks, b)
					}
				}
			}
		})
	}
}

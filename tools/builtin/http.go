package builtin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools/netguard"
)

// page is a result that is read as its answer and cited by its results.
type page struct {
	Answer  string          `json:"answer"`
	Results []events.Source `json:"results"`
}

// show is what a model reads of an answer that c has got.
func show(c *netguard.Client, r *netguard.Response) page {
	typ := r.ContentType
	if typ == "" {
		typ = "no content type"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s, %s, from %s\n", r.Status, http.StatusText(r.Status), typ, r.URL)
	if r.Location != "" {
		fmt.Fprintf(&b, "redirect to %s, not followed\n", r.Location)
	}
	if r.RetryAfter > 0 {
		fmt.Fprintf(&b, "asks to wait %d seconds\n", int64(r.RetryAfter.Seconds()))
	}
	switch {
	case len(r.Body) == 0:
		b.WriteString("no body\n")
	case !isText(r):
		fmt.Fprintf(&b, "%d bytes that are no text, not shown\n", len(r.Body))
	default:
		if r.Cut {
			fmt.Fprintf(&b, "cut: only the first %d bytes\n", len(r.Body))
		}
		text := r.Text()
		if text != string(r.Body) { // in another encoding than what the client has looked at
			text = c.Withhold(text)
		}
		b.WriteString("\n" + text)
	}
	return page{b.String(), []events.Source{{URL: r.URL}}}
}

// isText goes by the declared type; without one, by whether it looks like text.
func isText(r *netguard.Response) bool {
	main, sub, _ := strings.Cut(r.ContentType, "/")
	switch {
	case main == "text", strings.HasSuffix(sub, "json"), strings.HasSuffix(sub, "xml"), strings.HasSuffix(sub, "yaml"):
		return true
	case main == "application" && (sub == "javascript" || sub == "x-www-form-urlencoded" || sub == "x-ndjson"):
		return true
	case r.ContentType == "":
		return strings.HasPrefix(http.DetectContentType(r.Body), "text/")
	}
	return false
}

package builtin

import (
	"context"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// HTTPRequest returns http_request, which fetches a URL with GET from the hosts
// that the policy allows. It is readonly, so that the same URL can be read again
// and fresh; what writes is [HTTPPost]. Headers come from the policy, never from
// the model. Any answer is a result, also one of status 500; what was refused or
// got no answer is an error.
//
// Whoever lets a model choose URLs lets it send what it knows to these hosts:
// allow few, and mind that this is the one builtin that can carry data out.
func HTTPRequest(p netguard.Policy) (tools.Tool, error) {
	c, err := netguard.New(p)
	if err != nil {
		return nil, err
	}
	return tools.New(tools.Definition{
		Name:        "http_request",
		Description: "Fetches an https URL with GET and returns status, type and text of the answer. Only certain hosts can be reached.",
		Aliases:     []string{"http", "get", "fetch", "url", "api", "download", "curl"},
		Effect:      tools.Readonly,
		Trust:       tools.External,
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		URL string `json:"url" jsonschema:"the whole URL, with its query"`
	},
	) (page, error) {
		r, err := c.Do(ctx, netguard.Request{URL: in.URL, Cut: true})
		if err != nil {
			return page{}, err
		}
		return show(c, r), nil
	})
}

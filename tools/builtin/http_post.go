package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// HTTPPostOptions say where [HTTPPost] may post to, and what is known of who
// listens there.
type HTTPPostOptions struct {
	Policy netguard.Policy
	// KeyHeader carries the idempotency key, for instance "Idempotency-Key".
	// Empty sends none.
	KeyHeader string
	// KeyTTL is how long every host of the policy is known to do nothing a
	// second time under the same key. Zero means that nobody promised that: a
	// crash in the middle leaves the call in doubt.
	KeyTTL time.Duration
	// Approval: a person must approve each call.
	Approval bool
}

// HTTPPost returns http_post, which posts a body to the hosts that the policy
// allows. It is destructive: the same call is made once in a run. A refusal of
// the host (4xx but 408) and a request that never left took no effect; after an
// answer of 5xx, 301 or 302, or none, the call is in doubt. Redirects are not
// followed.
func HTTPPost(o HTTPPostOptions) (tools.Tool, error) {
	c, err := netguard.New(o.Policy)
	if err != nil {
		return nil, err
	}
	d := tools.Definition{
		Name:        "http_post",
		Description: "Posts a body to an https URL and returns status, type and text of the answer. It changes things there. Only certain hosts can be reached.",
		Aliases:     []string{"post", "submit", "webhook", "api", "send"},
		Args:        []tools.Arg{{Name: "content_type", Type: tools.Enum, Options: []string{typeJSON, typeForm, typeText}}},
		Effect:      tools.Destructive,
		Trust:       tools.External,
		Approval:    o.Approval,
	}
	switch {
	case o.KeyTTL < 0 || o.KeyTTL > 0 && o.KeyHeader == "":
		return nil, errors.New("http_post: a KeyTTL needs a KeyHeader, and is not negative")
	case o.KeyTTL > 0:
		d.Recovery = tools.Keyed(o.KeyTTL)
	}
	if o.KeyHeader != "" && !netguard.ValidHeader(o.KeyHeader) {
		return nil, fmt.Errorf("http_post: %q is no header that can be set", o.KeyHeader)
	}
	p := &poster{client: c, keyHeader: o.KeyHeader}
	return tools.New(d, p.post)
}

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
	typeText = "text/plain"
)

type poster struct {
	client    *netguard.Client
	keyHeader string
}

type posted struct {
	URL         string `json:"url" jsonschema:"the whole URL"`
	Body        string `json:"body" jsonschema:"what is posted, in the form that content_type says"`
	ContentType string `json:"content_type,omitempty" jsonschema:"application/json if left out"`
}

func (p *poster) post(ctx context.Context, inv *tools.Invocation, in posted) (page, error) {
	if in.ContentType == "" {
		in.ContentType = typeJSON
	}
	if in.ContentType == typeJSON && !json.Valid([]byte(in.Body)) {
		return page{}, tools.NoEffect(&tools.ArgumentError{Tool: "http_post", Problems: []string{"body is no JSON: encode it, or say another content_type"}})
	}
	h := http.Header{"Content-Type": {in.ContentType}}
	if p.keyHeader != "" {
		h.Set(p.keyHeader, inv.OpKey)
	}
	r, err := p.client.Do(ctx, netguard.Request{Method: http.MethodPost, URL: in.URL, Header: h, Body: []byte(in.Body), Cut: true})
	if e := (*netguard.Error)(nil); errors.As(err, &e) && !e.Sent {
		return page{}, tools.NoEffect(err)
	}
	if err != nil {
		return page{}, err
	}
	shown := show(p.client, r)
	switch {
	case r.Refused():
		return page{}, tools.NoEffect(errors.New(shown.Answer))
	case r.Status >= 400, r.Status == http.StatusMovedPermanently, r.Status == http.StatusFound:
		// Some send 301 and 302 after the work, others instead of it.
		return page{}, errors.New(shown.Answer)
	}
	return shown, nil
}

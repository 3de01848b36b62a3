package shelf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/netguard"
)

// publish posts what is to be public to a host of the operator's.
func (r *reader) publish(m *strictyaml.Map) func() error {
	p := &publisher{
		url:       m.Need("url", "where a publication is posted to, such as https://files.example.com/publications"),
		keyHeader: "Idempotency-Key",
	}
	policy := r.policy(m)
	if h := m.Text("key_header"); h != "" {
		p.keyHeader = h
		if !netguard.ValidHeader(h) {
			m.Fault("key_header", "%q is no header that can be set", h)
		}
	}
	cfg := builtin.PublishConfig{Publish: p.publish, Approval: m.Bool("approval")}
	if ttl := m.Duration("key_ttl"); ttl > 0 {
		cfg.Recovery = tools.Keyed(ttl)
	}
	return func() (err error) {
		if p.client, err = netguard.New(policy); err != nil {
			return err
		}
		if err := p.client.Check(p.url); err != nil {
			return fmt.Errorf("url: %w", err)
		}
		return r.put(Builtin, builtin.Publish(cfg), nil)
	}
}

type publisher struct {
	client    *netguard.Client
	url       string
	keyHeader string
}

// publication is what is posted, and published what is read of the answer.
type publication struct {
	Name      string `json:"name"`
	Content   string `json:"content"`
	MediaType string `json:"media_type,omitempty"`
	Run       string `json:"run"`
	Tenant    string `json:"tenant"`
}

type published struct {
	URL string `json:"url"`
}

// publish returns the address that the host says, if it is one.
func (p *publisher) publish(ctx context.Context, what builtin.Publication) (string, error) {
	body, err := json.Marshal(publication{what.Name, what.Content, what.MediaType, what.Run.String(), what.Tenant})
	if err != nil {
		return "", tools.NoEffect(err)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	h.Set(p.keyHeader, what.Key)
	r, err := p.client.Do(ctx, netguard.Request{Method: http.MethodPost, URL: p.url, Header: h, Body: body})
	if e := (*netguard.Error)(nil); errors.As(err, &e) && !e.Sent {
		return "", tools.NoEffect(err)
	}
	switch {
	case err != nil:
		return "", err
	case r.Refused():
		return "", tools.NoEffect(fmt.Errorf("the host refused it (status %d)", r.Status))
	case r.Status < 200 || r.Status > 299:
		return "", fmt.Errorf("the host answered with status %d", r.Status)
	}
	return p.address(r), nil
}

// address is where it is public, as the answer says.
func (p *publisher) address(r *netguard.Response) string {
	const longest = 2000
	var a published
	_ = json.Unmarshal(r.Body, &a) // it is published, whatever the answer is
	u, err := url.Parse(a.URL)
	if err == nil && u.Scheme == "https" && u.Host != "" && len(a.URL) <= longest {
		return p.client.Withhold(u.String())
	}
	return ""
}

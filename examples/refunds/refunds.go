// Package refunds is the worked example: a backlog of refund requests, the
// agent that works it off, and its two tools over a payments provider.
package refunds

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/tools"
)

// Files holds requests.csv, orders.json, agent/AGENT.md and policy.yaml.
//
//go:embed requests.csv orders.json agent/AGENT.md policy.yaml
var Files embed.FS

// Limit is the largest amount that is refunded without a person, in either currency.
const Limit = "500.00"

// Orders returns the provider's orders.
func Orders() ([]payments.Order, error) {
	b, err := Files.ReadFile("orders.json")
	if err != nil {
		return nil, err
	}
	var os []payments.Order
	if err := json.Unmarshal(b, &os); err != nil {
		return nil, fmt.Errorf("read orders.json: %w", err)
	}
	return os, nil
}

// Request is what both tools are called with.
type Request struct {
	OrderID  string `json:"order_id" jsonschema:"the order number, ORD- and four digits"`
	Amount   string `json:"amount" jsonschema:"the amount as a decimal, such as 12.50"`
	Currency string `json:"currency" jsonschema:"EUR or USD"`
}

// Check is what check_refund answers.
type Check struct {
	// Status is refundable, malformed_order, unknown_order, malformed_amount,
	// over_limit, wrong_currency or too_much.
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// client talks to the provider. Its transport keeps no connection for reuse: a
// request sent again behind our back would be a second refund.
type client struct {
	base string
	http *http.Client
}

// Tools returns check_refund and refund against the provider at base. timeout
// bounds one refund; keyTTL is how long the provider remembers a key (mode keyed).
func Tools(base string, mode payments.Mode, timeout, keyTTL time.Duration) ([]tools.Tool, error) {
	c := &client{base: base, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	check, err := tools.New(tools.Definition{
		Name:        "check_refund",
		Description: "Looks an order up and says whether a refund of this amount may be made.",
		Effect:      tools.Readonly, Trust: tools.Own,
	}, c.check)
	if err != nil {
		return nil, err
	}
	def := tools.Definition{
		Name:        "refund",
		Description: "Pays money back for an order. An order is refunded once, ever.",
		Effect:      tools.Destructive, Trust: tools.Own,
		Scope: tools.ScopeTenant, Identity: []string{"order_id"}, Window: tools.Forever,
		Timeout: timeout,
	}
	switch mode {
	case payments.Keyed:
		def.Recovery = tools.Keyed(keyTTL)
	case payments.Probe:
		def.Recovery = tools.Probed()
	}
	refund, err := tools.New(def, c.refund)
	if err != nil {
		return nil, err
	}
	if mode == payments.Probe {
		refund = tools.WithProbe(refund, c.probe)
	}
	return []tools.Tool{check, refund}, nil
}

var (
	orderNumber = regexp.MustCompile(`^ORD-[0-9]{4}$`)
	decimal     = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,2})?$`)
)

func (c *client) check(ctx context.Context, _ *tools.Invocation, in Request) (Check, error) {
	if !orderNumber.MatchString(in.OrderID) {
		return Check{"malformed_order", fmt.Sprintf("order number %q: want ORD- and four digits", in.OrderID)}, nil
	}
	if !decimal.MatchString(in.Amount) {
		return Check{"malformed_amount", fmt.Sprintf("amount %q is not a decimal number", in.Amount)}, nil
	}
	var o payments.Order
	code, err := c.do(ctx, http.MethodGet, "/orders/"+in.OrderID, "", nil, &o)
	switch {
	case code == http.StatusNotFound:
		return Check{"unknown_order", "the payments provider does not know order " + in.OrderID}, nil
	case err != nil:
		return Check{}, err
	}
	amount, limit, paid := rat(in.Amount), rat(Limit), rat(o.Paid)
	switch {
	case in.Currency != o.Currency:
		return Check{"wrong_currency", fmt.Sprintf("order %s was paid in %s, the request says %s", o.Order, o.Currency, in.Currency)}, nil
	case amount.Cmp(limit) > 0:
		return Check{"over_limit", fmt.Sprintf("%s %s is over the limit of %s: a person decides", in.Amount, in.Currency, Limit)}, nil
	case amount.Cmp(paid) > 0:
		return Check{"too_much", fmt.Sprintf("only %s %s was paid for order %s", o.Paid, o.Currency, o.Order)}, nil
	}
	return Check{Status: "refundable"}, nil
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return new(big.Rat)
	}
	return r
}

func (c *client) refund(ctx context.Context, inv *tools.Invocation, in Request) (payments.Refund, error) {
	body, err := json.Marshal(payments.Refund{Order: in.OrderID, Amount: in.Amount, Currency: in.Currency})
	if err != nil {
		return payments.Refund{}, tools.NoEffect(err)
	}
	var re payments.Refund
	code, err := c.do(ctx, http.MethodPost, "/refunds", inv.OpKey, body, &re)
	switch {
	case err == nil:
		return re, nil
	case errors.Is(err, syscall.ECONNREFUSED), code >= 400 && code < 500:
		// Refused before the first byte, or by the provider in so many words.
		return payments.Refund{}, tools.NoEffect(err)
	default:
		return payments.Refund{}, err // nobody can know
	}
}

func (c *client) probe(ctx context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
	var re payments.Refund
	code, err := c.do(ctx, http.MethodGet, "/refunds/"+url.PathEscape(inv.OpKey), "", nil, &re)
	switch {
	case err == nil:
		return tools.ProbeResult{State: tools.ProbeHappened, Result: re}, nil
	case code == http.StatusNotFound:
		return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
	default:
		return tools.ProbeResult{}, err
	}
}

// do returns the status code, 0 if there was no answer.
func (c *client) do(ctx context.Context, method, path, key string, body []byte, out any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("payments: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(b))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return 0, fmt.Errorf("payments: %s %s: %w", method, path, err)
	}
	return resp.StatusCode, nil
}

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// WorkerOptions say what a worker of the torture works with.
type WorkerOptions struct {
	System   system.Options
	Provider string // URL
	Name     string
	TTL      time.Duration
	Logger   *slog.Logger
}

// How long one destructive call may take, and how long after its deadline the
// provider may still act.
const (
	callTimeout = time.Second
	grace       = 2 * time.Second
)

// Work is the body of a worker process: it works until ctx ends.
func Work(ctx context.Context, o WorkerOptions) error {
	o.System.Grace, o.System.Logger = grace, o.Logger
	sys, err := system.Open(ctx, o.System)
	if err != nil {
		return err
	}
	defer sys.Close()
	cfg, err := workerConfig(o)
	if err != nil {
		return err
	}
	return sys.Work(ctx, cfg, o.System.Embedded())
}

const agentText = `---
name: torture
description: Does what its input says.
model: torture
loop: singleshot
tools: [look, opaque, keyed, fenced, probe, finish]
limits:
  max_turns: 40
  max_model_attempts: 1000
---
Do what the input says.
`

const priceText = `table: torture-2026-11
models:
  - name: torture
    prices:
      - { valid_from: 2020-01-01, input: "2.50", output: "10" }
`

func workerConfig(o WorkerOptions) (runtime.Config, error) {
	a, err := agents.Parse("torture/AGENT.md", []byte(agentText))
	if err != nil {
		return runtime.Config{}, err
	}
	prices, err := model.LoadPrices(fstest.MapFS{"torture.yaml": {Data: []byte(priceText)}})
	if err != nil {
		return runtime.Config{}, err
	}
	// A connection used again would send a request twice behind our back.
	c := &client{o.Provider, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	cfg := runtime.Config{
		Name: o.Name, LeaseTTL: o.TTL, Sweep: o.TTL / 10, Concurrency: 16, ShutdownGrace: 3 * time.Second, ProbeEvery: time.Second,
		Agents: []*agents.Agent{a}, Models: map[string]model.Model{"torture": c}, Prices: prices, Tools: new(tools.Registry),
		ModelTimeout: 5 * time.Second,
	}
	ts, err := c.tools()
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.Tools.Add(append(ts, builtin.Finish())...)
}

// client is a worker's way to the provider, and the model.
type client struct {
	base string
	http *http.Client
}

type item struct {
	Item string `json:"item"`
}

func (c *client) tools() ([]tools.Tool, error) {
	look, err := tools.New(tools.Definition{Name: "look", Description: "Looks at an item.", Effect: tools.Readonly, Trust: tools.Own},
		func(ctx context.Context, _ *tools.Invocation, in item) (json.RawMessage, error) {
			var out json.RawMessage
			_, err := c.do(ctx, http.MethodGet, "/look/"+in.Item, nil, nil, &out)
			return out, err
		})
	if err != nil {
		return nil, err
	}
	all := []tools.Tool{look}
	for _, k := range kinds {
		def := tools.Definition{
			Name: string(k), Description: "Acts on an item.", Effect: tools.Destructive, Trust: tools.Own,
			Identity: []string{"item"}, Timeout: callTimeout,
		}
		switch k {
		case Keyed:
			def.Recovery = tools.Keyed(time.Hour)
		case Fenced:
			def.Recovery = tools.Fenced()
		case Probe:
			def.Recovery = tools.Probed()
		}
		t, err := tools.New(def, func(ctx context.Context, inv *tools.Invocation, in item) (Effect, error) {
			return c.act(ctx, inv, k, in)
		})
		if err != nil {
			return nil, err
		}
		if k == Probe {
			t = tools.WithProbe(t, c.probe)
		}
		all = append(all, t)
	}
	return all, nil
}

func (c *client) act(ctx context.Context, inv *tools.Invocation, k Kind, in item) (Effect, error) {
	var out Effect
	head := http.Header{"Idempotency-Key": {inv.OpKey}, "Fence": {strconv.Itoa(inv.Fence)}}
	code, err := c.do(ctx, http.MethodPost, "/effects/"+string(k), head, in, &out)
	switch {
	case err == nil && code == http.StatusConflict:
		return out, tools.AlreadyApplied(out) // this very key
	case errors.Is(err, syscall.ECONNREFUSED):
		return out, tools.NoEffect(err)
	}
	return out, err
}

func (c *client) probe(ctx context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
	var out Effect
	code, err := c.do(ctx, http.MethodGet, "/effects/"+inv.OpKey, nil, nil, &out)
	switch {
	case err == nil:
		return tools.ProbeResult{State: tools.ProbeHappened, Result: out}, nil
	case code == http.StatusNotFound:
		return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
	}
	return tools.ProbeResult{}, err
}

// do returns the status code, 0 if there was no answer. A conflict is an answer.
func (c *client) do(ctx context.Context, method, path string, head http.Header, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, tools.NoEffect(err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, tools.NoEffect(err)
	}
	for k, v := range head {
		req.Header[k] = v
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
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusConflict {
		return resp.StatusCode, fmt.Errorf("provider: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(b))
	}
	return resp.StatusCode, json.Unmarshal(b, out)
}

// Call implements [model.Model]: it reads from the transcript which turn this
// is, and has the call billed under the attempt it is for.
func (c *client) Call(ctx context.Context, r model.Request) (model.Response, error) {
	var o order
	turn := 0
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			if o.Steps == nil {
				if err := json.Unmarshal([]byte(m.Text), &o); err != nil {
					return model.Response{}, &model.Error{Kind: "invalid_request", Err: err}
				}
			}
		case model.Assistant:
			turn++
		}
	}
	bill := Bill{Attempt: r.AttemptID, Input: int64(100 * len(r.Messages)), Output: 25}
	if _, err := c.do(ctx, http.MethodPost, "/model", nil, bill, &bill); err != nil {
		return model.Response{}, err // retryable: nobody knows whether it was billed
	}
	resp := model.Response{Model: r.Model, StopReason: "tool_use", Usage: events.Usage{Input: bill.Input, Output: bill.Output}}
	if turn >= len(o.Steps) {
		resp.Calls = []events.ToolCall{{Name: "finish", Arguments: json.RawMessage(`{"answer":"done"}`)}}
		return resp, nil
	}
	for _, k := range o.Steps[turn] {
		b, err := json.Marshal(item{k.Item})
		if err != nil {
			return model.Response{}, err
		}
		resp.Calls = append(resp.Calls, events.ToolCall{Name: k.Tool, Arguments: b})
	}
	return resp, nil
}

// workerLog is where a process of the torture writes to.
func workerLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

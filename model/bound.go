package model

import (
	"math/bits"
	"time"

	"github.com/daybookhq/daybook/events"
)

const (
	// providerTokens is what a provider may add of its own, such as the prompt
	// that explains tools to the model.
	providerTokens = 1024
	// frameTokens is what marks the beginning and the end of a message, a call, a
	// result or a tool.
	frameTokens = 16
)

// InputBound is more input tokens than a provider can count for r: one for each
// byte of its texts, since no tokenizer makes more tokens than there are bytes,
// 16 around each message, call, result and tool, and 1,024 for what the provider adds.
func (r Request) InputBound() int64 {
	n := providerTokens + len(r.System) + frameTokens*(len(r.Messages)+len(r.Tools))
	for _, m := range r.Messages {
		n += len(m.Text) + frameTokens*(len(m.Calls)+len(m.Results))
		for _, c := range m.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
		for _, b := range m.Blocks {
			n += frameTokens + len(b.Text) + len(b.Data)
		}
		for _, t := range m.Results {
			n += len(t.CallID) + len(t.Name) + len(t.Text)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	if r.Format != nil {
		n += frameTokens + len(r.Format.Name) + len(r.Format.Schema)
	}
	return int64(n)
}

// AtMost returns what a call to a model can cost at a time if it has no more than
// these tokens: each input token at the dearest of the rates for input and cache,
// and in the dearest of the tiers that so many tokens can reach. It is nil if the
// model has no price then, or the amount is over an int64.
func (p *Prices) AtMost(model string, at time.Time, input, output int64) *events.PicoUSD {
	pr := p.find(model, at)
	if pr == nil || input < 0 || output < 0 {
		return nil
	}
	var most *events.PicoUSD
	for _, t := range pr.tiers {
		if input <= t.above || t.input == nil || t.output == nil {
			continue
		}
		in := *t.input
		for _, r := range []rate{t.cacheRead, t.cacheWrite} {
			if r != nil {
				in = max(in, *r)
			}
		}
		hi1, lo1 := bits.Mul64(uint64(input), uint64(in)/perMillion)
		hi2, lo2 := bits.Mul64(uint64(output), uint64(*t.output)/perMillion)
		sum, carry := bits.Add64(lo1, lo2, 0)
		if hi1 != 0 || hi2 != 0 || carry != 0 || sum > 1<<63-1 {
			return nil
		}
		if c := events.PicoUSD(sum); most == nil || c > *most {
			most = &c
		}
	}
	return most
}

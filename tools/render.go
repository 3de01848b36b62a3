package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/daybookhq/daybook/events"
)

// Statuses of a result.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Kinds of errors in tool_execution_error. Stored; never renamed.
const (
	KindToolError        = "tool_error"         // the tool said so
	KindNoEffect         = "no_effect"          // a destructive tool said that it certainly took none
	KindInvalidArguments = "invalid_arguments"  // found only when the tool decoded them
	KindTimeout          = "timeout"            // of a call that is not destructive
	KindPanic            = "panic"              // of a call that is not destructive
	KindUnencodable      = "unencodable_result" // the value has no JSON form
	KindOutputTooLarge   = "output_too_large"   // over MaxOutput, and the tool refuses cuts
	KindWithheld         = "result_withheld"    // result middleware failed
	KindSecret           = "secret_unavailable" // a handle stands for nothing
	KindNotRun           = "not_run"            // its time was up before it was called
	KindBudget           = "budget"             // no budget has room for the child run it asked for
	KindTooDeep          = "too_deep"           // the child run would have too many ancestors
	KindTooManyChildren  = "too_many_children"  // its run has started as many as it may
)

// unshowable is why a value that a tool returned cannot be shown.
type unshowable struct{ kind, text string }

// render turns a value that Call returned into a result: encoded, priced and
// redacted, but not cut.
func (d *Dispatcher) render(e *entry, value any) (events.ToolResult, *unshowable) {
	value, outside := inside(value)
	r := events.ToolResult{Status: Completed, Trust: string(e.def.Trust), Cost: d.cost(e, value)}
	if outside {
		r.Trust = string(External)
	}
	switch v := value.(type) {
	case Finished:
		r.Control, value = ControlFinish, v.Output
	case Declined:
		r.Control, value = ControlDecline, v.Because
	}
	text, sources, err := textOf(value)
	if err != nil {
		return r, &unshowable{KindUnencodable, "the result could not be encoded: " + d.clean(err.Error(), maxForeignError)}
	}
	r.Output = d.cfg.Redactor.String(valid(text))
	r.Sources = d.cleanSources(sources)
	return r, nil
}

// exactly is what a value says before anything is redacted; nil if it has no text.
func exactly(value any) []byte {
	value, _ = inside(value)
	switch v := value.(type) {
	case Finished:
		value = v.Output
	case Declined:
		value = v.Because
	}
	text, _, err := textOf(value)
	if err != nil {
		return nil
	}
	return []byte(text)
}

// textOf is what a model reads of value, and where it came from. A value
// {answer, results, …} is read as its answer, its results become sources.
func textOf(value any) (text string, sources []events.Source, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var raw []byte
	switch v := value.(type) {
	case nil:
		return "", nil, nil
	case string:
		return v, nil, nil
	case json.RawMessage:
		if !json.Valid(v) {
			return "", nil, fmt.Errorf("a json.RawMessage of %d bytes is no JSON", len(v))
		}
		raw = v
	default:
		enc := encoders.Get().(*encoder)
		defer enc.put()
		if raw, err = enc.encode(value); err != nil {
			return "", nil, err
		}
	}
	if answer, sources, ok := unwrapAnswer(raw); ok {
		return answer, sources, nil
	}
	if len(raw) > 0 && raw[0] == '"' {
		return unquoted(raw), nil, nil // a named string type
	}
	return string(raw), nil, nil
}

func unquoted(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// unwrapAnswer takes {answer, results, …} apart.
func unwrapAnswer(raw []byte) (string, []events.Source, bool) {
	if !bytes.Contains(raw, []byte(`"answer"`)) || !bytes.Contains(raw, []byte(`"results"`)) {
		return "", nil, false
	}
	var v struct {
		Answer  *string           `json:"answer"`
		Results []json.RawMessage `json:"results"`
	}
	if json.Unmarshal(raw, &v) != nil || v.Answer == nil || v.Results == nil {
		return "", nil, false
	}
	var sources []events.Source
	for _, r := range v.Results {
		var s events.Source
		if json.Unmarshal(r, &s) == nil && s != (events.Source{}) {
			sources = append(sources, s)
		}
	}
	return *v.Answer, sources, true
}

// cost asks the tool what the call cost; nil is unmeasured.
func (d *Dispatcher) cost(e *entry, value any) (cost *events.PicoUSD) {
	if e.costOf == nil && e.def.Price > 0 {
		c := events.PicoUSD(e.def.Price) * events.MicroUSD
		return &c
	}
	if e.costOf == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("tool cost panicked: call counts as unmeasured", "tool", e.def.Name)
			cost = nil
		}
	}()
	micro, ok := e.costOf(value)
	if !ok {
		return nil
	}
	if micro < 0 || micro > math.MaxInt64/int64(events.MicroUSD) {
		d.cfg.Logger.Error("tool cost out of range: call counts as unmeasured", "tool", e.def.Name, "micro_usd", micro)
		return nil
	}
	p := events.PicoUSD(micro) * events.MicroUSD
	return &p
}

// fit cuts the output to the tool's limit, or says that it cannot.
func (d *Dispatcher) fit(e *entry, r events.ToolResult) (events.ToolResult, *unshowable) {
	limit := e.def.MaxOutput
	if limit == 0 {
		limit = d.cfg.MaxOutput
	}
	of := len(r.Output)
	kept := events.OutputWithin(r.Output, limit)
	if kept == of {
		return r.Fit(), nil
	}
	if e.def.Truncate == Refuse || r.Control == ControlFinish {
		text := fmt.Sprintf("the output has %d bytes, at most %d are allowed: ask for less", of, limit)
		if of <= limit {
			text = fmt.Sprintf("the output has %d bytes and, with its escapes, is over the %d that an event holds of it: ask for less", of, events.MaxOutput)
		}
		return r, &unshowable{KindOutputTooLarge, text}
	}
	r.Output = r.Output[:kept]
	r.Truncated = &events.Truncated{Kept: kept, Of: of}
	return r.Fit(), nil
}

// Bounds of texts in events, in bytes.
const (
	maxOwnError     = 4 << 10
	maxForeignError = 1 << 10
	maxProgress     = 4 << 10
	maxMetadata     = 16 << 10
	maxToolName     = 128
	maxSources      = 100
)

// clean makes text fit for events: valid, redacted, and only then cut, since a
// cut secret is not recognised any more.
func (d *Dispatcher) clean(text string, limit int) string {
	return clip(d.cfg.Redactor.String(valid(text)), limit)
}

func (d *Dispatcher) cleanSources(sources []events.Source) []events.Source {
	if len(sources) > maxSources {
		sources = sources[:maxSources]
	}
	out := make([]events.Source, 0, len(sources))
	for _, s := range sources {
		out = append(out, events.Source{Title: d.clean(s.Title, maxForeignError), URL: d.clean(s.URL, 2*maxForeignError)})
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// errorText is what is shown of a tool's error.
func (d *Dispatcher) errorText(e *entry, err error) string {
	limit := maxForeignError
	if e.def.Trust == Own {
		limit = maxOwnError
	}
	text := d.clean(rawErrorText(err), limit)
	if text == "" {
		return "the tool failed without saying why"
	}
	return text
}

// rawErrorText survives error types whose methods panic.
func rawErrorText(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("the tool failed with a %T that cannot say why", err)
		}
	}()
	return err.Error()
}

// failed is the result of a call that failed.
func failed(e *entry, text string) events.ToolResult {
	r := events.ToolResult{Status: Failed, Error: text}
	if e != nil {
		r.Trust = string(e.def.Trust)
	}
	return r
}

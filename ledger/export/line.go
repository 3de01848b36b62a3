package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// What lines hold is a promise to those who read them: fields are added, never renamed.

// EventLine is a line of events in jsonl: the event's own bytes, of which Hash is the
// SHA-256.
type EventLine struct {
	Hash  events.Hash     `json:"hash"`
	Event json.RawMessage `json:"event"`
}

// CloudEvent is an event as CloudEvents 1.0 has it in JSON, with the attributes that
// messages of the feed have as headers. Data is the event's own bytes, and Hash their
// SHA-256.
type CloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            events.Type     `json:"type"`
	Subject         string          `json:"subject"` // the run
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Sequence        string          `json:"sequence"` // of the run
	Hash            events.Hash     `json:"hash"`
	TraceParent     string          `json:"traceparent,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// CallLine is a transition of a tool call: a row of tool_call_records.
type CallLine struct {
	Run       events.RunID    `json:"run_id"`
	Seq       uint64          `json:"seq"` // of its event
	Tenant    string          `json:"tenant"`
	Owner     string          `json:"owner"`
	Session   string          `json:"session_id"`
	Call      events.CallID   `json:"call"`
	Attempt   int             `json:"attempt"`
	Status    string          `json:"status"`
	Terminal  bool            `json:"terminal"` // the outcome of the call
	Tool      string          `json:"tool"`
	Effect    string          `json:"effect"`
	Recovery  string          `json:"recovery"`
	OpKey     events.Hash     `json:"op_key,omitzero"`
	Token     events.ID       `json:"token,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Reason    string          `json:"reason"`
	Detail    string          `json:"detail"`
	Repeated  bool            `json:"repeated"`
	OfRun     events.RunID    `json:"of_run_id,omitzero"`
	OfCall    *events.CallID  `json:"of_call,omitempty"`
	Trust     string          `json:"trust"`
	CostUSD   *events.PicoUSD `json:"cost_usd"` // null = not measured
	LatencyMS *int64          `json:"latency_ms"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	At        time.Time       `json:"at"`
	Trace     string          `json:"trace"`
}

// RunLine is a run and its sums, as they stood when it was read.
type RunLine struct {
	Run          events.RunID     `json:"run_id"`
	Tenant       string           `json:"tenant"`
	Queue        string           `json:"queue"`
	Agent        string           `json:"agent"`
	Owner        string           `json:"owner"`
	Session      string           `json:"session_id"`
	Root         events.RunID     `json:"root_id"`
	Parent       events.RunID     `json:"parent_id,omitzero"`
	ForkOf       events.RunID     `json:"fork_of,omitzero"`
	RetryOf      events.RunID     `json:"retry_of,omitzero"`
	ClientKey    string           `json:"client_key"`
	State        ledger.State     `json:"state"`
	StoppedBy    events.StoppedBy `json:"stopped_by"`
	ParkReason   string           `json:"park_reason"`
	Error        string           `json:"error"`
	CreatedAt    time.Time        `json:"created_at"`
	EndedAt      time.Time        `json:"ended_at,omitzero"`
	Events       int64            `json:"events"`
	Turns        int64            `json:"turns"`
	ModelCalls   int64            `json:"model_calls"`
	ToolCalls    int64            `json:"tool_calls"`
	Destructive  int64            `json:"destructive"`
	Repeated     int64            `json:"repeated"`
	Blocked      int64            `json:"blocked"`
	InDoubt      int64            `json:"in_doubt"`
	Resumes      int64            `json:"resumes"`
	InputTokens  int64            `json:"input_tokens"`
	OutputTokens int64            `json:"output_tokens"`
	CostUSD      string           `json:"cost_usd"` // of what is priced
	Unpriced     int64            `json:"unpriced"`
	Unmeasured   int64            `json:"unmeasured"`
	Trace        string           `json:"trace"`
}

func eventLine(f Format, e events.Sealed) ([]byte, error) {
	env := e.Envelope()
	switch f {
	case CSV:
		return csvRecord([]string{
			env.RunID.String(), strconv.FormatUint(env.Seq, 10), strconv.FormatUint(env.Epoch, 10), env.ID.String(), string(env.Type),
			strconv.Itoa(env.Version), env.Time.Format(time.RFC3339Nano), env.Tenant, env.SessionID, env.Trace, env.Prev.String(), e.Hash().String(), string(e.Bytes()),
		})
	case CloudEvents:
		return jsonLine(CloudEvent{
			SpecVersion: "1.0", ID: env.ID.String(), Source: "/daybook/" + env.Tenant, Type: env.Type, Subject: env.RunID.String(),
			Time: env.Time.Format(time.RFC3339Nano), DataContentType: "application/json", Sequence: strconv.FormatUint(env.Seq, 10),
			Hash: e.Hash(), TraceParent: env.Trace, Data: e.Bytes(),
		})
	}
	// As the journal has it, without going through an encoder: the bytes are what counts.
	line := events.AppendMessage(nil, []events.Sealed{e})
	return append(line[1:len(line)-1], '\n'), nil
}

func callLine(f Format, c ledger.CallRecord) ([]byte, error) {
	l := CallLine{
		c.Run, c.Seq, c.Tenant, c.Owner, c.SessionID, c.Call, c.Attempt, c.Status, c.Terminal, c.Tool, c.Effect, c.Recovery, c.OpKey, c.Token,
		c.Arguments, c.Result, c.Reason, c.Detail, c.Repeated,
		events.RunID{},
		nil, c.Trust, c.Cost, c.LatencyMS, c.StartedAt.UTC(), c.At.UTC(), c.Trace,
	}
	if c.Of != nil {
		l.OfRun, l.OfCall = c.Of.Run, &c.Of.Call
	}
	return line(f, l)
}

func runLine(f Format, r ledger.ExportRun) ([]byte, error) {
	return line(f, RunLine{
		r.ID, r.Tenant, r.Queue, r.Agent, r.Owner, r.SessionID, r.Root, r.Parent, r.ForkOf, r.RetryOf, r.ClientKey, r.State, r.StoppedBy,
		string(r.ParkReason), r.Error, r.CreatedAt.UTC(), r.EndedAt.UTC(), r.Events, r.Turns, r.ModelCalls, r.ToolCalls, r.Destructive, r.Repeated,
		r.Blocked, r.Doubtful, r.Resumes, r.InputTokens, r.OutputTokens, pico(r), r.Unpriced, r.Unmeasured, r.Trace,
	})
}

func pico(r ledger.ExportRun) string {
	if r.Cost == nil {
		return "0"
	}
	return events.FormatPico(r.Cost)
}

func line(f Format, v any) ([]byte, error) {
	if f == CSV {
		return csvOf(v)
	}
	return jsonLine(v)
}

func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// names are the columns of a CSV file.
func names(k Kind) []string {
	switch k {
	case Events:
		return []string{"run_id", "seq", "epoch", "event_id", "type", "version", "time", "tenant", "session_id", "trace", "prev", "hash", "event"}
	case Calls:
		return columns(reflect.TypeFor[CallLine]())
	}
	return columns(reflect.TypeFor[RunLine]())
}

// header is the first line of a CSV file.
func header(k Kind) []byte {
	b, _ := csvRecord(names(k)) // of names alone: no error
	return b
}

func columns(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// csvOf writes the fields of a line as they stand in its JSON, without quotes.
func csvOf(v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	record := make([]string, rv.NumField())
	for i := range record {
		f := rv.Field(i)
		if z, ok := f.Interface().(interface{ IsZero() bool }); ok && z.IsZero() || f.Kind() == reflect.Pointer && f.IsNil() {
			continue
		}
		switch x := f.Interface().(type) {
		case json.RawMessage:
			record[i] = string(x)
			continue
		case events.CallID:
			record[i] = x.String()
			continue
		case *events.CallID:
			record[i] = x.String()
			continue
		}
		if f.Kind() == reflect.String {
			record[i] = f.String()
			continue
		}
		b, err := json.Marshal(f.Interface())
		if err != nil {
			return nil, fmt.Errorf("write %T: %w", v, err)
		}
		record[i] = strings.Trim(string(b), `"`)
	}
	return csvRecord(record)
}

func csvRecord(record []string) ([]byte, error) {
	for i, s := range record {
		record[i] = Inert(s)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(record) // the writer keeps its error for Error
	w.Flush()
	return b.Bytes(), w.Error()
}

// Inert keeps a spreadsheet from running a text as a formula.
func Inert(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

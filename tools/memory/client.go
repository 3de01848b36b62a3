package memory

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/daybookhq/daybook/events"
)

// Scope is whose memory a request is about. It never comes from a model.
type Scope struct {
	// Tenant keeps memories apart entirely: no request sees another tenant's.
	Tenant string
	// Root fences a request: it reads the notes inside, and what it writes is
	// inside. Empty is the host's own view, the whole tenant; the tools never ask
	// with an empty root.
	//
	// A note that was written with a root belongs to it. Such a note is inside root
	// R if it belongs to R, or if a chain of extends leads from what it belongs to
	// to R. A note that was written without a root is inside if its own extends lead
	// to R, at one link or more. The links of a chain after the first are those of
	// notes that were written without a root: what a model wrote never opens a fence.
	Root string
	// Owner is whom the run was submitted for, if anybody. Nothing is fenced by it:
	// a memory that lasts keeps it with what is written, so that an owner's notes
	// can be erased.
	Owner string
	// Run and Call are the call that asks, zero if a host does. Nothing is fenced by
	// them: a memory that lasts keeps them with what is written, so that people can
	// see where a note came from.
	Run  events.RunID
	Call events.CallID
}

// Client is a memory. Everything in it is safe for concurrent use, and holds its
// Scope in every method: the tools rely on it. memorytest.TestClient proves it.
type Client interface {
	Recaller
	Explorer
	Writer
}

// Recaller finds notes.
type Recaller interface {
	// Retrieve finds the notes that match a query, the best first.
	Retrieve(ctx context.Context, q Query) (Found, error)
	// DeepRecall walks linked notes. It may call models, and says what that cost.
	DeepRecall(ctx context.Context, q Question) (Evidence, error)
}

// Explorer shows what a memory is about.
type Explorer interface {
	// ContextTypes lists the types of contexts, in order of first use.
	ContextTypes(ctx context.Context, s Scope) (TypeList, error)
	// SearchContexts lists contexts, in order of first use.
	SearchContexts(ctx context.Context, q ContextQuery) (ContextList, error)
	// ContextGraph is what is around a context.
	ContextGraph(ctx context.Context, q GraphQuery) (Graph, error)
}

// Writer adds to a memory.
type Writer interface {
	// StoreEvents stores notes, in order.
	StoreEvents(ctx context.Context, s Scope, events []Event) (Stored, error)
	// Observe keeps a raw moment and returns; what becomes a note of it is decided
	// later, and elsewhere.
	Observe(ctx context.Context, s Scope, m Moment) error
}

// Kinds of links, from a note to contexts. Stored; never renamed.
const (
	Extends     = "extends"
	RelatedTo   = "related_to"
	Reinforces  = "reinforces"
	Contradicts = "contradicts"
)

// Links are the contexts that a note points to, by kind.
type Links struct {
	Extends     []string `json:"extends"`
	RelatedTo   []string `json:"related_to"`
	Reinforces  []string `json:"reinforces"`
	Contradicts []string `json:"contradicts"`
}

// Query is a search for notes.
type Query struct {
	Scope
	Text string
	// ContextIDs keeps the notes from where one of these can be reached over links
	// of any kind. Empty keeps all. It is a filter for hosts, wider than Scope.Root,
	// and no fence.
	ContextIDs []string
	// Prefer puts the notes of these contexts, and those that link to them, before
	// others. It adds none.
	Prefer []string
	// Sources keeps the notes of these sources. Empty keeps all.
	Sources []string
	// Limit is 10 if nil. A negative one drops so many from the end.
	Limit *int
}

// Row is a note that was found.
type Row struct {
	LocusID string `json:"locus_id"`
	// ContextIDs are the note's own and those that it extends, relates to and
	// reinforces, sorted by UTF-16 code units, with repetitions.
	ContextIDs []string `json:"context_ids"`
	Text       string   `json:"text"`
	Score      float64  `json:"score"`
	Source     string   `json:"source"`
	Kind       string   `json:"kind"`
}

// Found is the answer to a [Query].
type Found struct {
	Items      []Row `json:"items"`
	ItemsFound int   `json:"items_found"` // after the limit
}

// Question is what a deep recall looks for. ContextIDs and Prefer are those of [Query].
type Question struct {
	Scope
	Text       string
	ContextIDs []string
	Prefer     []string
}

// Fact is a piece of evidence.
type Fact struct {
	Text     string   `json:"text"`
	Source   string   `json:"source"`
	Locus    string   `json:"locus"`
	Contexts []string `json:"contexts"`
	Score    float64  `json:"score"`
}

// Coverages of a deep recall.
const (
	CoverageFull    = "full"
	CoveragePartial = "partial"
)

// Usage is what a deep recall took.
type Usage struct {
	// CostUSD is nil if nobody measured it, which is not free.
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Evidence is the answer to a [Question].
type Evidence struct {
	Facts          []Fact   `json:"facts"`
	ContextsWalked []string `json:"contexts_walked"`
	Summary        string   `json:"summary,omitempty"`
	Coverage       string   `json:"coverage"`
	Fallback       bool     `json:"fallback"`
	Usage          Usage    `json:"usage"`
}

// Event is something to store.
type Event struct {
	// Key makes an event the same however often it is stored: what a tenant has
	// under a key is kept, and its id is the answer. Empty is always a new one.
	Key       string `json:"key,omitempty"`
	ContextID string `json:"context_id,omitempty"` // "topic:untitled" if empty
	Kind      string `json:"event_kind,omitempty"` // "fact" if empty
	Source    string `json:"source,omitempty"`     // "assistant" if empty
	// Payload is JSON. Its member data is the text, if it is a string; else the
	// whole payload is. What else is in it are the details.
	Payload json.RawMessage `json:"payload"`
	Links
}

// Content takes the payload of an event apart: the text, and what else is in it.
// Numbers keep their digits.
func (e Event) Content() (text string, details map[string]any, err error) {
	var whole bytes.Buffer
	if err := json.Compact(&whole, e.Payload); err != nil {
		return "", nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(e.Payload))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", nil, err
	}
	details, _ = v.(map[string]any)
	text, ok := details["data"].(string)
	if !ok {
		text = whole.String()
	}
	delete(details, "data")
	return text, details, nil
}

// StoredEvent is what became of an event.
type StoredEvent struct {
	Status    string `json:"status"`
	EventID   string `json:"event_id"`
	Relevance string `json:"relevance"`
}

// Stored is what became of the events of a batch.
type Stored struct {
	Results  []StoredEvent `json:"results"`
	Stored   int           `json:"stored"`
	Filtered int           `json:"filtered"`
	Failed   int           `json:"failed"`
}

// ContextQuery is a search for contexts.
type ContextQuery struct {
	Scope
	Text string // part of the id, in any case; empty is all
	Type string // empty is any
	// PageSize is 20 if nil. A negative one drops so many from the end.
	PageSize      *int
	Relationships bool
}

// ContextRow is a context that holds notes. Type is its id up to the first
// colon, Name what follows; of an id without a colon, Type is all of it.
type ContextRow struct {
	ID         string `json:"context_id"`
	Type       string `json:"context_type"`
	Name       string `json:"context_name"`
	References int    `json:"reference_count"`
}

// ContextList is the answer to a [ContextQuery].
type ContextList struct {
	Contexts      []ContextRow `json:"contexts"`
	Total         int          `json:"total"` // after the cut
	Relationships string       `json:"relationships_text,omitempty"`
}

// TypeCount is a type of contexts and how many notes are in them.
type TypeCount struct {
	Type  string `json:"context_type"`
	Count int    `json:"count"`
}

// TypeList lists types of contexts.
type TypeList struct {
	Types []TypeCount `json:"context_types"`
	Total int         `json:"total"`
}

// GraphQuery asks for what is around the context Type:Name. Depth is in links of
// either direction, 1 if nil.
type GraphQuery struct {
	Scope
	Type, Name string
	Depth      *int
}

// Edge is a link. To may be a context without notes.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"link_type"`
}

// Graph is a part of a memory. Nodes hold notes.
type Graph struct {
	Nodes []ContextRow `json:"nodes"`
	Edges []Edge       `json:"edges"`
}

// Moment is something that happened, as it happened.
type Moment struct {
	Source  string          `json:"source"`
	Payload json.RawMessage `json:"payload"`
	Stream  string          `json:"stream,omitempty"`
}

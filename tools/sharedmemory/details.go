package sharedmemory

// Outcome is what a call came to. Read it first: the other fields depend on it.
type Outcome string

// Outcomes. Never renamed.
const (
	OK         Outcome = "ok"
	WasRefused Outcome = "refused" // Reason says why; asking otherwise or later may help
	HasFailed  Outcome = "failed"  // Reason is malformed or failed: something is broken
)

func (r *Refusal) outcome() Outcome {
	if r.failed {
		return HasFailed
	}
	return WasRefused
}

// Mode says what an [OK] call returned.
type Mode string

// Modes. Never renamed.
const (
	ModeStores     Mode = "stores"     // a listing of stores
	ModeDocuments  Mode = "documents"  // a page of documents
	ModeDocument   Mode = "document"   // a document, in whole
	ModeConnecting Mode = "connecting" // nothing yet: ask again
)

// ListDetails are what people and programs are told of a call of memory_list;
// the model never is. They are the metadata of the progress of its call.
type ListDetails struct {
	Outcome Outcome `json:"outcome"`
	Mode    Mode    `json:"mode,omitempty"`   // if OK
	Reason  string  `json:"reason,omitempty"` // if not
	Store   string  `json:"store,omitempty"`  // as asked for, in one line
	Path    string  `json:"path,omitempty"`   // the prefix of a page
	// Count is how many stores or documents were listed, Remaining how many
	// documents come after them.
	Count     int `json:"count,omitempty"`
	Remaining int `json:"remaining,omitempty"`
	// What the provider yielded and is not listed since it is odd.
	DroppedStores  int `json:"droppedStores,omitempty"`
	DroppedEntries int `json:"droppedEntries,omitempty"`
}

// ReadDetails are those of memory_read. The content is not in them.
type ReadDetails struct {
	Outcome   Outcome `json:"outcome"`
	Mode      Mode    `json:"mode,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Store     string  `json:"store,omitempty"`
	Path      string  `json:"path,omitempty"` // if it was valid
	UpdatedAt string  `json:"updatedAt,omitempty"`
	// Bytes is the size before the content was made harmless; nil unless it was read.
	Bytes         *int `json:"bytes,omitempty"`
	DroppedStores int  `json:"droppedStores,omitempty"`
}

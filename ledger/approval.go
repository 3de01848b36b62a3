package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
)

// ApprovalState is where an approval stands. Stored; never renamed.
type ApprovalState string

// States of an approval. Each is final but the first two.
const (
	ApprovalRequested ApprovalState = "requested" // nobody has decided
	ApprovalApproved  ApprovalState = "approved"  // may be used, once
	ApprovalDenied    ApprovalState = "denied"
	ApprovalConsumed  ApprovalState = "consumed" // an execution has begun under it
	ApprovalExpired   ApprovalState = "expired"  // its time passed, or another request took its place
)

// What wants an approval; several are joined by commas. Stored; never renamed.
const (
	WhyPolicy = "policy" // the tool's or the agent's declaration
	WhyTaint  = "taint"  // foreign text has come in before
	WhyFork   = "fork"   // the fork asks before each effect
)

// What becomes of a destructive call once foreign text has come in.
const (
	TaintAllow = "allow" // the default
	TaintAsk   = "ask"
	TaintDeny  = "deny"
)

// DefaultApprovalTTL is how long a request waits for a person unless policy says otherwise.
const DefaultApprovalTTL = 24 * time.Hour

// Details of [Refused]. Stored in tool_execution_blocked; never renamed.
const (
	DetailTaint           = "taint"
	DetailApprovalDenied  = "approval_denied"
	DetailApprovalExpired = "approval_expired"
	DetailKillSwitch      = "kill_switch"
)

// Approval is a row of approvals: what a person was asked, and what became of it.
type Approval struct {
	ID     events.ID
	Run    events.RunID
	Tenant string
	Call   events.CallID
	Tool   string
	// Arguments are the canonical, redacted ones that would be executed.
	Arguments json.RawMessage
	// Digest is what the approval is bound to: see [ApprovalDigest].
	Digest, ToolHash, Policy events.Hash
	Why                      string
	// TaintBy names the call that brought foreign text in; empty unless Why says taint.
	TaintBy string
	// Rule is the rule that asks, and why; empty if none does.
	Rule  string
	State ApprovalState
	// By is the authenticated caller who decided, Role the database role of the
	// connection it was done over, as the database knows it (PostgreSQL only).
	By, Role, Reason                            string
	CreatedAt, ExpiresAt, DecidedAt, ConsumedAt time.Time
}

// ApprovalFilter selects approvals; zero fields select all.
type ApprovalFilter struct {
	Tenant string
	Owner  string
	Run    events.RunID
	// Open leaves only those that a person can still decide.
	Open  bool
	Limit int       // 0 = 100
	After events.ID // keyset: the last row seen
}

// Decision is a person's answer to a request.
type Decision struct {
	Approval events.ID
	// Digest is that of the call that the person was shown ([Approval.Digest]): a
	// request for another one is not decided. Zero = whatever it is for.
	Digest  events.Hash
	Approve bool
	// By is the authenticated caller: whoever offers this to people takes it from
	// how they proved who they are, never from what they send along.
	By     string
	Reason string
}

// Approvals is what people are asked before a destructive call. Safe for
// concurrent use. Begin makes requests and uses approvals up.
type Approvals interface {
	// Approvals lists approvals, oldest first.
	Approvals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	// Approval returns one, or [ErrNotFound].
	Approval(ctx context.Context, id events.ID) (Approval, error)
	// Decide answers a request, once, and wakes its run. Errors: [ErrNotFound],
	// [ErrDecided], [ErrExpired], [ErrEnded], [ErrOtherCall].
	Decide(ctx context.Context, d Decision) (Approval, error)
}

// ApprovalDigest is what an approval is bound to: exactly this call, of exactly
// this declaration, under exactly this policy. args are canonical.
func ApprovalDigest(tool string, args []byte, toolHash, policy events.Hash) events.Hash {
	b := append([]byte("daybook/approval/1\x00"), canonical.Version)
	for _, s := range [][]byte{[]byte(tool), args, toolHash[:], policy[:]} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(b)
}

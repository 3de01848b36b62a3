package builtin

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// MaxPublication bounds what [Publish] takes, in bytes.
const MaxPublication = 512 << 10

// Publication is a text that an agent wants to be publicly reachable.
type Publication struct {
	// Key is the idempotency key: the same for every attempt of the same
	// publication, whichever worker makes it. Hand it to the store.
	Key     string
	Run     events.RunID
	Tenant  string
	Name    string // of the file: no slashes, not hidden
	Content string
	// MediaType is as the model gave it: checked for its form, no more. Empty if
	// it gave none.
	MediaType string
}

// PublishConfig is how [Publish] publishes.
type PublishConfig struct {
	// Publish makes the file reachable and returns its address. It is required.
	// Its errors are those of a destructive tool: [tools.NoEffect] if certainly
	// nothing was published, everything else leaves it in doubt.
	Publish func(context.Context, Publication) (url string, err error)
	// Recovery says what is known after a crash: [tools.Keyed] if the store
	// dedupes Key. The zero value is nothing: a person must look.
	Recovery tools.Recovery
	// Approval: a person must approve each publication.
	Approval bool
}

// Publish returns publish, which makes a text publicly reachable by way of the
// host. It is destructive: what was public may have been read. It panics without
// a function, and with a Recovery that cannot be.
func Publish(cfg PublishConfig) tools.Tool {
	if cfg.Publish == nil {
		panic("builtin.Publish: there is no function to publish with")
	}
	return must(tools.New(tools.Definition{
		Name:        "publish",
		Description: "Publishes a text as a file that anybody can read, and returns its address. It cannot be taken back.",
		Aliases:     []string{"share", "upload", "public file", "link"},
		Effect:      tools.Destructive,
		Trust:       tools.Own,
		Recovery:    cfg.Recovery,
		Approval:    cfg.Approval,
	}, func(ctx context.Context, inv *tools.Invocation, in publishArgs) (any, error) {
		if problems := in.problems(); problems != nil {
			return nil, tools.NoEffect(&tools.ArgumentError{Tool: "publish", Problems: problems})
		}
		if ctx.Err() != nil {
			return nil, tools.NoEffect(context.Cause(ctx))
		}
		url, err := cfg.Publish(ctx, Publication{
			Key: inv.OpKey, Run: inv.Run, Tenant: inv.Tenant, Name: in.Name, Content: in.Content, MediaType: in.MediaType,
		})
		if err != nil {
			return nil, err
		}
		if url == "" { // it is done, whatever the host forgot
			return "published; the host gave no address", nil
		}
		return map[string]string{"url": url}, nil
	}))
}

type publishArgs struct {
	Name      string `json:"name" jsonschema:"the file's name, as in report.md"`
	Content   string `json:"content" jsonschema:"the whole text"`
	MediaType string `json:"media_type,omitempty" jsonschema:"its media type, as in text/markdown"`
}

func (in publishArgs) problems() []string {
	var problems []string
	if !fileName(in.Name) {
		problems = append(problems, "name: want 1 to 128 characters, no slashes or control characters, not a point in front")
	}
	if in.Content == "" {
		problems = append(problems, "content: it is empty")
	}
	if len(in.Content) > MaxPublication {
		problems = append(problems, fmt.Sprintf("content: %d bytes, at most %d are allowed", len(in.Content), MaxPublication))
	}
	if in.MediaType != "" && !mediaType(in.MediaType) {
		problems = append(problems, "media_type: want type/subtype, as in text/markdown")
	}
	return problems
}

// fileName reports whether a name is one file's, wherever it is put.
func fileName(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || blank(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return strings.ContainsRune(`/\:`, r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
}

// mediaType reports whether s is type/subtype, without parameters.
func mediaType(s string) bool {
	kind, sub, ok := strings.Cut(s, "/")
	token := func(s string) bool {
		return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
			return !(r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("!#$&-^_.+", r)))
		})
	}
	return ok && len(s) <= 127 && token(kind) && token(sub)
}

// blank reports whether nothing of s can be seen.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

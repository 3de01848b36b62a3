// Package extract is the tool extract, which fetches a document and returns its
// text: pdf, docx, web page, Markdown and plain text.
//
// What strangers have made is parsed in a child process with limits on memory,
// processor time and time, which is killed with all that it started when its
// time is up. A parser that crashes, or takes all memory, is a failed result.
package extract

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/confined"
	"github.com/daybookhq/daybook/tools/netguard"
)

// Options configure a [Reader].
type Options struct {
	// Policy says from where documents may be fetched.
	Policy netguard.Policy
	// Command starts a process that calls [Child]: mostly this program itself
	// with a hidden command. It is required, since a program that does not expect
	// to be its own child would do its usual work instead.
	Command []string
	Limits  Limits
}

// Limits bound one document. A zero field means the default.
type Limits struct {
	Memory   int64         // bytes that parsing may take; 512 MB
	CPU      time.Duration // in whole seconds; 5 s
	Time     time.Duration // 10 s
	Text     int           // bytes of text that are kept; 1 MB
	Parallel int           // documents parsed at a time; 2
}

func (l Limits) withDefaults() (Limits, error) {
	if l.Memory < 0 || l.CPU < 0 || l.Time < 0 || l.Text < 0 || l.Parallel < 0 {
		return l, errors.New("extract: a limit is negative: leave it zero for the default")
	}
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Memory, 512<<20)
	set((*int64)(&l.CPU), int64(5*time.Second))
	set((*int64)(&l.Time), int64(10*time.Second))
	if l.Text == 0 {
		l.Text = 1 << 20
	}
	if l.Parallel == 0 {
		l.Parallel = 2
	}
	return l, nil
}

// Page is the text of a document.
type Page struct {
	URL   string // after redirects
	Title string
	Text  string
	// Cut is set if the text goes on.
	Cut bool
}

// Reader fetches documents and returns their text. Safe for concurrent use.
type Reader struct {
	client   *netguard.Client
	children *confined.Program
	limits   Limits
}

// NewReader checks the options.
func NewReader(o Options) (*Reader, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("extract: Command is required: what starts a process that calls extract.Child")
	}
	client, err := netguard.New(o.Policy)
	if err != nil {
		return nil, err
	}
	limits, err := o.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	children, err := confined.New(o.Command, limits.Parallel)
	if err != nil {
		return nil, fmt.Errorf("extract: %w", err)
	}
	return &Reader{client, children, limits}, nil
}

// Read fetches a document and returns its text, without the credentials of the
// policy if the host sends them back. The text of errors is meant
// for a model.
func (r *Reader) Read(ctx context.Context, url string) (Page, error) {
	resp, err := r.client.Do(ctx, netguard.Request{URL: url})
	if err != nil {
		return Page{}, err
	}
	if resp.Status != 200 {
		return Page{}, fmt.Errorf("the document could not be had: status %d", resp.Status)
	}
	format := formatOf(resp)
	if format == "" {
		return Page{}, fmt.Errorf("documents of type %q are not read: want pdf, docx, a web page, Markdown or plain text", resp.ContentType)
	}
	d, err := r.parse(ctx, task{
		Format: format, URL: resp.URL, ContentType: resp.ContentType, Charset: resp.Charset, MaxText: r.limits.Text,
		Memory: r.limits.Memory, CPUSeconds: uint64((r.limits.CPU + time.Second - 1) / time.Second),
	}, resp.Body)
	if err != nil {
		return Page{}, err
	}
	// What the client has looked at was packed, or in another encoding.
	return Page{URL: resp.URL, Title: r.client.Withhold(d.Title), Text: r.client.Withhold(d.Text), Cut: d.Cut}, nil
}

// Formats.
const (
	formatPDF  = "pdf"
	formatDOCX = "docx"
	formatHTML = "html"
	formatText = "text" // Markdown too: it is read as it is
)

const docxType = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

// formatOf goes by the declared type; where that says nothing, by the name and
// the first bytes.
func formatOf(r *netguard.Response) string {
	main, sub, _ := strings.Cut(r.ContentType, "/")
	switch {
	case r.ContentType == "application/pdf":
		return formatPDF
	case r.ContentType == docxType:
		return formatDOCX
	case r.ContentType == "text/html" || r.ContentType == "application/xhtml+xml":
		return formatHTML
	case main == "text", strings.HasSuffix(sub, "json"), strings.HasSuffix(sub, "xml"), strings.HasSuffix(sub, "yaml"):
		return formatText
	case r.ContentType != "" && r.ContentType != "application/octet-stream" && r.ContentType != "application/zip":
		return ""
	}
	name, _, _ := strings.Cut(r.URL, "?")
	body := string(r.Body[:min(len(r.Body), 1024)])
	switch ext := strings.ToLower(path.Ext(name)); {
	case strings.HasPrefix(body, "%PDF-"):
		return formatPDF
	case ext == ".docx" && strings.HasPrefix(body, "PK\x03\x04"):
		return formatDOCX
	case ext == ".md" || ext == ".txt" || ext == ".markdown":
		return formatText
	case ext == ".html" || ext == ".htm":
		return formatHTML
	case r.ContentType == "" && strings.Contains(strings.ToLower(body), "<html"):
		return formatHTML
	}
	return ""
}

// Tool returns extract over a reader.
func Tool(r *Reader) (tools.Tool, error) {
	if r == nil {
		return nil, errors.New("extract: a reader is required")
	}
	return tools.New(tools.Definition{
		Name:        "extract",
		Description: "Fetches a document from an https URL and returns its text: pdf, docx, web page, Markdown or plain text. Only certain hosts can be reached.",
		Aliases:     []string{"read", "pdf", "docx", "page", "article", "document", "text", "url"},
		Effect:      tools.Readonly,
		Trust:       tools.External,
		Timeout:     2 * time.Minute, // the fetch, a place among the parallel ones, and the parsing
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		URL string `json:"url" jsonschema:"the whole URL of the document"`
	},
	) (result, error) {
		p, err := r.Read(ctx, in.URL)
		if err != nil {
			return result{}, err
		}
		return show(p), nil
	})
}

type result struct {
	Answer  string          `json:"answer"`
	Results []events.Source `json:"results"`
}

func show(p Page) result {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(p.Title + "\n\n")
	}
	b.WriteString(p.Text)
	if strings.TrimSpace(p.Text) == "" {
		b.WriteString("the document has no text in it; it may be of images")
	}
	if p.Cut {
		b.WriteString("\n\n[the document goes on]")
	}
	return result{b.String(), []events.Source{{Title: p.Title, URL: p.URL}}}
}

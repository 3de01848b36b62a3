package extract

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/ledongthuc/pdf"

	"github.com/daybookhq/daybook/tools/netguard"
)

// fault is an error whose text says what is wrong with a document. Those of
// libraries are not shown: they quote what is in it.
type fault string

func (f fault) Error() string { return string(f) }

// parse returns the text of a document. It never panics.
func parse(t task, body []byte) (d document) {
	defer func() {
		if p := recover(); p != nil {
			d = document{Error: "the document could not be parsed: it breaks the parser"}
		}
	}()
	var err error
	switch t.Format {
	case formatPDF:
		d, err = parsePDF(body, t.MaxText)
	case formatDOCX:
		d, err = parseDOCX(body, t.MaxText)
	case formatHTML:
		d, err = parseHTML(decoded(t, body), t.URL)
	case formatText:
		d.Text = decoded(t, body)
	default:
		err = fault("documents of this type are not read")
	}
	if err != nil {
		text := fault("it is damaged, or none of its type")
		errors.As(err, &text)
		return document{Error: "the document could not be parsed: " + string(text)}
	}
	d.Title, d.Text = strings.TrimSpace(clean(oneLine(d.Title))), clean(d.Text)
	if len(d.Title) > maxTitle {
		d.Title = strings.ToValidUTF8(d.Title[:maxTitle], "")
	}
	if len(d.Text) > t.MaxText {
		d.Text, d.Cut = strings.ToValidUTF8(d.Text[:t.MaxText], ""), true
	}
	return d
}

const maxTitle = 500

func decoded(t task, body []byte) string {
	return (&netguard.Response{Body: body, ContentType: t.ContentType, Charset: t.Charset}).Text()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clean keeps lines and tabs, and drops what cannot be seen.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

const (
	maxPages     = 2000
	maxPageDepth = 32
)

func parsePDF(body []byte, limit int) (document, error) {
	r, err := pdf.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return document{}, err
	}
	var d document
	d.Title = r.Trailer().Key("Info").Key("Title").Text()
	var b strings.Builder
	_, err = eachPage(r.Trailer().Key("Root").Key("Pages"), 0, 0, func(p pdf.Page) (bool, error) {
		text, err := p.GetPlainText(nil)
		b.WriteString(strings.TrimSpace(text) + "\n\n")
		return b.Len() <= limit, err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return document{}, err
	}
	d.Text = strings.TrimSpace(b.String())
	return d, nil
}

var errEnough = errors.New("enough text")

// eachPage walks the tree of pages, which in a hostile file is no tree: the
// reader's own walk never comes back from one that holds itself.
func eachPage(node pdf.Value, depth, n int, f func(pdf.Page) (more bool, err error)) (int, error) {
	if depth > maxPageDepth {
		return n, fault("its pages are nested too deeply")
	}
	if n++; n > maxPages { // what holds pages counts too, or none could be held without end
		return n, fault(fmt.Sprintf("it has over %d pages", maxPages))
	}
	if node.Key("Kids").Kind() != pdf.Array {
		// The library goes up from a page for what it does not say itself.
		above := 0
		for p := node.Key("Parent"); !p.IsNull(); p = p.Key("Parent") {
			if above++; above > maxPageDepth {
				return n, fault("its pages are nested too deeply")
			}
		}
		more, err := f(pdf.Page{V: node})
		if err == nil && !more {
			err = errEnough
		}
		return n, err
	}
	kids := node.Key("Kids")
	if kids.Len() > maxPages {
		return n, fault(fmt.Sprintf("it has over %d pages", maxPages))
	}
	for i := range kids.Len() {
		var err error
		if n, err = eachPage(kids.Index(i), depth+1, n, f); err != nil {
			return n, err
		}
	}
	return n, nil
}

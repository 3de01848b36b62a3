package extract

import (
	"bytes"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// little is fewer bytes of article than a page that is one would have.
const little = 200

// parseHTML returns what is to be read on a page, as Markdown: the article if
// there is one, else all of it.
func parseHTML(page, at string) (document, error) {
	u, err := url.Parse(at)
	if err != nil {
		return document{}, err
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return document{}, err
	}
	conv, here := newConverter(), converter.WithDomain(u.Scheme+"://"+u.Host)
	var d document
	if mayHaveArticle(doc) {
		p := readability.NewParser()
		a, err := p.ParseDocument(doc, u)
		d.Title = a.Title()
		if err == nil && a.Node != nil {
			md, err := conv.ConvertNode(a.Node, here)
			if err == nil && len(md) >= little {
				d.Text = string(md)
				return d, nil
			}
		}
	} else {
		d.Title = titleOf(doc)
	}
	md, err := conv.ConvertNode(doc, here)
	d.Text = string(md)
	return d, err
}

// longestLink is how far after a bracket the end of a link's text is looked for.
const longestLink = 1000

func newConverter() *converter.Converter {
	conv := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin()))
	// Its own rule for a bracket looks for the other one to the end of the line, from
	// every bracket again: seconds for 64 KiB of them. One that is far from its partner
	// is escaped without a look.
	conv.Register.UnEscaper(func(chars []byte, i int) int {
		if chars[i] != '[' {
			return -1
		}
		rest := chars[i+1:]
		if len(rest) <= longestLink || bytes.IndexByte(rest[:longestLink], ']') >= 0 || bytes.IndexByte(rest[:longestLink], '\n') >= 0 {
			return -1 // the other rules say, and soon
		}
		return 1
	}, converter.PriorityEarly)
	return conv
}

// Limits of a page in which an article is looked for.
const (
	maxCompared = 2 << 20
	maxElements = 50_000
)

// mayHaveArticle reports whether the search for an article comes back in
// reasonable time. It compares each heading, with all that is in it, to the title:
// headings that are never closed hold all that follows, and a title may be a book.
func mayHaveArticle(doc *html.Node) bool {
	headings, inHeadings, title, elements := 0, 0, 0, 0
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.TextNode:
			for p := n.Parent; p != nil; p = p.Parent { // 512 at most, or the page would not have parsed
				if isHeading(p) {
					inHeadings += len(n.Data)
				}
			}
			if p := n.Parent; p != nil && (p.DataAtom == atom.Title || p.DataAtom == atom.Script || isHeading(p)) {
				title = max(title, len(n.Data)) // a script may hold it as JSON-LD
			}
		case n.Type != html.ElementNode:
		case isHeading(n):
			headings++
			elements++
		default:
			elements++
			if n.DataAtom == atom.Meta {
				for _, a := range n.Attr {
					title = max(title, len(a.Val))
				}
			}
		}
	}
	return elements <= maxElements && inHeadings+headings*title <= maxCompared
}

func isHeading(n *html.Node) bool { return n.DataAtom == atom.H1 || n.DataAtom == atom.H2 }

// titleOf is the title that a page gives itself.
func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return n.FirstChild.Data
		}
	}
	return ""
}

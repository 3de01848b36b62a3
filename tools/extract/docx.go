package extract

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// Limits of an archive.
const (
	maxEntries  = 1000
	maxUnpacked = 100 << 20
	maxRatio    = 50 // for the whole archive
	slack       = 1 << 20
	maxDepth    = 256
)

const tooMuch fault = "it unpacks to too much"

func parseDOCX(body []byte, limit int) (document, error) {
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return document{}, err
	}
	if len(z.File) > maxEntries {
		return document{}, fault("it has too many parts")
	}
	most := min(int64(maxUnpacked), int64(len(body))*maxRatio+slack)
	var d document
	d.Text, err = part(z, "word/document.xml", most, func(r io.Reader) (string, error) { return wordText(r, limit) })
	if err != nil {
		return document{}, err
	}
	// The title is a courtesy: a document without one, or with a broken one, is
	// a document all the same.
	d.Title, _ = part(z, "docProps/core.xml", slack, coreTitle)
	return d, nil
}

// part reads one file of the archive, by its exact name, whatever sizes the
// archive states.
func part(z *zip.Reader, name string, most int64, read func(io.Reader) (string, error)) (string, error) {
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return "", err
		}
		defer r.Close()
		return read(&bounded{r: r, left: most})
	}
	return "", fault("it has no text part")
}

type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, tooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// walk gives each token to f until it says that it has enough.
func walk(r io.Reader, f func(xml.Token) (more bool)) error {
	dec := xml.NewDecoder(r)
	depth := 0
	for {
		t, err := dec.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.Directive:
			return fault("it declares entities or a document type")
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return fault("it is nested too deeply")
			}
		case xml.EndElement:
			depth--
		}
		if !f(t) {
			return nil
		}
	}
}

// wordText reads the paragraphs of a Word document.
func wordText(r io.Reader, limit int) (string, error) {
	var b strings.Builder
	inText, inTabs := false, false // tabs are where the stops are, not in the text
	err := walk(r, func(t xml.Token) bool {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "t":
				inText = true
			case "tabs":
				inTabs = true
			case "tab":
				if !inTabs {
					b.WriteByte('\t')
				}
			case "br", "cr":
				b.WriteByte('\n')
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText = false
			case "tabs":
				inTabs = false
			case "p":
				b.WriteByte('\n')
			}
		case xml.CharData:
			if inText {
				b.Write(t)
			}
		}
		return b.Len() <= limit
	})
	return strings.TrimSpace(b.String()), err
}

func coreTitle(r io.Reader) (string, error) {
	title, in := "", false
	err := walk(r, func(t xml.Token) bool {
		switch t := t.(type) {
		case xml.StartElement:
			in = t.Name.Local == "title"
		case xml.EndElement:
			in = false
		case xml.CharData:
			if in {
				title += string(t)
			}
		}
		return len(title) < maxTitle
	})
	return title, err
}

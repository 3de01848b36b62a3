package extract

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
)

func TestParse(t *testing.T) {
	word := wordHead + `<w:p><w:pPr><w:tabs><w:tab w:pos="1"/></w:tabs></w:pPr><w:r><w:t>High &amp; low</w:t><w:tab/><w:t xml:space="preserve"> water</w:t></w:r></w:p>` +
		`<w:p><w:r><w:t>Second</w:t><w:br/><w:t>line</w:t><w:instrText>hidden</w:instrText></w:r></w:p>` + wordTail
	core := `<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:creator>x</dc:creator><dc:title>Tides</dc:title></cp:coreProperties>`
	for _, tt := range []struct {
		name string
		task task
		body []byte
		want document
	}{
		{"SG-75 pdf", task{Format: formatPDF}, makePDF("Tides of tea", "High water", "Low water"), document{Title: "Tides of tea", Text: "High water\n\nLow water"}},
		{"SG-75 docx", task{Format: formatDOCX}, makeDOCX(t, "word/document.xml", word, "docProps/core.xml", core), document{Title: "Tides", Text: "High & low\t water\nSecond\nline"}},
		{"SG-75 docx without a title", task{Format: formatDOCX}, makeDOCX(t, "word/document.xml", word, "docProps/core.xml", "<<"), document{Text: "High & low\t water\nSecond\nline"}},
		{"SG-75 web page", task{Format: formatHTML, ContentType: "text/html", URL: "https://docs.example.com/tea"}, []byte(article), document{Title: "Tides of tea", Text: "Tea follows the tides, as every harbour knows; the kettles on the quay are filled when the water is high, and emptied when it is low. " +
			"This has been so for as long as anybody remembers.\n\nSee [the notes](https://docs.example.com/notes) for more about kettles, quays and harbours, of which there are many.\n\n- high water: fill\n- low water: pour"}},
		{"SG-75 a short page", task{Format: formatHTML, ContentType: "text/html", URL: "https://docs.example.com/"}, []byte(`<p>It is <b>high</b> water.</p>`), document{Text: "It is **high** water."}},
		{"SG-75 markdown", task{Format: formatText, ContentType: "text/markdown"}, []byte("# Tides\n\n* high"), document{Text: "# Tides\n\n* high"}},
		{"SG-75 text in Latin-1", task{Format: formatText, ContentType: "text/plain", Charset: "iso-8859-1"}, []byte("th\xe9"), document{Text: "thé"}},
		{"what cannot be seen", task{Format: formatText}, []byte("a\u200bb\u202ec\x00d\r\ne\xff"), document{Text: "abcd\ne\uFFFD"}},
		{"cut", task{Format: formatText, MaxText: 10}, []byte("0123456789é"), document{Text: "0123456789", Cut: true}},
		{"cut within a letter", task{Format: formatText, MaxText: 11}, []byte("0123456789é!"), document{Text: "0123456789", Cut: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.task.MaxText == 0 {
				tt.task.MaxText = 1 << 20
			}
			if got := parse(tt.task, tt.body); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// Bombs and damage: an answer that says so, in the memory of a document.
func TestHostileDocuments(t *testing.T) {
	entity := `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>`
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("%d", i), "")
	}
	pdf := makePDF("t", "text")
	loop := assemblePDF([]string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R] /Count 5 >>"}, "")
	orphan := assemblePDF([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 3 0 R /Contents 4 0 R >>",
		"<< /Length 2 >>\nstream\nET\nendstream",
	}, "")
	huge := assemblePDF([]string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 2000000000 >>"}, "")
	for _, tt := range []struct {
		name, format string
		body         []byte
		want         string // in the error; "" if any outcome will do, so it comes
	}{
		{"docx: sizes that lie", formatDOCX, lyingDOCX(t, 1<<20), "could not be parsed"},
		{"docx: unpacks to too much", formatDOCX, makeDOCX(t, "word/document.xml", wordHead+strings.Repeat("<w:p></w:p>", 1<<20)+wordTail), string(tooMuch)},
		{"docx: entities", formatDOCX, makeDOCX(t, "word/document.xml", entity+"<x>&b;</x>"), "declares entities"},
		{"docx: an unknown entity", formatDOCX, makeDOCX(t, "word/document.xml", "<x>&xxe;</x>"), "damaged"},
		{"docx: nested deeply", formatDOCX, makeDOCX(t, "word/document.xml", strings.Repeat("<a>", 300)), "nested too deeply"},
		{"docx: many parts", formatDOCX, makeDOCX(t, many...), "too many parts"},
		{"docx: a part of the same name above", formatDOCX, makeDOCX(t, "../word/document.xml", wordHead), "no text part"},
		{"docx: parts that overlap", formatDOCX, overlappingDOCX(t, wordHead+"<w:p><w:r><w:t>"+strings.Repeat("a", 1<<20)+"</w:t></w:r></w:p>"+wordTail, 1000), ""},
		{"docx: very many parts", formatDOCX, overlappingDOCX(t, wordHead, 65_535), "too many parts"},
		{"docx: an archive in it is not opened", formatDOCX, makeDOCX(t, "word/document.xml.zip", string(makeDOCX(t, "word/document.xml", wordHead))), "no text part"},
		{"docx: no zip", formatDOCX, []byte("PK\x03\x04 and nothing"), "damaged"},
		{"docx: cut off", formatDOCX, makeDOCX(t, "word/document.xml", wordHead)[:60], "damaged"},
		{"pdf: nothing", formatPDF, nil, "damaged"},
		{"pdf: only its first line", formatPDF, []byte("%PDF-1.4\n"), "damaged"},
		{"pdf: cut off", formatPDF, pdf[:len(pdf)/2], "damaged"},
		{"pdf: pages that hold themselves", formatPDF, loop, "nested too deeply"},
		{"pdf: a page above itself", formatPDF, orphan, "nested too deeply"},
		{"pdf: a count of pages that lies", formatPDF, huge, ""},
		{"pdf: 10,000 pages", formatPDF, makePDF("t", make([]string, 10_000)...), "over 2000 pages"},
		{"pdf: many pages", formatPDF, makePDF("t", make([]string, 2001)...), "over 2000 pages"},
		{"pdf: a table that is elsewhere", formatPDF, bytes.Replace(pdf, []byte("startxref\n"), []byte("startxref\n9"), 1), "damaged"},
		{"html: nested deeply", formatHTML, []byte(strings.Repeat("<div>", 100_000) + "x"), ""},
		{"html: misnested", formatHTML, []byte(strings.Repeat("<b><i><a href=x><p>", 2000)), ""},
		{"html: many attributes", formatHTML, []byte("<p " + strings.Repeat("a=b ", 1_000_000) + ">x</p>"), ""},
		{"html: all entities", formatHTML, []byte("<p>" + strings.Repeat("&amp;&#x41;&CounterClockwiseContourIntegral;", 10<<20/42)), ""},
		{"text: deep JSON, duplicate keys, a huge number", formatText, []byte(strings.Repeat(`{"a":1,"a":[`, 100_000) + strings.Repeat("9", 1<<20)), ""},
		{"a format that is none", "exe", []byte("MZ"), "not read"},
	} {
		t.Run("SG-75 "+tt.name, func(t *testing.T) {
			d := parse(task{Format: tt.format, URL: "https://x.example.com/", ContentType: "text/html", MaxText: 1 << 20}, tt.body)
			if tt.want != "" && !strings.Contains(d.Error, tt.want) {
				t.Errorf("error %q, text of %d bytes, want %q", d.Error, len(d.Text), tt.want)
			}
			if len(d.Text) > 1<<20 || d.Error != "" && d.Text != "" {
				t.Errorf("error %q, text of %d bytes", d.Error, len(d.Text))
			}
		})
	}
}

// Pages on which the libraries take time in squares: minutes each, or hours, if
// nothing bounds them. Processor time would end the child, and the page with it.
func TestPagesThatTakeLong(t *testing.T) {
	words := strings.Repeat("tea and tides ", 1<<15)
	for name, page := range map[string]string{
		"brackets that nothing closes":                 words + strings.Repeat("[", 1<<20),
		"a title as long as a book, and many headings": "<title>" + words + "</title>" + strings.Repeat("<h1>kettle</h1>", 20_000),
		"its title in a script":                        `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article","headline":"` + words + `"}</script>` + strings.Repeat("<h2>kettle</h2>", 20_000),
		"headings inside headings":                     strings.Repeat("<h1><div>", 200) + words,
	} {
		t.Run("SG-75 "+name, func(t *testing.T) {
			d := parse(task{Format: formatHTML, URL: "https://x.example.com/", ContentType: "text/html", MaxText: 4 << 20}, []byte(page))
			if d.Error != "" || !strings.Contains(d.Text, "tea") && !strings.Contains(d.Text, "kettle") || len(d.Title) > maxTitle {
				t.Errorf("error %q, title %.30q, text of %d bytes", d.Error, d.Title, len(d.Text))
			}
		})
	}
	t.Run("SG-75 a link keeps its brackets", func(t *testing.T) {
		d := parse(task{Format: formatHTML, URL: "https://x.example.com/", ContentType: "text/html", MaxText: 1 << 20}, []byte(`<p>[a] [b <a href="/c">d [e]</a></p>`))
		if d.Text != `\[a] [b [d [e\]](https://x.example.com/c)` && d.Text != `\[a] \[b [d \[e\]](https://x.example.com/c)` {
			t.Errorf("%s", d.Text)
		}
	})
}

// FuzzParse leaves out PDF, whose reader has inputs that it never comes back
// from: see FuzzChild.
func FuzzParse(f *testing.F) {
	word := wordHead + "<w:p><w:r><w:t>x</w:t></w:r></w:p>" + wordTail
	f.Add(0, makeDOCX(f, "word/document.xml", word, "docProps/core.xml", "<title>t</title>"))
	f.Add(1, []byte(article))
	f.Add(2, []byte("# text\n\x00\xff"))
	formats := []string{formatDOCX, formatHTML, formatText}
	f.Fuzz(func(t *testing.T, format int, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		const most = 4096
		d := parse(task{Format: formats[uint(format)%3], URL: "https://x.example.com/y", ContentType: "text/html", MaxText: most}, body)
		if len(d.Text) > most || len(d.Title) > maxTitle || strings.ToValidUTF8(d.Text, "") != d.Text || d.Error != "" && d.Text != "" {
			t.Errorf("%+v", d)
		}
	})
}

// endlessPDF has a table of objects that names itself as the one before it, which
// the library follows for ever.
func endlessPDF() []byte {
	b := makePDF("t", "text")
	_, start, _ := bytes.Cut(b, []byte("startxref\n"))
	at, _, _ := bytes.Cut(start, []byte("\n"))
	return bytes.Replace(b, []byte("/Root 1 0 R"), fmt.Appendf(nil, "/Root 1 0 R /Prev %s", at), 1)
}

func limited(tb testing.TB) *Reader {
	tb.Helper()
	r, err := NewReader(Options{
		Policy: netguard.Policy{Allow: []string{"*"}}, Command: self(tb, "extract-child"),
		Limits: Limits{CPU: time.Second, Time: 5 * time.Minute, Memory: 256 << 20},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// childAnswers has a child parse body under the limits of production, a second of
// processor time among them: it answers, or its end is told in words.
func childAnswers(tb testing.TB, r *Reader, format string, body []byte) (document, error) {
	tb.Helper()
	const most = 4096
	d, err := r.parse(context.Background(), task{
		Format: format, URL: "https://x.example.com/y", ContentType: "text/html", MaxText: most, Memory: r.limits.Memory, CPUSeconds: 1,
	}, body)
	if len(d.Text) > most || len(d.Title) > maxTitle || strings.ToValidUTF8(d.Text+d.Title, "") != d.Text+d.Title {
		tb.Errorf("%+v", d)
	}
	if err != nil && (!strings.HasPrefix(err.Error(), "the document could not be parsed: ") || len(err.Error()) > 200) {
		tb.Errorf("error %q", err)
	}
	return d, err
}

// What the library never comes back from, processor time ends.
func TestDocumentThatNeverEnds(t *testing.T) {
	d, err := childAnswers(t, limited(t), formatPDF, endlessPDF())
	if want := "it breaks the parser, or takes too much memory or time"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("SG-75: %+v, %v, want %s", d, err, want)
	}
}

// FuzzChild fuzzes what a Reader does: any document of any format comes back in
// time, also one that the parser never comes back from.
func FuzzChild(f *testing.F) {
	r := limited(f)
	for _, b := range [][]byte{
		makePDF("Tides", "High water", "Low water"), assemblePDF([]string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R] /Count 5 >>"}, ""),
		bombPDF(1 << 16), []byte("%PDF-1.4\n"),
	} {
		f.Add(0, b)
	}
	f.Add(1, makeDOCX(f, "word/document.xml", wordHead+wordTail))
	f.Add(2, []byte(article))
	formats := []string{formatPDF, formatDOCX, formatHTML, formatText}
	f.Fuzz(func(t *testing.T, format int, body []byte) {
		if len(body) <= 1<<16 {
			_, _ = childAnswers(t, r, formats[uint(format)%4], body)
		}
	})
}

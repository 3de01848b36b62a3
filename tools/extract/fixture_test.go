package extract

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

// makePDF writes a PDF with a page for each text.
func makePDF(title string, pages ...string) []byte {
	kids := make([]string, len(pages))
	for i := range pages {
		kids[i] = fmt.Sprintf("%d 0 R", 5+2*i)
	}
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		fmt.Sprintf("<< /Title (%s) >>", title),
	}
	for i, text := range pages {
		content := fmt.Sprintf("BT /F1 12 Tf 72 700 Td (%s) Tj ET", text)
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 6+2*i),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}
	return assemblePDF(objects, "/Info 4 0 R")
}

func assemblePDF(objects []string, trailer string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, start)
	return b.Bytes()
}

// bombPDF has one page whose content unpacks to far more than it has.
func bombPDF(size int) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write([]byte("BT /F1 12 Tf "))
	chunk := bytes.Repeat([]byte("(aaaaaaaaaaaaaaaa) Tj "), 1<<12)
	for n := 0; n < size; n += len(chunk) {
		_, _ = w.Write(chunk)
	}
	_, _ = w.Write([]byte("ET"))
	_ = w.Close()
	return assemblePDF([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>",
		fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", z.Len(), z.String()),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	}, "")
}

const (
	wordHead = `<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>`
	wordTail = `</w:body></w:document>`
)

// makeDOCX writes an archive of parts, name and content in turn.
func makeDOCX(tb testing.TB, parts ...string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(parts[i+1])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// lyingDOCX says that its text has ten bytes; it has size.
func lyingDOCX(tb testing.TB, size int) []byte {
	tb.Helper()
	var packed bytes.Buffer
	f, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		tb.Fatal(err)
	}
	text := wordHead + "<w:p><w:r><w:t>" + strings.Repeat("a", size) + "</w:t></w:r></w:p>" + wordTail
	_, _ = f.Write([]byte(text))
	_ = f.Close()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{
		Name: "word/document.xml", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(text)),
		CompressedSize64: uint64(packed.Len()), UncompressedSize64: 10,
	})
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = w.Write(packed.Bytes())
	_ = z.Close()
	return b.Bytes()
}

// overlappingDOCX lists its one part n times, at the same place.
func overlappingDOCX(tb testing.TB, text string, n int) []byte {
	tb.Helper()
	b := makeDOCX(tb, "word/document.xml", text)
	end := bytes.LastIndex(b, []byte("PK\x05\x06"))
	start := bytes.Index(b, []byte("PK\x01\x02"))
	if start < 0 || end < start {
		tb.Fatal("the archive has no directory")
	}
	out := append(bytes.Clone(b[:start]), bytes.Repeat(b[start:end], n)...)
	tail := bytes.Clone(b[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*(end-start)))
	return append(out, tail...)
}

const article = `<html><head><title>Tides of tea</title><script>alert("no")</script></head><body><nav><a href="/home">Home</a></nav>
<article><h1>Tides of tea</h1><p>Tea follows the tides, as every harbour knows; the kettles on the quay are filled when the water is high, and emptied when it is low.
This has been so for as long as anybody remembers.</p><p>See <a href="/notes">the notes</a> for more about kettles, quays and harbours, of which there are many.</p>
<ul><li>high water: fill</li><li>low water: pour</li></ul></article><footer>© nobody</footer></body></html>`

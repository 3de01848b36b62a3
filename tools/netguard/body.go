package netguard

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/html/charset"
)

// slack is what an answer may unpack to before its ratio is judged: short ones
// are often very regular.
const slack = 64 << 10

// readBody reads an answer within its limits, and unpacks one layer of gzip.
func readBody(resp *http.Response, host string, l Limits, cut bool) (body []byte, isCut bool, err error) {
	packing := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ","))
	switch packing {
	case "", "identity":
		return readLimited(resp.Body, host, l.Body, cut)
	case "gzip", "x-gzip":
	default:
		return nil, false, &Error{Reason: BadEncoding, Host: host, text: "the answer of " + host + " is packed in a way that is not unpacked here"}
	}
	in := &meter{r: resp.Body, left: l.Packed, over: tooLarge(host, "packed answer", l.Packed)}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, false, unpacking(host, err)
	}
	body, isCut, err = readLimited(&ratio{r: z, in: in, most: l.Ratio, host: host}, host, l.Body, cut)
	if err != nil {
		return nil, false, unpacking(host, err)
	}
	return body, isCut, nil
}

// unpacking turns what gzip itself says into an error of ours.
func unpacking(host string, err error) error {
	if err == gzip.ErrHeader || err == gzip.ErrChecksum || strings.HasPrefix(err.Error(), "flate:") {
		return &Error{Reason: BadEncoding, Host: host, text: "the answer of " + host + " could not be unpacked", err: err}
	}
	return err
}

func tooLarge(host, what string, limit int64) *Error {
	return &Error{Reason: TooLarge, Host: host, text: fmt.Sprintf("the %s of %s is over %d bytes", what, host, limit)}
}

func readLimited(r io.Reader, host string, limit int64, cut bool) ([]byte, bool, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(b)) > limit {
		if cut {
			return b[:limit], true, nil
		}
		return nil, false, tooLarge(host, "answer", limit)
	}
	return b, false, err
}

// meter counts what is read, and ends it with an error.
type meter struct {
	r    io.Reader
	n    int64
	left int64
	over error
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, m.over
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.n += int64(n)
	m.left -= int64(n)
	return n, err
}

// ratio ends an answer that unpacks to too much.
type ratio struct {
	r    io.Reader
	in   *meter
	out  int64
	most int64
	host string
}

func (r *ratio) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.out += int64(n)
	if r.out > slack && r.out > r.most*r.in.n {
		return 0, &Error{Reason: Bomb, Host: r.host, text: fmt.Sprintf("the answer of %s unpacks to over %d times what was sent", r.host, r.most)}
	}
	return n, err
}

// Text is the body as UTF-8, by what the host said of its encoding or, of a
// page of HTML, what stands in it.
func (r *Response) Text() string {
	if r.Charset == "utf-8" || r.Charset == "" && r.ContentType != "text/html" {
		return strings.ToValidUTF8(string(r.Body), "\uFFFD")
	}
	typ := r.ContentType
	if r.Charset != "" {
		typ += "; charset=" + r.Charset
	}
	enc, _, _ := charset.DetermineEncoding(r.Body, typ)
	b, err := enc.NewDecoder().Bytes(r.Body)
	if err != nil {
		b = r.Body
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

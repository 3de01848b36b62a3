package redact

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const mark = "[withheld]"

var marked = regexp.MustCompile(`\[REDACTED:[^\]]*\]`)

// Values are found in every encoding in which a Redactor finds them, wherever in a
// text they stand, and the rest of the text stays as it is.
func TestValuesInAllEncodings(t *testing.T) {
	const secret = `pa/ss+w0rd"&<=_ 9`
	v := NewValues(secret, "short", "")
	r := New(Config{})
	if err := r.Register("one", secret); err != nil {
		t.Fatal(err)
	}
	for name, encode := range encodings() {
		t.Run(name, func(t *testing.T) {
			text := "before: " + encode(secret) + " after, short"
			got := v.Replace(text, mark)
			want := marked.ReplaceAllString(r.String(text), mark)
			if got != want || !strings.Contains(got, mark) || !strings.HasPrefix(got, "before: ") || !strings.HasSuffix(got, " after, short") {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
		})
	}
}

func TestValuesAcrossWindows(t *testing.T) {
	const secret = "s3cr\"t"
	v := NewValues(secret)
	for _, written := range []string{secret, `s3cr\u0022t`, "%73%33%63%72%22%74", "czNjciJ0"} {
		for at := window - len(written) - 1; at <= window+1; at++ {
			text := strings.Repeat("x.", at/2) + strings.Repeat("x", at%2) + "." + written + "." + strings.Repeat("y.", window/2)
			if got := v.Replace(text, mark); got != strings.Replace(text, written, mark, 1) {
				t.Fatalf("%s at %d: it was not replaced, or more than it", written, at)
			}
		}
	}
}

func TestValuesThatAreNone(t *testing.T) {
	const text = "five5 and a lot more\x00 \\u0041 %41"
	for name, v := range map[string]Values{"zero": {}, "none": NewValues(), "short": NewValues("five5", " f i v e ")} {
		if got := v.Replace(text, mark); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
	if v := NewValues("s3cr3t-value"); strings.Contains(fmt.Sprintf("%v %+v %#v %d %s", v, v, v, v, v), "s3cr3t") {
		t.Error("it is printed")
	}
}

func BenchmarkValues(b *testing.B) {
	v := NewValues("s3cr3t-value-of-a-service", "Bearer s3cr3t-value-of-a-service")
	for name, line := range map[string]string{"plain": "a line of ordinary text, with some words in it. ", "escaped": `{"a":"x\u0041 &amp; %20 \"y\" of ordinary text"}`} {
		text := strings.Repeat(line, 10<<20/len(line))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				v.Replace(text, mark)
			}
		})
	}
}

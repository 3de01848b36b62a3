package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// random returns n characters of alphabet; the same seed gives the same ones.
func random(seed uint64, n int, alphabet string) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	digits   = "0123456789"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum    = digits + lowers + uppers
	hexits   = "0123456789abcdef"
	trouble  = alnum + `"\/<&%+#@: '` + "\n$`;="
	wordlike = "the customer asked for a refund of order "
)

var testKey = []byte("tenant key of the tests")

func newTest(t testing.TB, secrets ...string) *Redactor {
	t.Helper()
	r := New(Config{TenantKey: testKey})
	for i, s := range secrets {
		if err := r.Register("s"+strconv.Itoa(i), s); err != nil {
			t.Fatalf("Register(%q): %v", s, err)
		}
	}
	return r
}

// TestForms covers PR-24 and PR-25: a known value is found in every form, in
// every place of a document, under one fingerprint.
func TestForms(t *testing.T) {
	secrets := map[string]string{
		"plain":       random(1, 20, alnum),
		"shortest":    random(2, 8, alnum),
		"trouble":     "a" + random(3, 30, trouble) + "z",
		"quotes":      `it's "q` + random(4, 8, alnum),
		"escape-like": `C:\new%41&lt;` + random(5, 8, alnum),
		"unicode":     "pässwörd-" + random(6, 8, alnum) + "-日本",
		"digits":      random(7, 16, "123456789"),
		"base64":      base64.StdEncoding.EncodeToString([]byte(random(8, 40, alnum))),
		"long":        random(9, 4096, alnum),
		"pem":         fakePEM(10),
	}
	for what, secret := range secrets {
		r := newTest(t, secret)
		want := marker("s0", fingerprint(testKey, secret))
		for name, encode := range encodings() {
			if what == "unicode" && asciiOnly(name) {
				continue
			}
			encoded := encode(secret)
			t.Run(what+"/"+name, func(t *testing.T) {
				text := r.String("before " + encoded + " after")
				if !strings.Contains(text, want) || !strings.Contains(text, "before") || !strings.Contains(text, "after") {
					t.Errorf("String(%.200q) = %.300q", encoded, text)
				}
				for _, v := range []any{
					map[string]any{"note": "x " + encoded},
					map[string]any{"a": []any{1, map[string]any{"deep": encoded}}},
					map[string]any{encoded: "as a key"},
				} {
					got, err := r.JSON(v)
					if err != nil {
						t.Fatalf("JSON: %v", err)
					}
					if !strings.Contains(string(got.Bytes()), want) {
						t.Errorf("JSON(%.200q) = %.300q", v, got.Bytes())
					}
				}
			})
		}
	}
}

func fakePEM(seed uint64) string {
	body := base64.StdEncoding.EncodeToString([]byte(random(seed, 400, trouble)))
	return "-----BEGIN EC PRIV" + "ATE KEY-----\n" + wrap(body, "\n", 64) + "-----END EC PRIV" + "ATE KEY-----\n"
}

func TestKnownValueAsNumber(t *testing.T) {
	r := newTest(t, "73214598812")
	got := mustJSON(t, r, json.RawMessage(`{"n":73214598812,"m":7321459881}`))
	if want := `{"m":7321459881,"n":"` + marker("s0", fingerprint(testKey, "73214598812")) + `"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func mustJSON(t testing.TB, r *Redactor, v any, exempt ...string) string {
	t.Helper()
	j, err := r.JSON(v, exempt...)
	if err != nil {
		t.Fatalf("JSON: %v", err)
	}
	return string(j.Bytes())
}

func TestOverlap(t *testing.T) {
	base := random(20, 30, alnum)
	short, long, tail := base[:12], base[:24], base[18:]
	r := newTest(t, short, long, tail)
	mark := func(i int, s string) string { return marker("s"+strconv.Itoa(i), fingerprint(testKey, s)) }
	for in, want := range map[string]string{
		"-" + short + "-":          "-" + mark(0, short) + "-",
		"-" + long + "-":           "-" + mark(1, long) + "-",
		"-" + base + "-":           "-" + mark(1, long) + "-", // overlapping: nothing of the tail is left
		short + short:              mark(0, short) + mark(0, short),
		short + " x " + tail + "!": mark(0, short) + " x " + mark(2, tail) + "!",
	} {
		if got := r.String(in); got != want {
			t.Errorf("String(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestKeysOfOneSecretStayApart(t *testing.T) {
	secret := random(21, 16, alnum)
	r := newTest(t, secret)
	m := marker("s0", fingerprint(testKey, secret))
	got := mustJSON(t, r, map[string]any{secret: 1, hex.EncodeToString([]byte(secret)): 2, m: 3})
	for _, want := range []string{`"` + m + `":3`, `"` + m + `#2":`, `"` + m + `#3":`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
}

// TestRegister covers PR-24: undefined and empty entries are allowed.
func TestRegister(t *testing.T) {
	r := New(Config{})
	if err := r.Register("empty", ""); err != nil {
		t.Errorf("empty value: %v", err)
	}
	if got := r.String("nothing matches everywhere"); got != "nothing matches everywhere" {
		t.Errorf("got %q", got)
	}
	for _, v := range []string{"short", "a b c d e f g", "REDACTED", "[REDACTED:", "secret://", "[Circular]", "x" + markerOpen + "y"} {
		var e *SecretError
		if err := r.Register("db", v); !errors.As(err, &e) || e.Name != "db" {
			t.Errorf("Register(%q) = %v", v, err)
		}
	}
	name := random(22, 12, alnum)
	if err := r.Register("named "+name, name); err != nil {
		t.Fatal(err)
	}
	if got := r.String(name); strings.Contains(got, name) || !HasMarker([]byte(got)) {
		t.Errorf("a value in its own name shows: %q", got)
	}
}

func TestLeavesOfAStructuredSecret(t *testing.T) {
	a, b := random(23, 20, alnum), random(24, 20, alnum)
	r := newTest(t, `{"user":"`+a+`","more":["`+b+`"]}`)
	if got := r.String("say " + a + " and " + b); strings.Contains(got, a) || strings.Contains(got, b) {
		t.Errorf("got %q", got)
	}
}

func TestThousandSecrets(t *testing.T) {
	var secrets []string
	for i := range 1000 {
		secrets = append(secrets, random(uint64(1000+i), 12+i%40, alnum))
	}
	r := newTest(t, secrets...)
	text := strings.Join(secrets, " ")
	got := r.String(text)
	for i, s := range secrets {
		if strings.Contains(got, s) || !strings.Contains(got, marker("s"+strconv.Itoa(i), fingerprint(testKey, s))) {
			t.Errorf("secret %d is missed", i)
		}
	}
}

// TestNothingMissed is the alignment property: a random secret in random
// surroundings and a random encoding never comes out again.
func TestNothingMissed(t *testing.T) {
	all := encodings()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringOfN(rapid.RuneFrom([]rune(trouble)), 10, 60, -1).
			Filter(func(s string) bool { return unfit(s) == "" }).Draw(t, "secret")
		name := rapid.SampledFrom(sortedKeys(all)).Draw(t, "encoding")
		plain := rapid.StringOfN(rapid.RuneFrom([]rune(alnum+" .,-{}")), 0, 40, -1)
		before, after := plain.Draw(t, "before"), plain.Draw(t, "after")
		r := New(Config{TenantKey: testKey})
		if err := r.Register("s", secret); err != nil {
			t.Fatal(err)
		}
		want := marker("s", fingerprint(testKey, secret))
		encoded := all[name](secret)
		if got := r.String(before + " " + encoded + " " + after); !strings.Contains(got, want) {
			t.Fatalf("missed in %q: %q", encoded, got)
		}
		got, err := r.JSON(map[string]any{"k": []any{before + "\n" + encoded + "\t" + after}})
		if err != nil || !strings.Contains(string(got.Bytes()), want) {
			t.Fatalf("missed in %q: %s, %v", encoded, got.Bytes(), err)
		}
	})
}

// TestBase64Alignments draws what stands before and after inside the base64.
func TestBase64Alignments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.ByteRange(33, 126), 8, 40).Draw(t, "secret")
		if unfit(string(secret)) != "" {
			t.Skip("part of the syntax")
		}
		around := rapid.SliceOfN(rapid.Byte(), 0, 12)
		data := append(append(around.Draw(t, "before"), secret...), around.Draw(t, "after")...)
		enc := rapid.SampledFrom([]*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding}).Draw(t, "alphabet")
		r := New(Config{TenantKey: testKey})
		if err := r.Register("s", string(secret)); err != nil {
			t.Fatal(err)
		}
		if got := r.String(enc.EncodeToString(data)); !strings.Contains(got, marker("s", fingerprint(testKey, string(secret)))) {
			t.Fatalf("missed: %q", got)
		}
	})
}

// TestAutomatonAgainstOracle compares the automaton with a search at every
// position.
func TestAutomatonAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.StringOfN(rapid.RuneFrom([]rune("abAB-+_/ c")), 1, 8, -1)
		patterns := rapid.SliceOfNDistinct(small.Filter(func(s string) bool { return squeeze(s) != "" }), 1, 12,
			func(s string) string { return folded(squeeze(s)) }).Draw(t, "patterns")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abAB-+_/ c\n\x00d")), 0, 80, -1).Draw(t, "text")
		type hit struct{ end, id int }
		got, want := map[hit]bool{}, map[hit]bool{}
		a := newAutomaton(patterns, len(patterns))
		for i, s := 0, uint32(0); i < len(text); {
			i, s = a.step(text, i, s)
			if s&hitFlag != 0 {
				a.matches(s, func(id int32) { got[hit{i, int(id)}] = true })
			}
		}
		for end := 1; end <= len(text); end++ {
			for id, p := range patterns {
				if !isSkipped(text[end-1]) && strings.HasSuffix(folded(squeeze(text[:end])), folded(squeeze(p))) {
					want[hit{end, id}] = true
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for h := range want {
			if !got[h] {
				t.Fatalf("%v is missing", h)
			}
		}
	})
}

func folded(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = fold(b[i])
	}
	return string(b)
}

// TestAgainstReplacer compares the plain form with strings.NewReplacer where
// the two agree by definition: no secret overlaps another.
func TestAgainstReplacer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z][a-z]{4}[0-9]{5}`), 1, 20, rapid.ID[string]).Draw(t, "secrets")
		r := New(Config{TenantKey: testKey})
		var pairs []string
		for i, s := range secrets {
			if err := r.Register("s"+strconv.Itoa(i), s); err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, s, marker("s"+strconv.Itoa(i), fingerprint(testKey, s)))
		}
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringMatching(`[ a-zA-Z]{0,12}`))).Draw(t, "parts")
		text := strings.Join(parts, "")
		if got, want := r.state().matcher().secretsIn(text), strings.NewReplacer(pairs...).Replace(text); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestPromptText covers PR-27 and PR-28: prompt text that was loaded, and a
// record on its way to a store, take the same path as everything else. That
// nothing else can be stored is the business of the type [JSON].
func TestPromptText(t *testing.T) {
	secret := random(80, 20, alnum)
	r := newTest(t, secret)
	prompt := "You are a support agent.\n\nUse the key " + secret + " for orders.\n"
	got := mustJSON(t, r, map[string]any{"messages": []map[string]string{{"role": "system", "content": prompt}}})
	want := `{"messages":[{"content":"You are a support agent.\n\nUse the key ` + marker("s0", fingerprint(testKey, secret)) + ` for orders.\n","role":"system"}]}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !(JSON{}).IsZero() {
		t.Error("the zero JSON is a value")
	}
}

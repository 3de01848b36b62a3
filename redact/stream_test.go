package redact

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const prose = "The order was looked at twice, and both times it was as it should be: paid, packed and on its way.\n" +
	"Nobody has asked for the 3 of them back. We keep 100% of what we said; see item 4 & 5.\n"

// told feeds text in pieces that end where cut says, and joins what comes out.
func told(t interface{ Helper() }, r *Redactor, text string, cut func(i int) bool) (joined string, whole bool) {
	t.Helper()
	s := r.Stream()
	last := 0
	for i := 1; i <= len(text); i++ {
		if i < len(text) && !cut(i) {
			continue
		}
		s.Write(text[last:i])
		last = i
		joined += s.Next()
	}
	rest, whole := s.End()
	if whole {
		return rest, true
	}
	return joined + rest, false
}

// holds reports what is wrong with how a stream redacts text. A piece for each
// byte gives out at the earliest moment that there is; what is given out at any
// other split is a part of that.
func holds(t testing.TB, r *Redactor, text string, more ...func(int) bool) {
	t.Helper()
	want := r.String(text)
	cuts := append([]func(int) bool{func(int) bool { return true }}, more...)
	for n, cut := range cuts {
		got, whole := told(t, r, text, cut)
		if whole {
			t.Errorf("split %d of %q: what was given out had to be taken back", n, text)
		}
		if got != want {
			t.Errorf("split %d of %q:\n got %q\nwant %q", n, text, got, want)
		}
	}
}

func TestStreamOfCredentials(t *testing.T) {
	r := newTest(t)
	for _, seed := range []uint64{100} {
		for name, c := range credentials(seed) {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				text := c[0] + c[1] + c[2]
				holds(t, r, text)
				holds(t, r, "Well: "+text+" so be it.\n\n"+text)
			})
		}
	}
}

func TestStreamOfRegisteredSecrets(t *testing.T) {
	for _, secret := range []string{
		random(1, 20, alnum), "correct horse battery staple", `q"u'o\te&<x>%41`, "two\nlines-of-it\nend", "Füße-naïve",
	} {
		r := newTest(t, secret)
		for name, encode := range encodings() {
			if asciiOnly(name) && strings.ContainsFunc(secret, func(c rune) bool { return c > 127 }) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				holds(t, r, "It is "+encode(secret)+" and no more.")
			})
		}
	}
}

// What is no secret comes through too, and soon.
func TestStreamOfProse(t *testing.T) {
	r := newTest(t, random(1, 20, alnum), "correct horse battery staple")
	text := strings.Repeat(prose, 3)
	holds(t, r, text)
	s := r.Stream()
	for i := range text {
		s.Write(text[i : i+1])
		s.Next()
		if late := i + 1 - len(s.Given()); late > 72 {
			t.Fatalf("%d bytes are held back at %q", late, text[max(0, i-80):i+1])
		}
	}
	han := strings.Repeat("注文は二度確認されました。", 10)
	holds(t, r, han)
	s = r.Stream()
	s.Write(han)
	if s.Next(); len(s.Given()) < len(han)-64 {
		t.Errorf("of a text without blanks %d of %d bytes are held back", len(han)-len(s.Given()), len(han))
	}
}

func TestStreamOfJSON(t *testing.T) {
	r := newTest(t, "correct horse battery staple")
	for _, text := range []string{
		`{"password": "abc def", "note": "fine"}`, `[{"token":"x1 y2 z3"}, 4]`, "  {\"a\": [1, 2, {\"secret\": \"q w e\"}]}\n", `{"password": "abc def"} is what it says`,
		`[1] as it stands there, and [2] too`, `{not json at all} but prose`, "```json\n{\"password\": \"a b c1\", \"x\": 2}\n```\n", `{"a": 1`, "[]", "{}", "", " ", "[",
	} {
		holds(t, r, text)
	}
	s := r.Stream()
	s.Write(`{"password": "abc `)
	if got := s.Next(); got != "" {
		t.Errorf("of a JSON document that goes on %q was given out", got)
	}
}

func TestStreamIsBounded(t *testing.T) {
	r := newTest(t)
	s := r.Stream()
	for range 2 * MaxStream / len(prose) {
		s.Write(prose)
	}
	if !s.Over() || s.Held() != MaxStream {
		t.Errorf("over is %v with %d bytes", s.Over(), s.Held())
	}
	if rest, whole := s.End(); s.Next() != "" || rest != "" || whole {
		t.Error("of a text that is cut off in the middle of anything, something was given out")
	}
	if got := fmt.Sprintf("%v %+v %s", s, s, s); strings.Contains(got, "order") {
		t.Error("a stream prints what it holds")
	}
}

// Any mixture: the joined text is the redaction of the whole, at every split.
func TestStreamSplits(t *testing.T) {
	secret := "correct horse 7 battery"
	r := newTest(t, secret, random(1, 20, alnum))
	all := encodings()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			switch rapid.IntRange(0, 5).Draw(t, "part") {
			case 0:
				text.WriteString(prose[:rapid.IntRange(0, 60).Draw(t, "prose")])
			case 1:
				text.WriteString(all[rapid.SampledFrom(sortedKeys(all)).Draw(t, "encoding")](secret))
			case 2:
				cs := credentials(rapid.Uint64Range(100, 200).Draw(t, "seed"))
				c := cs[rapid.SampledFrom(sortedKeys(cs)).Draw(t, "credential")]
				text.WriteString(c[0] + c[1] + c[2])
			case 3:
				c := secret[:rapid.IntRange(0, len(secret)).Draw(t, "half")]
				text.WriteString(c)
			case 4:
				text.WriteString(rapid.SampledFrom([]string{"password: ", "token=", "key: ", "card ", "4111 1111 1111 1111", "4111 1111", "Bearer ", "Cookie: a", "-----BEGIN ", "secret://s", "\"", "%2", "\\u00", "&#", "=", "{", "}"}).Draw(t, "bait"))
			default:
				text.WriteString(rapid.StringOfN(rapid.RuneFrom([]rune(trouble+" \n")), 0, 30, -1).Draw(t, "any"))
			}
			text.WriteString(rapid.SampledFrom([]string{"", " ", "\n", ". "}).Draw(t, "gap"))
		}
		at := map[int]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "splits") {
			at[rapid.IntRange(0, text.Len()).Draw(t, "at")] = true
		}
		want := r.String(text.String())
		for n, cut := range []func(int) bool{func(int) bool { return true }, func(i int) bool { return at[i] }} {
			got, whole := told(t, r, text.String(), cut)
			if whole || got != want {
				t.Fatalf("split %d of %q: taken back %v\n got %q\nwant %q", n, text.String(), whole, got, want)
			}
		}
	})
}

// What is looked for in all that came in so far takes linear time, too. What the bound
// guards against takes many times as long.
func TestStreamOfHostileText(t *testing.T) {
	for _, unit := range []string{"cookie", "PuTTY-User-Key-File", "-----BEGIN PRIV" + "ATE KEY-----", "-----BEGIN", "-----END ", "Private-MAC:", "PuTTY-User-Key-File-----BEGIN"} {
		for _, end := range []string{"", "\n", "-----END PRIV" + "ATE KEY-----", "Private-MAC:\n"} {
			text := strings.Repeat(unit, MaxStream/len(unit)) + end
			start := spent(t)
			for range 10 {
				openKey(text)
				openHeader(text)
			}
			if d := spent(t) - start; d > 3*time.Second {
				t.Errorf("%d times %q and %q: %v", len(text)/len(unit), unit, end, d/10)
			}
		}
	}
}

// A capital may be shorter than its small letter: places in the one are not those in the other.
func TestStreamOfLettersThatGrow(t *testing.T) {
	text := strings.Repeat("\u023a", 40) + " Cookie: id=abc"
	if at, want := openHeader(text), strings.Index(text, "Cookie"); at != want {
		t.Errorf("the header begins at %d, found at %d", want, at)
	}
}

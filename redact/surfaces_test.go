package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/slogtest"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
)

var verbs = []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%X", "%q", "%t", "%p"}

// leaks reports whether text shows secret, plainly or in hex.
func leaks(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret))
}

// TestErrorSurfaces covers PR-29: what Go itself puts into the text of errors.
func TestErrorSurfaces(t *testing.T) {
	secret := random(60, 10, lowers) + "#1" + random(61, 10, lowers)
	r := newTest(t, secret)
	errs := map[string]error{}
	_, errs["url"] = url.Parse("postgres://app:" + secret + "@h:bad port/")
	_, errs["http path"] = http.Get("http://127.0.0.1:1/hook/" + url.PathEscape(secret))    //nolint:noctx // fails at once
	_, errs["http query"] = http.Get("http://127.0.0.1:1/?x=" + url.QueryEscape(secret))    //nolint:noctx // fails at once
	_, errs["http user"] = http.Get("http://" + url.QueryEscape(secret) + "@127.0.0.1:1/x") //nolint:noctx // fails at once
	_, errs["strconv"] = strconv.Atoi(secret)
	_, errs["duration"] = time.ParseDuration(secret)
	_, errs["regexp"] = regexp.Compile("(" + secret)
	_, errs["template"] = template.New("x").Parse("{{" + secret + "}}")
	_, errs["path"] = os.Open("/nowhere/" + secret)
	_, errs["exec"] = exec.LookPath(secret)
	d := json.NewDecoder(strings.NewReader(`{"` + secret + `":1}`))
	d.DisallowUnknownFields()
	errs["json"] = d.Decode(&struct{}{})
	errs["joined"] = errors.Join(io.EOF, fmt.Errorf("wrapped %w: %s", fs.ErrNotExist, secret))
	for name, err := range errs {
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		got := r.Error(fmt.Errorf("call: %w", err))
		for _, v := range verbs {
			if text := fmt.Sprintf(v, got); leaks(text, secret) {
				t.Errorf("%s: %s shows %q", name, v, text)
			}
			if text := fmt.Sprintf(v, struct{ err error }{got}); leaks(text, secret) {
				t.Errorf("%s: in a field, %s shows %q", name, v, text)
			}
		}
		if !errors.Is(got, err) {
			t.Errorf("%s: the original is out of reach", name)
		}
	}
	got := r.Error(errs["path"])
	var pe *fs.PathError
	if !errors.As(got, &pe) || !errors.Is(got, fs.ErrNotExist) {
		t.Error("As and Is don't reach through")
	}
	if r.Error(nil) != nil || r.Error(got) != got {
		t.Error("nil or a redacted error changed")
	}
	if raw, _ := json.Marshal(map[string]any{"err": got}); !strings.Contains(string(raw), "[REDACTED:s0:") {
		t.Errorf("json: %s", raw)
	}
}

func TestNothingPrintsAVault(t *testing.T) {
	secret := random(62, 20, alnum)
	r := New(Config{TenantKey: []byte(secret)})
	v := NewVault(r)
	if err := v.Set("db", secret); err != nil {
		t.Fatal(err)
	}
	type holder struct {
		r  *Redactor
		v  *Vault
		rv Redactor
		vv Vault
	}
	h := holder{r, v, *r, *v}
	for _, x := range []any{r, v, *r, *v, h, &h, []any{v, r}, map[string]*Vault{"v": v}, r.Handler(slog.DiscardHandler), r.Writer(io.Discard)} {
		for _, verb := range verbs {
			if text := fmt.Sprintf(verb, x); leaks(text, secret) {
				t.Errorf("%s of %T shows %q", verb, x, text)
			}
		}
		raw, _ := json.Marshal(x)
		var logs bytes.Buffer
		slog.New(slog.NewTextHandler(&logs, nil)).Info("x", "x", x)
		slog.New(slog.NewJSONHandler(&logs, nil)).Info("x", "x", x)
		if leaks(string(raw)+logs.String(), secret) {
			t.Errorf("%T: %s %s", x, raw, logs.String())
		}
	}
}

func TestVault(t *testing.T) {
	r := New(Config{TenantKey: testKey})
	v := NewVault(r)
	db, quoted := random(63, 16, alnum), `p"a\ss`+random(64, 10, alnum)
	for name, value := range map[string]string{"db": db, "api.key-1": quoted, "empty": ""} {
		if err := v.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"api.key-1", "db"}, v.Names()); diff != "" {
		t.Error(diff)
	}
	q, _ := json.Marshal(quoted)
	for in, want := range map[string]string{
		`"secret://db"`: `"` + db + `"`,
		`{"a":["x secret://db.","secret:\/\/db"]}`: `{"a":["x ` + db + `.","` + db + `"]}`,
		`{"k":"secret://api.key-1", "n": 1.0}`:     `{"k":` + strings.ReplaceAll(string(q), "\\u003c", "<") + `, "n": 1.0}`,
		`{"none" : "here\n"}`:                      `{"none" : "here\n"}`,
	} {
		got, err := v.Resolve(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("Resolve(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for in, name := range map[string]string{`"secret://nope"`: "nope", `{"x":["secret://empty"]}`: "empty", `"secret://dbx"`: "dbx"} {
		var unknown UnknownSecretError
		if _, err := v.Resolve(json.RawMessage(in)); !errors.As(err, &unknown) || unknown.Name != name {
			t.Errorf("Resolve(%s): %v", in, err)
		}
	}
	if _, err := v.Resolve(json.RawMessage(`{"a":`)); err == nil {
		t.Error("not JSON, no error")
	}
	for _, bad := range []string{"", "a b", "a/b", "x."} {
		if v.Set(bad, db) == nil {
			t.Errorf("Set(%q) is accepted", bad)
		}
	}
	// What a tool answers with the value in it is redacted.
	if got := r.String("connected with " + db + " via secret://db"); got != "connected with "+marker("db", fingerprint(testKey, db))+" via secret://db" {
		t.Errorf("got %q", got)
	}
	// A handle stays whole even if its name is some other secret's value.
	if err := v.Set("customer-database", random(65, 12, alnum)); err != nil {
		t.Fatal(err)
	}
	if err := r.Register("word", "customer-database"); err != nil {
		t.Fatal(err)
	}
	if got := r.String("secret://customer-database"); got != "secret://customer-database" {
		t.Errorf("got %q", got)
	}
}

type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value { return slog.StringValue(v.s) }

func TestHandler(t *testing.T) {
	secret := "7" + random(66, 14, digits)
	r := newTest(t, secret)
	n, _ := strconv.Atoi(secret)
	for name, open := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var b bytes.Buffer
		log := slog.New(r.Handler(open(&b)))
		log.With("w", secret).WithGroup("g").Info(
			"message "+secret, "s", secret, "e", fmt.Errorf("x %s", secret), "n", n, "f", float64(n), "b", []byte(secret), secret, "key",
			"struct", struct{ Field string }{secret}, "map", map[string]int{secret: 1}, "st", stringer{secret}, "lv", valuer{secret},
			slog.Group("h", "inner", secret, "password", "pw"), "api_key", "abc", "cookie", map[string]any{"sid": "sidvalue"}, "p", &struct{ P *string }{&secret},
			"token", ulid(5), "count", 42, "ok", true, "wait", time.Second,
		)
		got := b.String()
		for _, bad := range []string{secret, `"pw"`, "=pw", "abc", "sidvalue"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: %q shows in %s", name, bad, got)
			}
		}
		for _, good := range []string{ulid(5), "42", "true", "1"} {
			if !strings.Contains(got, good) {
				t.Errorf("%s: %q is missing in %s", name, good, got)
			}
		}
	}
	if !r.Handler(slog.NewTextHandler(io.Discard, nil)).Enabled(context.Background(), slog.LevelInfo) {
		t.Error("not enabled")
	}
}

func TestHandlerConforms(t *testing.T) {
	r := newTest(t)
	var b bytes.Buffer
	err := slogtest.TestHandler(r.Handler(slog.NewJSONHandler(&b, nil)), func() []map[string]any {
		var all []map[string]any
		for line := range strings.Lines(b.String()) {
			m := map[string]any{}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

type flushCloser interface {
	io.WriteCloser
	Flush() error
}

func TestWriterSplits(t *testing.T) {
	secret := `q"u` + random(67, 20, alnum)
	long := random(68, 4096, alnum)
	r := newTest(t, secret, long, "two\nlines-of-it")
	for name, text := range map[string]string{
		"plain":     "panic: " + secret + "\n\ngoroutine 1\n",
		"no end":    "panic: " + secret,
		"quoted":    fmt.Sprintf("panic: %q\nx", secret),
		"pem":       "a\n" + fakePEM(69) + "b\n",
		"wrapped":   "a " + wrap(secret, "\n  ", 5) + " b\n",
		"two lines": "a two\nlines-of-it b\nc",
		"json":      "x\n{\"password\":\"pw\"}\ny\n",
		"detector":  "my key is sk-" + "live-" + random(70, 20, alnum) + "\n",
		"long":      "a " + long + " b\n",
	} {
		var want string
		{
			var b bytes.Buffer
			w := r.Writer(&b).(flushCloser)
			_, _ = io.WriteString(w, text)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			want = b.String()
		}
		if !HasMarker([]byte(want)) || strings.Contains(want, secret) || strings.Contains(want, long) {
			t.Fatalf("%s: whole: %q", name, want)
		}
		step := 1 + len(text)/500
		for i := 0; i <= len(text); i += step {
			var b bytes.Buffer
			w := r.Writer(&b).(flushCloser)
			for _, part := range []string{text[:i], text[i:min(len(text), i+3)], text[min(len(text), i+3):]} {
				if n, err := io.WriteString(w, part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != want {
				t.Fatalf("%s: split at %d: %q, want %q", name, i, got, want)
			}
		}
	}
}

func TestWriterBoundsAndErrors(t *testing.T) {
	secret := random(71, 20, alnum)
	r := newTest(t, secret)
	var b bytes.Buffer
	w := r.Writer(&b).(flushCloser)
	_, _ = io.WriteString(w, "one line\n")
	if b.String() != "one line\n" {
		t.Errorf("a harmless line is held back: %q", b.String())
	}
	for range 100 {
		_, _ = io.WriteString(w, strings.Repeat("x", 4000)+secret)
	}
	if held := 9 + 100*4020 - b.Len(); held > maxHeld+8192 {
		t.Errorf("%d bytes are held back", held)
	}
	if err := errors.Join(w.Flush(), w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if strings.Contains(b.String(), secret) {
		t.Error("a secret in a line without end shows")
	}
	if _, err := io.WriteString(w, "x"); err == nil {
		t.Error("write after close")
	}
	pr, pw := io.Pipe()
	_ = pr.Close()
	if _, err := io.WriteString(r.Writer(pw), "x\n"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("err = %v", err)
	}
}

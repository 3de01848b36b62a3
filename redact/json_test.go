package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func ulid(seed uint64) string { return "01" + random(seed, 24, digits+"ABCDEFGHJKMNPQRSTVWXYZ") }

func TestKeyNames(t *testing.T) {
	names := newKeyNames([]string{"card pin"})
	for _, k := range []string{
		"password", "Password", "PASSWORD", "db_password", "dbPassword", "passwd", "pass_word", "secret", "client_secret",
		"clientSecret", "client-secret", "authorization", "Authorization", "Proxy-Authorization", "cookie", "set-cookie", "Set-Cookie",
		"api_key", "apikey", "apiKey", "APIKey", "X-API-Key", "x_api_key", "openai_api_key", "OPENAI_API_KEY", "access_token",
		"accessToken", "refresh_token", "private_key", "privateKey", "aws_secret_access_key", "cardPin", "CARD-PIN", "jwt",
	} {
		if !names.denied(k) {
			t.Errorf("%q is not denied", k)
		}
	}
	for _, k := range []string{
		"tokens", "input_tokens", "max_tokens", "output_tokens", "token_count", "op_key", "client_key", "idempotency_key", "order_key",
		"key", "token", "next_page_token", "secretary", "password_hint", "cookie_count", "author", "keyboard", "", "a", "primary_key", "id",
		"access_key_id", "tokenizer", "reauthorization",
	} {
		if names.denied(k) {
			t.Errorf("%q is denied", k)
		}
	}
}

// NousResearch/hermes-agent#72925
func TestJSONByKeyName(t *testing.T) {
	r := newTest(t)
	m := func(name, v string) string { return `"` + marker(name, fingerprint(testKey, v)) + `"` }
	id := ulid(1)
	for in, want := range map[string]string{
		`{"password":"a"}`:                             `{"password":` + m("password", "a") + `}`,
		`{"a":[{"X-Api-Key":"b"}]}`:                    `{"a":[{"X-Api-Key":` + m("x-api-key", "b") + `}]}`,
		`{"password":null,"secret":true,"api_key":""}`: `{"api_key":"","password":null,"secret":true}`,
		`{"password":12}`:                              `{"password":` + m("password", "12") + `}`,
		`{"cookie":{"sid":"v","n":[1]}}`:               `{"cookie":{"n":[` + m("cookie", "1") + `],"sid":` + m("cookie", "v") + `}}`,
		`{"token":"` + id + `"}`:                       `{"token":"` + id + `"}`,
		`{"token":"hello"}`:                            `{"token":` + m("token", "hello") + `}`,
		`{"token":7,"tokens":8,"max_tokens":9}`:        `{"max_tokens":9,"token":7,"tokens":8}`,
		`{"op_key":"k","client_key":"c"}`:              `{"client_key":"c","op_key":"k"}`,
		`{"password":"secret://db"}`:                   `{"password":"secret://db"}`,
		`{"authorization":"Bearer secret://db"}`:       `{"authorization":"Bearer secret://db"}`,
		`{"s":"{\"password\":\"a\"}"}`:                 `{"s":"{\"password\":\"` + strings.Trim(m("password", "a"), `"`) + `\"}"}`,
		`{"s":"{ \"fine\" : 1 }"}`:                     `{"s":"{ \"fine\" : 1 }"}`,
		`[{"name":"Authorization","value":"x y z"}]`:   `[{"name":"Authorization","value":` + m("authorization", "x y z") + `}]`,
		`{"n":9007199254740993}`:                       `{"n":9007199254740993}`,
	} {
		if got := mustJSON(t, r, json.RawMessage(in)); got != want {
			t.Errorf("JSON(%s) =\n %s, want\n %s", in, got, want)
		}
	}
}

func TestJSONInJSON(t *testing.T) {
	r := newTest(t)
	secret := random(30, 9, lowers) // found by its key only
	doc := `{"list":[{"password":"` + secret + `"}]}`
	for depth := 1; depth <= maxNested; depth++ {
		raw, _ := json.Marshal(map[string]string{"body": doc})
		if got := mustJSON(t, r, json.RawMessage(raw)); strings.Contains(got, secret) {
			t.Errorf("%d deep: %s", depth, got)
		}
		doc = string(raw)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(`{"password":"` + secret + `"}`))
	if got := r.String("body=" + encoded); strings.Contains(got, encoded) || !strings.Contains(got, "[REDACTED:password:") {
		t.Errorf("base64: %s", got)
	}
	plain := base64.StdEncoding.EncodeToString([]byte(`{"colour":"` + secret + `"}`))
	if got := r.String("body=" + plain); got != "body="+plain {
		t.Errorf("harmless base64: %s", got)
	}
}

func TestExempt(t *testing.T) {
	key := "sk-" + "live-" + random(31, 24, alnum)
	registered := random(32, 20, alnum)
	r := newTest(t, registered)
	doc := map[string]any{
		"arguments": map[string]any{"order_id": key, "other": key, "password": key, "lines": []any{map[string]any{"id": key, "note": key}}},
		"a/b":       key,
	}
	got := mustJSON(t, r, doc, "/arguments/order_id", "/arguments/password", "/arguments/lines/*/id", "/a~1b")
	if n := strings.Count(got, key); n != 3 {
		t.Errorf("%d of the 3 exempt values are left: %s", n, got)
	}
	got = mustJSON(t, r, map[string]any{"id": registered}, "/id")
	if strings.Contains(got, registered) {
		t.Errorf("a registered secret is exempt: %s", got)
	}
}

type node struct {
	Name     string           `json:"name"`
	Next     *node            `json:"next,omitempty"`
	Children []*node          `json:"children,omitempty"`
	By       map[string]*node `json:"by,omitempty"`
	hidden   string
}

// TestCircular covers PR-26: a cyclic reference becomes "[Circular]".
func TestCircular(t *testing.T) {
	r := newTest(t, "registered-1")
	n := &node{Name: "registered-1", hidden: "h"}
	n.Next = n
	if got, want := mustJSON(t, r, n), `{"name":"`+marker("s0", fingerprint(testKey, "registered-1"))+`","next":"[Circular]"}`; got != want {
		t.Errorf("pointer: got %s, want %s", got, want)
	}
	m := map[string]any{"a": 1, "when": time.Unix(0, 0).UTC()}
	m["self"] = m
	if diff := cmp.Diff(`{"a":1,"self":"[Circular]","when":"1970-01-01T00:00:00Z"}`, mustJSON(t, r, m)); diff != "" {
		t.Errorf("map: %s", diff)
	}
	s := []any{1, nil}
	s[1] = s
	if got := mustJSON(t, r, s); got != `[1,"[Circular]"]` {
		t.Errorf("slice: %s", got)
	}
	// All know all: more paths than there is time for.
	var all []*node
	for i := range 30 {
		all = append(all, &node{Name: fmt.Sprint(i)})
	}
	for _, x := range all {
		x.Children = all
	}
	if got := mustJSON(t, r, all[0]); !strings.Contains(got, circular) {
		t.Errorf("graph: %.100s", got)
	}
	if got, _ := r.JSON(map[string]any{"twice": []any{all[0].Name, all[0].Name}}); strings.Contains(string(got.Bytes()), circular) {
		t.Errorf("a value seen twice is no cycle: %s", got.Bytes())
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("registered-1") }

type fails struct{}

func (fails) MarshalJSON() ([]byte, error) { return nil, errors.New("cannot: registered-1") }

func TestJSONErrors(t *testing.T) {
	r := newTest(t, "registered-1")
	for _, v := range []any{panics{}, fails{}, make(chan int), json.RawMessage(`{"registered-1":`), json.RawMessage(`{"a":1,"a":2}`), json.RawMessage("\"\xff\""), json.RawMessage(nil)} {
		got, err := r.JSON(v)
		if err == nil || !got.IsZero() || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "registered-1") {
			t.Errorf("JSON(%T) = %s, %v", v, got.Bytes(), err)
		}
	}
}

// drawDocument makes a document out of everything a rule may react to.
func drawDocument(t *rapid.T, words []string) any {
	word := rapid.OneOf(rapid.SampledFrom(words), rapid.String(), rapid.StringMatching(`[ -~]{0,20}`))
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 0, 5).Draw(t, "words"), "") })
	key := rapid.OneOf(rapid.SampledFrom([]string{"password", "token", "note", "api_key", "card", "name", "value", "my_secret_ref"}), text)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{text.AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil)}
		if depth > 0 {
			kinds = append(kinds,
				rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
				rapid.MapOfN(key, value(depth-1), 0, 4).AsAny(),
				rapid.Custom(func(t *rapid.T) any {
					b, _ := json.Marshal(value(depth-1).Draw(t, "inner"))
					return string(b)
				}),
			)
		}
		return rapid.OneOf(kinds...)
	}
	return rapid.MapOfN(key, value(3), 1, 6).Draw(t, "document")
}

func TestIdempotent(t *testing.T) {
	r, secrets, words := reactive(t)
	rapid.Check(t, func(t *rapid.T) {
		v := drawDocument(t, words)
		once, err := r.JSON(v)
		if err != nil {
			t.Skip("not canonical")
		}
		twice, err := r.JSON(json.RawMessage(once.Bytes()))
		if err != nil {
			t.Fatalf("of %s: %v", once.Bytes(), err)
		}
		if diff := cmp.Diff(string(once.Bytes()), string(twice.Bytes())); diff != "" {
			t.Fatalf("redacted again:\n%s", diff)
		}
		for _, s := range secrets {
			if strings.Contains(string(once.Bytes()), s) {
				t.Fatalf("%q is left in %s", s, once.Bytes())
			}
		}
	})
}

func TestIdempotentText(t *testing.T) {
	r, secrets, words := reactive(t)
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom(words), rapid.SampledFrom(words), rapid.StringMatching(`[ -~]{0,6}`))
		text := strings.Join(rapid.SliceOfN(word, 1, 14).Draw(t, "words"), "")
		once := r.String(text)
		if twice := r.String(once); twice != once {
			t.Fatalf("%q\n once  %q\n twice %q", text, once, twice)
		}
		for _, s := range secrets {
			if strings.Contains(once, s) {
				t.Fatalf("%q is left in %q", s, once)
			}
		}
	})
}

// reactive returns a redactor, its secrets, and pieces of text that rules
// react to.
func reactive(t *testing.T) (r *Redactor, secrets, words []string) {
	secrets = []string{random(40, 12, alnum), `q"` + random(41, 12, trouble) + "x", random(42, 24, hexits)}
	words = append([]string{
		" ", ": ", "=", "\"", "'", "\\", "%", "&", "\n", "@", "://", "?", "api key is ", "password", "token", "Authorization: Bearer ", "cookie: ",
		"secret://db", "https://u:", "[REDACTED:x:01234567]", "[REDACTED:", "card ", "sk-" + "live-" + random(43, 20, alnum), random(44, 30, alnum),
		marker("password", "89abcdef"), ulid(3), "-----BEGIN PRIV" + "ATE KEY-----", random(45, 20, alnum), "eyJ", "secret=",
	}, secrets...)
	return newTest(t, secrets...), secrets, words
}

func TestConcurrent(t *testing.T) {
	r := newTest(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := random(uint64(50+i), 20, alnum)
			for range 20 {
				if err := r.Register("c", s); err != nil {
					t.Error(err)
				}
				if got := r.String("x" + s); strings.Contains(got, s) {
					t.Errorf("got %q", got)
				}
			}
		})
	}
	wg.Wait()
}

func TestHasMarker(t *testing.T) {
	for in, want := range map[string]bool{
		`{"a":"[REDACTED:db:0123abcd]"}`:           true,
		`{"a":"\u005bREDACTED:db:0123abcd\u005d"}`: true,
		`{"a":"%5BREDACTED%3Adb%3A0123abcd%5D"}`:   true,
		`{"a":"[REDACTED:db:0123abc]"}`:            false,
		`{"a":"[REDACTED::0123abcd]"}`:             false,
		`{"a":"[Circular]"}`:                       false,
		``:                                         false,
	} {
		if got := HasMarker([]byte(in)); got != want {
			t.Errorf("HasMarker(%s) = %v", in, got)
		}
	}
}

func TestSecretInsideAForgedMarker(t *testing.T) {
	secret := random(33, 20, alnum)
	r := newTest(t, secret)
	if got := r.String("[REDACTED:" + secret + ":01234567]"); strings.Contains(got, secret) {
		t.Errorf("got %q", got)
	}
}

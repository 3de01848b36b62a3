package redact

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

const urlSafe = alnum + "-_"

// sure makes a string that has a digit at its end, as nearly every token has.
func sure(seed uint64, n int, alphabet string) string { return random(seed, n-1, alphabet) + "7" }

func luhn(seed uint64) string {
	for n := seed * 10; ; n++ {
		if s := "4" + fmt.Sprintf("%015d", n); isCard(s) {
			return s
		}
	}
}

func gitHubToken(seed uint64) string {
	body := random(seed, 30, alnum)
	return "gh" + "p_" + body + base62(crc32.ChecksumIEEE([]byte(body)), digits+uppers+lowers)
}

func nkeySeed(seed uint64) string {
	raw := append([]byte{18<<3 | 5, 0}, random(seed, 32, alnum)...)
	crc := uint16(0)
	for _, b := range raw {
		crc ^= uint16(b) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(binary.LittleEndian.AppendUint16(raw, crc))
}

func jwt(seed uint64) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + e.EncodeToString([]byte(`{"sub":"`+random(seed, 8, alnum)+`"}`)) + "." + random(seed+1, 43, urlSafe)
}

// credentials are the families of P1: text before, credential, text after.
func credentials(seed uint64) map[string][3]string {
	return map[string][3]string{
		"sk-live note":      {"my key is ", "sk-" + "live-" + sure(seed, 14, alnum), " please help"},
		"sk-live short":     {"my key is ", "sk-" + "live-" + sure(seed, 8, alnum), "."},
		"openai":            {"", "sk-" + sure(seed, 48, alnum), ""},
		"openai project":    {"use ", "sk-" + "proj-" + sure(seed, 60, urlSafe), ""},
		"anthropic":         {"", "sk-" + "ant-api03-" + sure(seed, 80, urlSafe), "\n"},
		"stripe":            {"(", "sk" + "_live_" + sure(seed, 24, alnum), ")"},
		"stripe restricted": {"", "rk" + "_test_" + sure(seed, 24, alnum), ""},
		"stripe webhook":    {"", "wh" + "sec_" + sure(seed, 32, alnum), ""},
		"github":            {"push with ", gitHubToken(seed), ""},
		"github pat":        {"", "github" + "_pat_" + random(seed, 22, alnum) + "_" + random(seed, 59, alnum), ""},
		"gitlab":            {"", "gl" + "pat-" + sure(seed, 20, urlSafe), ""},
		"aws id":            {"key ", "AK" + "IA" + random(seed, 16, "ABCDEFGHIJKLMNOPQRSTUVW234567"), " ok"},
		"slack":             {"", "xo" + "xb-" + random(seed, 11, digits) + "-" + random(seed, 24, alnum), ""},
		"slack webhook":     {"https://hooks.slack.com/services/", "T" + random(seed, 9, digits+uppers) + "/B" + random(seed, 9, digits+uppers) + "/" + random(seed, 24, alnum), ""},
		"jwt":               {"jwt ", jwt(seed), " end"},
		"pem":               {"see\n", strings.TrimSpace(fakePEM(seed)), "\nend"},
		"pem escaped":       {"see ", strings.ReplaceAll(strings.TrimSpace(fakePEM(seed)), "\n", `\n`), " end"},
		"pem truncated":     {"see ", strings.TrimSpace(fakePEM(seed)[:200]), ""},
		"google":            {"", "AI" + "za" + random(seed, 35, urlSafe), ""},
		"npm":               {"", "np" + "m_" + sure(seed, 36, alnum), ""},
		"sendgrid":          {"", "SG" + "." + random(seed, 22, urlSafe) + "." + random(seed, 43, urlSafe), ""},
		"huggingface":       {"", "hf" + "_" + random(seed, 34, alnum), ""},
		"digitalocean":      {"", "do" + "p_v1_" + random(seed, 64, hexits), ""},
		"daybook":           {"", "db" + "k_" + random(seed, 72, hexits), ""},
		"daybook cut":       {"it was ", "db" + "k_" + random(seed, 20, hexits), "…"},
		"shopify":           {"", "sh" + "pat_" + random(seed, 32, hexits), ""},
		"telegram":          {"", random(seed, 10, "123456789") + ":A" + "A" + random(seed, 33, urlSafe), ""},
		"vault":             {"", "hv" + "s." + random(seed, 24, urlSafe), ""},
		"nats seed":         {"seed ", nkeySeed(seed), ""},
		"azure":             {"AccountName=x;AccountKey=", base64.StdEncoding.EncodeToString([]byte(random(seed, 64, alnum))), ";Endpoint"},
		"url password":      {"dial postgres://app:", random(seed, 10, alnum+"#!*"), "@db:5432/x: refused"},
		"url user token":    {"https://", sure(seed, 24, alnum), "@host/path"},
		"query":             {"GET /x?a=1&access_token=", sure(seed, 20, alnum), "&b=2"},
		"signed url":        {"https://s3/x?X-Amz-Signature=", random(seed, 64, hexits), " HTTP"},
		"bearer":            {"Authorization: Bearer ", sure(seed, 24, urlSafe), ""},
		"basic":             {"authorization=Basic ", base64.StdEncoding.EncodeToString([]byte("user:" + random(seed, 9, alnum))), ""},
		"bearer alone":      {"sent bearer ", sure(seed, 24, urlSafe), " to it"},
		"cookie":            {"Set-Cookie: ", "sid=" + random(seed, 20, alnum), "\nHost: x"},
		"assignment":        {"password=", sure(seed, 8, alnum), " host=db"},
		"assignment quoted": {`client_secret: "`, "a " + sure(seed, 8, alnum), `"`},
		"assignment json":   {`{\"api_key\":\"`, sure(seed, 12, alnum), `\"} broken`},
		"assignment colon":  {"Password: ", "hunter" + random(seed, 3, digits), "\n"},
		"card":              {"my visa card number is ", luhn(seed), " exp 12/30"},
		"entropy":           {"the api key is ", "aB3" + random(seed, 29, alnum), " ok?"},
		"entropy token":     {"here is the token for you: ", "aB34" + random(seed, 29, alnum), ""},
	}
}

func TestDetectorsFind(t *testing.T) {
	r := newTest(t)
	for seed := uint64(100); seed < 120; seed++ {
		for name, c := range credentials(seed) {
			text := c[0] + c[1] + c[2]
			got := r.String(text)
			if strings.Contains(got, c[1]) || !HasMarker([]byte(got)) || !strings.HasPrefix(got, c[0]) || !strings.HasSuffix(got, c[2]) {
				t.Errorf("%s: String(%q) = %q", name, text, got)
			}
			if again := r.String(got); again != got {
				t.Errorf("%s: again: %q, then %q", name, got, again)
			}
			doc := mustJSON(t, r, map[string]any{"note": "Dear shop,\n" + text, "n": 1})
			if c1, _ := json.Marshal(c[1]); strings.Contains(doc, strings.Trim(string(c1), `"`)) {
				t.Errorf("%s: JSON = %s", name, doc)
			}
		}
	}
}

// TestDetectorsStayQuiet is P2 and P3: placeholders, wrong checksums, and what
// only looks like a credential.
func TestDetectorsStayQuiet(t *testing.T) {
	r := newTest(t)
	rng := rand.New(rand.NewPCG(1, 1))
	var lines []string
	for seed := uint64(200); seed < 240; seed++ {
		id := make([]byte, 16)
		for i := range id {
			id[i] = byte(rng.Uint32())
		}
		uuid := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		sha := fmt.Sprintf("%x", sha256.Sum256(id))
		commit := fmt.Sprintf("%x", sha1.Sum(id))
		hashes := []string{uuid, sha, commit, commit[:12], ulid(seed), "run_" + ulid(seed), "ORD-" + random(seed, 10, digits), "sha256:" + sha, random(seed, 24, digits)}
		for _, h := range hashes {
			lines = append(lines, "order "+h+" refunded", "token "+h, "the secret run "+h, "api key id "+h, `{"op_key":"`+h+`","ref":"`+h+`"}`, "commit "+h+" fixes the token count", "https://x.example.org/a/"+h+"?page=2")
		}
		wrong := gitHubToken(seed)
		lines = append(
			lines,
			wrong[:len(wrong)-1]+string(alnum[(strings.IndexByte(alnum, wrong[len(wrong)-1])+1)%62]),
			"S"+"UA"+random(seed, 55, uppers+"234567"),
			"card "+luhn(seed)[:15]+string('0'+(luhn(seed)[15]-'0'+1)%10),
			"order "+luhn(seed), // no word for a card
			"ey"+"J"+random(seed, 20, alnum)+"."+random(seed, 20, alnum)+"."+random(seed, 20, alnum),
			"data:image/png;base64,"+base64.StdEncoding.EncodeToString([]byte(random(seed, 300, alnum))),
		)
	}
	lines = append(
		lines,
		"AK"+"IAIOSFODNN7EXAMPLE", "sk-"+"xxxxxxxxxxxxxxxxxxxxxxxx1", "password=${DB_PASSWORD}", "api_key: <your key>", "token=YOUR_TOKEN_HERE1",
		"Password: required", "the password is wrong", "secret: none", "tokens: 4096 of max_tokens=8192", "token_count=1234567", "input_tokens: 12345",
		"2026-11-29T22:47:30.123456789Z token expired", "token: 2026-11-29T22:47:30Z", "password = getPassword()", "task-1234567890-abcdefghij-0987654321",
		"risk-assessment-2026-final-version-01", "https://host:8080/a@b", "mailto: someone@example.org", "basic authentication required", "bearer token missing",
		"Bearer of bad news", "a basic understanding of authorization", "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI", "-----BEGIN PRIV"+"ATE KEY----- is the header",
		"cookies are good: eat them", "client_key=order-1234567890", "idempotency_key: refund-2026-11-29-000000000001", "max_tokens: 4096",
		"the secret ingredient is love and 20 grams of butter", "github.com/some/repository/blob/main/secret/path_to_file_v2_final.go",
		"secret://db-password", "use secret://stripe.key as api key", "Authorization: Bearer secret://api-token1", "Authorization: Bearer ${TOKEN}",
		"h1:"+base64.StdEncoding.EncodeToString([]byte(random(9, 32, alnum))), "Füße, naïve, 日本語 “quoted” – dash", "100% of 50 % & more &c; \\o/",
	)
	for _, l := range lines {
		if got := r.String(l); got != l {
			t.Errorf("String(%q) = %q", l, got)
		}
		raw, _ := json.Marshal(map[string]string{"note": l})
		if got := mustJSON(t, r, json.RawMessage(raw)); HasMarker([]byte(got)) {
			t.Errorf("JSON(%s) = %s", raw, got)
		}
	}
	t.Logf("%d hard negatives", len(lines))
}

func TestHintsOfKeys(t *testing.T) {
	r := newTest(t)
	v := "aB3" + random(300, 29, alnum)
	card := luhn(77)
	for doc, want := range map[string]bool{
		`{"stripe_api_key_prod":"` + v + `"}`: true,
		`{"op_key":"` + v + `"}`:              false,
		`{"colour":"` + v + `"}`:              false,
		`{"card_number":"` + card + `"}`:      true,
		`{"card_number":` + card + `}`:        true,
		`{"order_number":"` + card + `"}`:     false,
		`{"api_keys_of":["` + v + `"]}`:       true,
		`{"secret_ref":"` + ulid(3) + `"}`:    false,
	} {
		if got := HasMarker([]byte(mustJSON(t, r, json.RawMessage(doc)))); got != want {
			t.Errorf("JSON(%s): redacted %v", doc, got)
		}
	}
}

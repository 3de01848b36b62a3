package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// event is like what a loop records: ids, texts, numbers, and words that the
// detectors have to look at more closely.
func event(size int) json.RawMessage {
	var parts []map[string]any
	for n, i := 0, uint64(0); n < size-300; i++ {
		p := map[string]any{
			"call": ulid(i), "tool": "refund_order", "op_key": random(i, 64, hexits), "client_key": "order-" + random(i, 8, digits),
			"arguments": map[string]any{"order_id": "ORD-" + random(i, 6, digits), "amount": 1299, "note": wordlike + random(i, 6, digits) + ",\nwhich came broken – “again”"},
			"usage":     map[string]any{"input_tokens": 1200, "output_tokens": 80},
		}
		raw, _ := json.Marshal(p)
		n += len(raw)
		parts = append(parts, p)
	}
	raw, _ := json.Marshal(map[string]any{"run": ulid(1), "seq": 7, "token": ulid(2), "parts": parts, "text": strings.Repeat(wordlike, 5)})
	return raw
}

func BenchmarkJSON(b *testing.B) {
	for _, secrets := range []int{0, 20, 1000} {
		r := New(Config{TenantKey: testKey})
		for i := range secrets {
			if err := r.Register("s", random(uint64(5000+i), 32, alnum)); err != nil {
				b.Fatal(err)
			}
		}
		for _, size := range []int{1 << 10, 64 << 10} {
			doc := event(size)
			b.Run(fmt.Sprintf("%dsecrets/%dKB", secrets, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := r.JSON(doc); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkString(b *testing.B) {
	r := New(Config{TenantKey: testKey})
	for i := range 20 {
		if err := r.Register("s", random(uint64(5000+i), 32, alnum)); err != nil {
			b.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"clean":    strings.Repeat(wordlike, 1600),
		"keywords": strings.Repeat(wordlike+"with token and secret ", 1000),
		"hits":     strings.Repeat(wordlike+random(5003, 32, alnum)+" ", 900),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}

func BenchmarkRegister1000(b *testing.B) {
	for b.Loop() {
		r := New(Config{TenantKey: testKey})
		for i := range 1000 {
			if err := r.Register("s", random(uint64(5000+i), 32, alnum)); err != nil {
				b.Fatal(err)
			}
		}
		r.String("x")
	}
}

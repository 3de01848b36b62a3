package events_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
)

func TestPicoUSD(t *testing.T) {
	tests := []struct {
		amount events.PicoUSD
		text   string
	}{
		{0, "0"},
		{1, "0.000000000001"},
		{-1, "-0.000000000001"},
		{events.MicroUSD, "0.000001"},
		{1_250_000_000, "0.00125"},
		{events.USD, "1"},
		{-3*events.USD - 500*events.MicroUSD, "-3.0005"},
		{math.MaxInt64, "9223372.036854775807"},
		{math.MinInt64, "-9223372.036854775808"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			b, err := json.Marshal(tt.amount)
			if err != nil || string(b) != `"`+tt.text+`"` {
				t.Errorf("JSON = %s, %v", b, err)
			}
			var back events.PicoUSD
			if err := json.Unmarshal(b, &back); err != nil || back != tt.amount {
				t.Errorf("read back %d, %v; want %d", back, err, tt.amount)
			}
		})
	}
}

func TestParsePico(t *testing.T) {
	for in, want := range map[string]string{
		"1.50": "1.5", "-0": "0", "007": "7", "0.000000000000": "0",
		strings.Repeat("9", 39): strings.Repeat("9", 39),
	} {
		v, err := events.ParsePico(in)
		if err != nil || events.FormatPico(v) != want {
			t.Errorf("ParsePico(%q) = %v, %v; want %s", in, v, err, want)
		}
	}
	for _, in := range []string{
		"", "-", ".", ".5", "1.", "1.2.3", "+1", "--1", "1e3", "1,5", " 1", "1 ", "0x1", "NaN", "٣",
		"0.0000000000001", strings.Repeat("9", 40),
	} {
		if v, err := events.ParsePico(in); err == nil {
			t.Errorf("ParsePico(%q) = %v, want an error", in, v)
		}
	}
	var p events.PicoUSD
	for _, in := range []string{`"9223372.036854775808"`, `1`, `1.5`, `true`} {
		if err := json.Unmarshal([]byte(in), &p); err == nil {
			t.Errorf("amount %s read as %v, want an error", in, p)
		}
	}
}

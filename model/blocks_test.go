package model_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// TestPiecesLoseNothing: whatever the blocks say, all text and each call is in the
// message once.
func TestPiecesLoseNothing(t *testing.T) {
	data := json.RawMessage(`{"s":"x"}`)
	tests := []struct {
		name   string
		blocks []events.Block
		want   string
	}{
		{"none", nil, "T0 1 "},
		{"another order", []events.Block{{Kind: "call", Call: 1}, {Kind: "text"}, {Kind: "call"}}, "1 T0 "},
		{"reasoning of ours and of another", []events.Block{{Kind: "reasoning", Text: "a", Format: "f", Data: data}, {Kind: "reasoning", Text: "b", Format: "g", Data: data}, {Kind: "text"}}, "(a)T0 1 "},
		{"a call twice, one that is none", []events.Block{{Kind: "text"}, {Kind: "call"}, {Kind: "call"}, {Kind: "call", Call: 7}, {Kind: "call", Call: -1}}, "T0 1 "},
		{"text twice", []events.Block{{Kind: "text"}, {Kind: "text"}}, "T0 1 "},
		{"text in parts", []events.Block{{Kind: "text", Text: "T"}, {Kind: "call"}, {Kind: "text", Text: "U"}}, "T0 U1 "},
		{"a kind of the future", []events.Block{{Kind: "picture", Text: "?"}}, "T0 1 "},
		{"redacted reasoning", []events.Block{{Kind: "reasoning", Text: "[REDACTED:x:01234567]", Format: "f", Data: data}, {Kind: "reasoning", Format: "f", Data: json.RawMessage(`"[REDACTED:x:01234567]"`)}}, "T0 1 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := model.Message{Role: model.Assistant, Text: "T", Blocks: tt.blocks, Calls: []model.Call{{ID: "t1.c0", Name: "0"}, {ID: "t1.c1", Name: "1"}}}
			got := ""
			for _, p := range m.Pieces("f") {
				switch p.Kind {
				case events.BlockReasoning:
					got += "(" + p.Text + ")"
				case events.BlockCall:
					got += p.Call.Name + " "
				default:
					got += p.Text
				}
			}
			if got != tt.want {
				t.Errorf("pieces %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNeededBlocks(t *testing.T) {
	text, call0, call1, hm := events.Block{Kind: "text", Text: "T"}, events.Block{Kind: "call"}, events.Block{Kind: "call", Call: 1}, events.Block{Kind: "reasoning", Text: "hm"}
	bare := events.Block{Kind: "text"}
	tests := []struct {
		name     string
		in, want []events.Block
	}{
		{"text, then calls", []events.Block{text, call0, call1}, nil},
		{"calls alone", []events.Block{call0, call1}, nil},
		{"reasoning", []events.Block{hm, text, call0}, []events.Block{hm, bare, call0}},
		{"text behind a call", []events.Block{call0, text}, []events.Block{call0, bare}},
		{"two texts", []events.Block{text, call0, text}, []events.Block{text, call0, text}},
		{"a signed call", []events.Block{{Kind: "call", Format: "f", Data: json.RawMessage(`1`)}}, []events.Block{{Kind: "call", Format: "f", Data: json.RawMessage(`1`)}}},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, model.NeededBlocks(tt.in)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestWireID(t *testing.T) {
	seen := map[string]string{}
	for id, want := range map[string]string{"t1.c0": "t00010000", "t12.c3": "t00120003", "t9999.c9999": "t99999999", "t10000.c0": "", "x": "", "": ""} {
		got := model.WireID(id)
		if len(got) != 9 || want != "" && got != want {
			t.Errorf("WireID(%q) = %q, want %q", id, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q are both %s", id, other, got)
		}
		seen[got] = id
	}
}

func TestCallObject(t *testing.T) {
	for in, want := range map[string]string{`{"a":1}`: `{"a":1}`, `"{half"`: `{"malformed_arguments":"{half"}`, `[1]`: `{"malformed_arguments":[1]}`, `{half`: `{"malformed_arguments":"{half"}`, ``: `{"malformed_arguments":""}`} {
		if got := string(model.Call{Arguments: json.RawMessage(in)}.Object()); got != want {
			t.Errorf("Object of %s = %s, want %s", in, got, want)
		}
	}
}

package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// Piece is a part of an assistant message as it goes to a provider.
type Piece struct {
	Kind string // a kind of [events.Block]
	Text string
	Call *Call // of kind call
	// Data is what the provider added in its format; nil = nothing.
	Data json.RawMessage
}

// Pieces returns an assistant message in the order in which it was written, for
// a provider of the given wire format. What another format added is left out, and
// so is reasoning that the redactor has changed: its signature no longer fits.
// All text and all calls are in it, whatever the blocks say.
func (m Message) Pieces(format string) []Piece {
	var ps []Piece
	text, called := m.Text == "", make([]bool, len(m.Calls))
	for _, b := range m.Blocks {
		p := Piece{Kind: b.Kind, Text: b.Text}
		if b.Format == format && !redact.HasMarker(b.Data) {
			p.Data = b.Data
		}
		switch b.Kind {
		case events.BlockText:
			if p.Text == "" {
				if text {
					continue
				}
				p.Text = m.Text
			}
			text = true
		case events.BlockCall:
			if b.Call < 0 || b.Call >= len(m.Calls) || called[b.Call] {
				continue
			}
			called[b.Call], p.Call, p.Text = true, &m.Calls[b.Call], ""
		case events.BlockReasoning:
			if p.Data == nil || redact.HasMarker([]byte(b.Text)) {
				continue
			}
		default:
			continue
		}
		ps = append(ps, p)
	}
	if !text {
		ps = append([]Piece{{Kind: events.BlockText, Text: m.Text}}, ps...)
	}
	for i := range m.Calls {
		if !called[i] {
			ps = append(ps, Piece{Kind: events.BlockCall, Call: &m.Calls[i]})
		}
	}
	return ps
}

// NeededBlocks returns bs, or nil if they are text followed by calls in order:
// then they say nothing that text and calls don't say. Of a single text block the
// text is dropped, since it stands in the answer.
func NeededBlocks(bs []events.Block) []events.Block {
	texts, calls, plain := 0, 0, true
	for i, b := range bs {
		switch {
		case b.Data != nil || b.Kind == events.BlockReasoning:
			plain = false
		case b.Kind == events.BlockText && i > 0, b.Kind == events.BlockCall && b.Call != calls:
			plain = false
		}
		switch b.Kind {
		case events.BlockText:
			texts++
		case events.BlockCall:
			calls++
		}
	}
	if plain {
		return nil
	}
	for i := range bs {
		if bs[i].Kind == events.BlockText && texts == 1 {
			bs[i].Text = ""
		}
	}
	return bs
}

// Object returns the call's arguments as a JSON object, which providers want in
// a transcript: {"malformed_arguments": …} holds what is none.
func (c Call) Object() json.RawMessage {
	if raw := bytes.TrimSpace(c.Arguments); len(raw) > 0 && raw[0] == '{' && json.Valid(raw) {
		return c.Arguments
	}
	v := any(string(c.Arguments))
	if json.Valid(c.Arguments) {
		v = c.Arguments
	}
	b, _ := json.Marshal(map[string]any{"malformed_arguments": v}) // valid JSON or a string: always encodes
	return b
}

var callID = regexp.MustCompile(`^t(\d{1,4})\.c(\d{1,4})$`)

// WireID returns the id of a call as providers are told it: nine letters and
// digits, which is what the strictest of them take. The same call always has the
// same one, whatever provider it came from.
func WireID(id string) string {
	if m := callID.FindStringSubmatch(id); m != nil {
		return fmt.Sprintf("t%04s%04s", m[1], m[2])
	}
	sum := sha256.Sum256([]byte(id))
	return "x" + hex.EncodeToString(sum[:4])
}

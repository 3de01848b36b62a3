package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/internal/canonical"
)

// reply is the result of a call as it came. It is read here and not by the SDK,
// which takes a kind of content that it does not know for an error, when the
// work is done, and loses digits of large numbers.
type reply struct {
	ResultType    string          `json:"resultType"`
	Content       few[block]      `json:"content"`
	Structured    json.RawMessage `json:"structuredContent"`
	IsError       bool            `json:"isError"`
	InputRequests json.RawMessage `json:"inputRequests"`
	Meta          json.RawMessage `json:"_meta"`
}

// alreadyApplied reports whether the server says that the effect was there before
// this call: it knew our key, or a fence that was not older.
func (r *reply) alreadyApplied() bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(r.Meta, &m) == nil && string(m[MetaAlreadyApplied]) == "true"
}

// maxElements bounds lists of what costs more in memory than as text: a message
// of empty blocks would take two hundred times its size.
const maxElements = 1_000

// few is a list that is counted before it is made.
type few[T any] []T

// UnmarshalJSON reads the list.
func (f *few[T]) UnmarshalJSON(raw []byte) error {
	if n := elements(raw); n > maxElements {
		return fmt.Errorf("a list has %d elements, at most %d are allowed", n, maxElements)
	}
	return json.Unmarshal(raw, (*[]T)(f))
}

// elements counts what is in a JSON array, which is known to be JSON.
func elements(raw []byte) int {
	n, depth, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n + 1
}

// asks reports whether it asks for input.
func (r *reply) asks() bool {
	t := string(bytes.TrimSpace(r.InputRequests))
	given := t != "" && t != "null"
	return r.ResultType == "input_required" || given && (t != "{}" || len(r.Content) == 0)
}

// block is a piece of content of any kind.
type block struct {
	Type        string    `json:"type"`
	Text        string    `json:"text"`
	MIMEType    string    `json:"mimeType"`
	Data        string    `json:"data"` // base64
	URI         string    `json:"uri"`
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Resource    *resource `json:"resource"`
}

type resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     string  `json:"blob"` // base64
}

// withSources is the shape whose results become the sources of a result.
type withSources struct {
	Answer  string   `json:"answer"`
	Results []source `json:"results"`
}

type source struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

func readReply(raw json.RawMessage) (*reply, error) {
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		return nil, fmt.Errorf("want an object, got %d bytes that are none", len(raw))
	}
	r := &reply{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	return r, nil
}

// text is what a model reads of it, and what it links to.
func (r *reply) text() (string, []source) {
	var parts []string
	var links []source
	for _, b := range r.Content {
		text, link := b.text()
		parts = append(parts, text)
		if link != nil {
			links = append(links, *link)
		}
	}
	if r.structured() && !r.spelledOut() {
		parts = append(parts, string(r.Structured))
	}
	return strings.Join(parts, "\n"), links
}

func (r *reply) structured() bool {
	return len(r.Structured) > 0 && string(bytes.TrimSpace(r.Structured)) != "null"
}

// maxCompared bounds structured content that texts are compared with, in bytes:
// what is longer is cut anyway.
const maxCompared = 256 << 10

// spelledOut reports whether the texts say the structured content already: as
// JSON, as the protocol asks for, or as the one text that is in it.
func (r *reply) spelledOut() bool {
	if len(r.Structured) > maxCompared {
		return false
	}
	var one map[string]json.RawMessage
	var in string
	if json.Unmarshal(r.Structured, &one) == nil && len(one) == 1 {
		for _, v := range one {
			if json.Unmarshal(v, &in) != nil {
				in = ""
			}
		}
	}
	want, err := canonical.JSON(r.Structured)
	if err != nil {
		return false
	}
	for _, b := range r.Content {
		if b.Type != "text" {
			continue
		}
		if in != "" && b.Text == in {
			return true
		}
		if len(b.Text) > 2*maxCompared {
			continue
		}
		if got, err := canonical.JSON([]byte(b.Text)); err == nil && bytes.Equal(got, want) {
			return true
		}
	}
	return false
}

// text is what is shown of a block; what cannot be shown is named.
func (b *block) text() (string, *source) {
	switch b.Type {
	case "text":
		return b.Text, nil
	case "image", "audio":
		return fmt.Sprintf("[%s, %s, %d bytes, not shown]", b.Type, b.MIMEType, sizeOf(b.Data)), nil
	case "resource_link":
		title := b.Title
		if title == "" {
			title = b.Name
		}
		text := strings.TrimSpace(fmt.Sprintf("[link: %s <%s> %s", title, b.URI, b.MIMEType)) + "]"
		if b.Description != "" {
			text += " " + b.Description
		}
		return text, &source{title, b.URI}
	case "resource":
		switch r := b.Resource; {
		case r == nil:
			return "[a resource that is not there]", nil
		case r.Text != nil:
			return fmt.Sprintf("[resource: %s]\n%s", r.URI, *r.Text), &source{URL: r.URI}
		default:
			return fmt.Sprintf("[resource: %s, %s, %d bytes, not shown]", r.URI, r.MIMEType, sizeOf(r.Blob)), &source{URL: r.URI}
		}
	}
	return fmt.Sprintf("[content of the kind %q, not shown]", b.Type), nil
}

// sizeOf is how many bytes a text in base64 stands for.
func sizeOf(data string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))
}

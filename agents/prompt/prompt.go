// Package prompt composes the system prompt of an agent out of layers. It is pure:
// it reads no file, knows no file name and looks for nothing; whoever has text hands
// it in. Modes are policy about text and permit nothing.
package prompt

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
)

// Source says whose text a layer is, and with that its rank. Any name is one; those
// that are not here stand between [Package] and [App].
type Source string

// Sources in the order in which their layers stand.
const (
	User    Source = "user"    // whoever runs the process: the layer at the bottom
	Package Source = "package" // the body of an agent's file
	Skill   Source = "skill"   // skills that are active, and the list of those that can be
	App     Source = "app"     // the workspace
	Host    Source = "host"    // the program that embeds the runtime
	Run     Source = "run"     // the run itself; it comes last and wins
	// Base is what layers are put upon. No layer may say that it is it.
	Base Source = "base"
)

func (s Source) rank() int {
	switch s {
	case User:
		return 0
	case Package:
		return 1
	case App:
		return 3
	case Host:
		return 4
	case Run:
		return 5
	default:
		return 2
	}
}

// Mode says what a layer does to those below it.
type Mode string

const (
	Append Mode = "append" // its text comes after them; so does that of an empty mode
	// Replace puts its text in the place of all that is below, the base included.
	Replace Mode = "replace"
	// Disable takes the layers below away and leaves the base. It has no text.
	Disable Mode = "disable"
)

// Bounds of what is composed. An event names every layer of a run.
const (
	MaxBytes  = 256 << 10 // of a layer, and of the whole
	MaxLayers = 64
	maxName   = 128
)

// Layer is a part of a prompt.
type Layer struct {
	ID     string // what people call it: 1 to 128 bytes without control characters
	Source Source // the same
	Mode   Mode   // empty is [Append]
	Text   string // white space around it does not count; an empty one adds nothing
}

// Part is a layer as it went into a prompt, or did not.
type Part struct {
	Layer
	Digest events.Hash // SHA-256 of its text
	// Off is the ID of the layer that took it out; empty = it is in.
	Off string
}

// Prompt is what was composed.
type Prompt struct {
	Text string
	// Parts are the base, if there is one, and the layers, lowest first.
	Parts []Part
}

// ErrLayer marks a layer, or a base, that cannot be composed.
var ErrLayer = errors.New("prompt layer")

// Compose puts layers upon base: by the rank of their sources, those of one source
// in the order in which they are given, all that are of no known source together in
// theirs. What is in is joined by blank lines. The layers are not changed. Errors
// wrap [ErrLayer], and are joined: each names the layer.
func Compose(base string, layers ...Layer) (Prompt, error) {
	if len(layers) > MaxLayers {
		return Prompt{}, fmt.Errorf("%w: there are %d, at most %d: put their texts together", ErrLayer, len(layers), MaxLayers)
	}
	var p Prompt
	var errs []error
	if base = strings.TrimSpace(base); base != "" {
		errs = append(errs, checkText("the base", base))
		p.Parts = append(p.Parts, part(Layer{ID: string(Base), Source: Base, Mode: Append, Text: base}))
	}
	sorted := slices.Clone(layers)
	slices.SortStableFunc(sorted, func(a, b Layer) int { return cmp.Compare(a.Source.rank(), b.Source.rank()) })
	for _, l := range sorted {
		l.Text = strings.TrimSpace(l.Text)
		l.Mode = cmp.Or(l.Mode, Append)
		errs = append(errs, l.check())
		p.add(l)
	}
	if err := errors.Join(errs...); err != nil {
		return Prompt{}, err
	}
	var texts []string
	for _, part := range p.Parts {
		if part.Off == "" && part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	p.Text = strings.Join(texts, "\n\n")
	if len(p.Text) > MaxBytes {
		return Prompt{}, fmt.Errorf("%w: all together have %d bytes, at most %d: leave some out", ErrLayer, len(p.Text), MaxBytes)
	}
	return p, nil
}

// add puts l on top of what is there.
func (p *Prompt) add(l Layer) {
	for i := range p.Parts {
		below := &p.Parts[i]
		if below.Off == "" && (l.Mode == Replace || l.Mode == Disable && below.Source != Base) {
			below.Off = l.ID
		}
	}
	p.Parts = append(p.Parts, part(l))
}

func part(l Layer) Part { return Part{Layer: l, Digest: sha256.Sum256([]byte(l.Text))} }

func (l Layer) check() error {
	name := fmt.Sprintf("%q of source %q", l.ID, l.Source)
	for what, s := range map[string]string{"ID": l.ID, "source": string(l.Source)} {
		if s == "" || len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%w: %.300s: want as %s 1 to %d bytes without control characters", ErrLayer, name, what, maxName)
		}
	}
	switch l.Mode {
	case Append, Replace:
	case Disable:
		if l.Text != "" {
			return fmt.Errorf("%w: %s: a layer that disables has no text; to put one in the place of what is below, write %s", ErrLayer, name, Replace)
		}
	default:
		return fmt.Errorf("%w: %s: mode %.100q: want %s, %s or %s", ErrLayer, name, l.Mode, Append, Replace, Disable)
	}
	if l.Source == Base {
		return fmt.Errorf("%w: %s: the base is none; hand it in as such", ErrLayer, name)
	}
	return checkText(name, l.Text)
}

func checkText(name, text string) error {
	switch {
	case len(text) > MaxBytes:
		return fmt.Errorf("%w: %s: it has %d bytes, at most %d: make it shorter", ErrLayer, name, len(text), MaxBytes)
	case !utf8.ValidString(text):
		return fmt.Errorf("%w: %s: it is not UTF-8 text", ErrLayer, name)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%w: %s: there is a NUL byte in it: this is no text", ErrLayer, name)
	}
	return nil
}

// Configured are the layers of a run whose layers that were configured count or, if
// off is set, do not. Of those of the run itself neither is said: they stay.
func Configured(layers []Layer, off bool) []Layer {
	if !off {
		return layers
	}
	return slices.DeleteFunc(slices.Clone(layers), func(l Layer) bool { return l.Source != Run })
}

package ui

import (
	"context"
	"io"

	"github.com/a-h/templ"
)

// text shows a text from a run: escaped, apart from the direction of what stands
// around it, and with its hidden characters visible.
func text(s string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		if _, err := io.WriteString(w, "<bdi>"); err != nil {
			return err
		}
		for _, p := range pieces(s) {
			t := templ.EscapeString(p.text)
			if p.hidden {
				t = `<b class="hid" title="a character that would not be seen">` + t + `</b>`
			}
			if _, err := io.WriteString(w, t); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, "</bdi>")
		return err
	})
}

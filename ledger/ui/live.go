package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"
)

// maxPolls bounds how often an open page looks again by itself: forgotten in a tab
// it asks the database nothing for ever.
const maxPolls = 450

// polls is how often a page has looked again.
func polls(q url.Values) int {
	n, err := strconv.Atoi(q.Get("polls"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// elsewhere sends whoever asked to another page.
func elsewhere(to string) error { return &redirect{to} }

type redirect struct{ to string }

func (e *redirect) Error() string { return "go to " + e.to }

func (e *redirect) send(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, e.to, http.StatusSeeOther)
}

// errEnough ends the reading of events that are not shown.
var errEnough = errors.New("enough")

func isEnough(err error) bool { return errors.Is(err, errEnough) }

// live makes an element look again by itself; nothing if there is no address.
func live(again, every, id string) templ.Attributes {
	if again == "" {
		return templ.Attributes{}
	}
	return templ.Attributes{"hx-get": again, "hx-trigger": every, "hx-select": id, "hx-target": id, "hx-swap": "outerHTML", "hx-sync": "this:replace"}
}

// current marks the link to where one is, chosen what is in force.
func current(is bool) templ.Attributes {
	if !is {
		return templ.Attributes{}
	}
	return templ.Attributes{"aria-current": "page"}
}

func chosen(is bool) templ.Attributes {
	if !is {
		return templ.Attributes{}
	}
	return templ.Attributes{"aria-current": "true"}
}

func openIf(is bool) templ.Attributes {
	if !is {
		return templ.Attributes{}
	}
	return templ.Attributes{"open": true}
}

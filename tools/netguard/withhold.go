package netguard

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Withhold takes the values of the policy's headers out of a text that a host
// sent: one that echoes what it was asked would hand them to the model. It knows
// them as they are, word by word, and as JSON and URLs write them; words under
// six bytes are no secret. A host that means to give them away finds a form that
// is not known here.
func (c *Client) Withhold(text string) string {
	if c.withheld == nil {
		return text
	}
	return c.withheld.Replace(text)
}

// withheld makes the replacer of [Client.Withhold].
func withheld(headers []Header) *strings.Replacer {
	var forms []string
	for _, h := range headers {
		for _, v := range append([]string{h.Value}, strings.Fields(h.Value)...) {
			if len(v) < 6 {
				continue
			}
			quoted, _ := json.Marshal(v) // of a string: no error
			inJSON := string(quoted[1 : len(quoted)-1])
			forms = append(forms, v, inJSON, strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(v), url.PathEscape(v))
		}
	}
	// The longest first: what begins like another one must not leave its end.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, "[withheld]")
	}
	return strings.NewReplacer(pairs...)
}

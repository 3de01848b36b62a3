package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

var errUnreadable = errors.New("wikidata answered something unreadable")

// wikidataEntity is what the service tells of a thing.
type wikidataEntity struct {
	Missing      *json.RawMessage           `json:"missing"`
	Labels       map[string]wikidataText    `json:"labels"`
	Descriptions map[string]wikidataText    `json:"descriptions"`
	Claims       map[string][]wikidataClaim `json:"claims"`
}

type wikidataText struct {
	Value string `json:"value"`
}

type wikidataClaim struct {
	Rank string `json:"rank"`
	Snak struct {
		Type     string `json:"snaktype"`
		DataType string `json:"datatype"`
		Value    struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"datavalue"`
	} `json:"mainsnak"`
}

// text is in the language, or in what the service fell back to.
func (e *wikidataEntity) text(m map[string]wikidataText, language string) string {
	if t, ok := m[language]; ok {
		return oneLine(t.Value)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		return oneLine(m[k].Value)
	}
	return ""
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

// fact is one property with its values; ids in it are not labelled yet.
type fact struct {
	property string
	values   []factValue
	more     int
}

// factValue is text, or a thing, or text with a unit.
type factValue struct{ text, ref string }

// facts are the statements that say something by themselves, and the ids in
// them. Numbers of the thing in other catalogues and media files don't.
func (e *wikidataEntity) facts() (facts []fact, refs []string) {
	seen := map[string]bool{}
	add := func(id string) {
		if id != "" && !seen[id] {
			seen[id] = true
			refs = append(refs, id)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(e.Claims), byNumber) {
		if !entityRule.MatchString(p) || len(facts) == maxStatements {
			continue
		}
		f := fact{property: p}
		for _, c := range preferred(e.Claims[p]) {
			v, ok := c.read()
			switch {
			case !ok:
			case len(f.values) == maxValues:
				f.more++
			default:
				f.values = append(f.values, v)
			}
		}
		if f.values == nil {
			continue
		}
		add(p)
		for _, v := range f.values {
			add(v.ref)
		}
		facts = append(facts, f)
	}
	return facts, refs
}

// byNumber puts the oldest properties first: they are the basic ones.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// preferred are the statements that the service would tell: the preferred
// ones, else the normal ones.
func preferred(all []wikidataClaim) []wikidataClaim {
	for _, rank := range []string{"preferred", "normal"} {
		var out []wikidataClaim
		for _, c := range all {
			if c.Rank == rank {
				out = append(out, c)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

func (c *wikidataClaim) read() (factValue, bool) {
	if c.Snak.Type != "value" {
		return factValue{}, false
	}
	switch c.Snak.DataType {
	case "external-id", "commonsMedia", "math", "geo-shape", "tabular-data", "musical-notation":
		return factValue{}, false
	}
	var v struct {
		ID        string      `json:"id"`
		Time      string      `json:"time"`
		Precision int         `json:"precision"`
		Amount    string      `json:"amount"`
		Unit      string      `json:"unit"`
		Text      string      `json:"text"`
		Latitude  json.Number `json:"latitude"`
		Longitude json.Number `json:"longitude"`
	}
	raw := c.Snak.Value.Value
	if c.Snak.Value.Type == "string" {
		var s string
		if json.Unmarshal(raw, &s) != nil || s == "" {
			return factValue{}, false
		}
		return factValue{text: oneLine(s)}, true
	}
	if json.Unmarshal(raw, &v) != nil {
		return factValue{}, false
	}
	switch c.Snak.Value.Type {
	case "wikibase-entityid":
		return factValue{ref: v.ID}, entityRule.MatchString(v.ID)
	case "time":
		t := moment(v.Time, v.Precision)
		return factValue{text: t}, t != ""
	case "quantity":
		unit := v.Unit[strings.LastIndexByte(v.Unit, '/')+1:]
		if !entityRule.MatchString(unit) {
			unit = ""
		}
		return factValue{text: oneLine(strings.TrimPrefix(v.Amount, "+")), ref: unit}, v.Amount != ""
	case "monolingualtext":
		return factValue{text: oneLine(v.Text)}, v.Text != ""
	case "globecoordinate":
		return factValue{text: v.Latitude.String() + ", " + v.Longitude.String()}, v.Latitude != "" && v.Longitude != ""
	}
	return factValue{}, false
}

// moment writes a time no finer than it is known: "+1952-03-11T00:00:00Z" with
// precision 11 is a day, 10 a month, 9 a year; below that it is a period.
func moment(s string, precision int) string {
	if len(s) < 5 || s[0] != '+' && s[0] != '-' {
		return ""
	}
	date, _, _ := strings.Cut(s[1:], "T")
	parts := strings.Split(date, "-")
	if len(parts) != 3 {
		return ""
	}
	year, err := strconv.Atoi(parts[0])
	if err != nil {
		return ""
	}
	era := ""
	if s[0] == '-' {
		era = " BC"
	}
	switch {
	case precision >= 11:
		return fmt.Sprintf("%d-%s-%s%s", year, parts[1], parts[2], era)
	case precision == 10:
		return fmt.Sprintf("%d-%s%s", year, parts[1], era)
	case precision == 9:
		return fmt.Sprintf("%d%s", year, era)
	}
	return fmt.Sprintf("around %d%s", year, era)
}

// write leaves out what has no label: an id tells a model nothing.
func (f fact) write(b *strings.Builder, labels map[string]string) {
	property := labels[f.property]
	var values []string
	more := f.more
	for _, v := range f.values {
		s := v.text
		if v.ref != "" {
			l := labels[v.ref]
			if l == "" && s == "" {
				more++
				continue
			}
			s = strings.TrimSpace(s + " " + l)
		}
		values = append(values, s)
	}
	if property == "" || values == nil {
		return
	}
	fmt.Fprintf(b, "- %s: %s", property, strings.Join(values, "; "))
	if more > 0 {
		fmt.Fprintf(b, "; and %d more", more)
	}
	b.WriteByte('\n')
}

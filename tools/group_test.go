package tools_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/tools"
)

// house is a group of three members, the last of them a group.
func house(t *testing.T, cfg tools.GroupConfig) *tools.Bus {
	t.Helper()
	kitchen := bus(t, tools.BusConfig{}, declare(t, "boil", "Boils water."), declare(t, "bake", "Bakes bread."), declare(t, "wash", "Washes dishes."))
	papers := bus(
		t, tools.BusConfig{}, declare(t, "find_paper", "Finds a publication by its title."),
		declare(t, "cite", "Writes a citation.", needs("find_paper")), declare(t, "escalate", "Asks the librarian.", pinned),
	)
	post := bus(t, tools.BusConfig{}, declare(t, "send_letter", "Sends a letter."), declare(t, "stamp", "Buys a stamp for a letter."))
	till := bus(t, tools.BusConfig{}, declare(t, "pay", "Pays a bill."), declare(t, "refund", "Pays money back."))
	front := group(t, tools.GroupConfig{}, tools.Member{Name: "post", Bus: post}, tools.Member{Name: "till", Bus: till})
	return group(t, cfg,
		tools.Member{Name: "kitchen", Description: "Food and drink", Bus: kitchen},
		tools.Member{Name: "library", Description: "Scholarly literature", Bus: papers},
		tools.Member{Name: "front_desk", Description: "What guests ask for", Bus: front})
}

func group(t testing.TB, cfg tools.GroupConfig, members ...tools.Member) *tools.Bus {
	t.Helper()
	g, err := tools.NewGroup(members, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGroup(t *testing.T) {
	g := house(t, tools.GroupConfig{})
	flat := []string{"boil", "bake", "wash", "find_paper", "cite", "escalate", "send_letter", "stamp", "pay", "refund"}
	t.Run("SG-155 a group is a bus, and its tools are one list", func(t *testing.T) {
		if got := g.Names(); !slices.Equal(got, flat) {
			t.Errorf("names %q, want %q", got, flat)
		}
		if raw, err := g.OpenAI(g.Select("bread", 2)); err != nil || len(raw) == 0 {
			t.Errorf("%s, %v", raw, err)
		}
		if o := house(t, tools.GroupConfig{}).Invoke(t.Context(), tools.Env{}, tools.Call{Name: "refund"}); o.Output != "refund" {
			t.Errorf("invoke %+v", o)
		}
	})
	tests := []struct {
		name, query string
		limit       int
		member      string
		want        []string
	}{
		{"SG-156 a query that names a member asks only that", "pay for bread in the kitchen", 3, "kitchen", []string{"escalate", "bake", "boil"}},
		{"SG-156 however often it is named, and in the plural", "Kitchens! a kitchen", 3, "kitchen", []string{"escalate", "boil", "bake"}},
		{"SG-156 all words of a name", "a letter at the front desk", 3, "front_desk", []string{"escalate", "send_letter", "stamp"}},
		{"SG-156 and on within the member", "front desk, the till: a letter", 3, "front_desk__till", []string{"escalate", "pay", "refund"}},
		{"SG-157 a part of a name names nobody", "a letter on the desk", 3, "", []string{"escalate", "send_letter", "stamp"}},
		{"SG-157 two names are not clear", "kitchen or library: a letter", 3, "", []string{"escalate", "send_letter", "stamp"}},
		{"SG-157 a member of a member is not named from outside", "a letter from the till", 2, "", []string{"escalate", "send_letter"}},
		{"SG-158 what matches nothing is spread", "hello", 5, "", []string{"escalate", "boil", "find_paper", "send_letter", "bake"}},
		{"SG-158 and spread within members", "hello", 8, "", []string{"escalate", "boil", "find_paper", "send_letter", "bake", "cite", "pay", "wash"}},
		{"SG-158 from where the description fits", "scholarly advice", 3, "", []string{"escalate", "find_paper", "boil"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := g.Trace(tt.query, tt.limit)
			if got := g.Select(tt.query, tt.limit); !slices.Equal(got, tt.want) || !slices.Equal(tr.Offered, tt.want) || tr.Member != tt.member {
				t.Errorf("select %q, %d = %q of member %q (trace %q), want %q of %q", tt.query, tt.limit, got, tr.Member, tr.Offered, tt.want, tt.member)
			}
		})
	}
	t.Run("SG-158 by usage within a member", func(t *testing.T) {
		g := house(t, tools.GroupConfig{})
		g.Invoke(t.Context(), tools.Env{}, tools.Call{Name: "wash"})
		if got, want := g.Select("hello", 5), []string{"escalate", "wash", "find_paper", "send_letter", "boil"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("a longer name is clearer than a part of it", func(t *testing.T) {
		g := group(t, tools.GroupConfig{}, tools.Member{Name: "search", Bus: bus(t, tools.BusConfig{}, declare(t, "a", "A web page."))},
			tools.Member{Name: "paper_search", Bus: bus(t, tools.BusConfig{}, declare(t, "b", "A paper."))})
		for query, want := range map[string]string{"search the web": "search", "search papers": "paper_search", "web": ""} {
			if got := g.Trace(query, 1).Member; got != want {
				t.Errorf("%q names %q, want %q", query, got, want)
			}
		}
	})
}

// SG-157: what a group offers for a query that names no member is what one flat
// bus offers, as far as the query tells tools apart.
func TestGroupIsAsGoodAsAFlatBus(t *testing.T) {
	g := house(t, tools.GroupConfig{})
	flat := bus(t, tools.BusConfig{}, g.All()...)
	for _, query := range []string{"letter", "pay a bill", "water, bread and dishes", "a citation for a letter", "publication title", "money back"} {
		for limit := 1; limit <= 10; limit++ {
			matched := func(b *tools.Bus) (names []string) {
				for _, p := range b.Trace(query, limit).Picks {
					if p.Why == tools.Matched {
						names = append(names, p.Tool)
					}
				}
				return names
			}
			if a, b := matched(g), matched(flat); !slices.Equal(a, b) {
				t.Errorf("%q, %d: the group offers %q, a flat bus %q", query, limit, a, b)
			}
		}
	}
}

// SG-159, SG-160.
func TestGroupCollisionsAndNamespaces(t *testing.T) {
	search := func() *tools.Bus {
		return bus(t, tools.BusConfig{}, declare(t, "paper_search", "Finds papers."), declare(t, "cite", "Cites one.", needs("paper_search")))
	}
	first, second := search(), search()
	members := []tools.Member{{Name: "consensus", Bus: first}, {Name: "s2", Bus: second}}
	t.Run("SG-159 two tools of one name", func(t *testing.T) {
		_, err := tools.NewGroup(members, tools.GroupConfig{})
		var dup *tools.NameError
		if !errors.As(err, &dup) || dup.Name != "paper_search" || !errors.Is(err, tools.ErrDuplicateTool) {
			t.Errorf("%v", err)
		}
	})
	t.Run("SG-159 members that are none", func(t *testing.T) {
		for _, ms := range [][]tools.Member{
			{{Name: "a", Bus: first}, {Name: "a", Bus: bus(t, tools.BusConfig{})}}, {{Name: "a"}}, {{Name: "", Bus: first}}, {{Name: "a__b", Bus: first}}, {{Name: "a b", Bus: first}},
		} {
			var bad *tools.MemberError
			if _, err := tools.NewGroup(ms, tools.GroupConfig{}); !errors.As(err, &bad) || !errors.Is(err, tools.ErrMember) {
				t.Errorf("%v: %v", ms, err)
			}
		}
	})
	g := group(t, tools.GroupConfig{Namespace: true}, members...)
	t.Run("SG-160 names of members stand before those of tools", func(t *testing.T) {
		if got, want := g.Names(), []string{"consensus__paper_search", "consensus__cite", "s2__paper_search", "s2__cite"}; !slices.Equal(got, want) {
			t.Errorf("names %q, want %q", got, want)
		}
		for provider, raw := range shaped(t, g, nil) {
			if err := valid(t, provider, raw); err != nil {
				t.Errorf("%s: %v", provider, err)
			}
		}
	})
	t.Run("SG-160 what a tool needs is its own member's", func(t *testing.T) {
		if got, want := g.Select("cite it with s2", 2), []string{"s2__cite", "s2__paper_search"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("SG-160 a call reaches the member's tool, and counts there", func(t *testing.T) {
		o := g.Invoke(t.Context(), tools.Env{}, tools.Call{Name: "s2__paper_search", Arguments: json.RawMessage(`{}`)})
		if o.Output != "paper_search" || g.Usage()["s2__paper_search"] != 1 || second.Usage()["paper_search"] != 1 || len(first.Usage()) != 0 {
			t.Errorf("%+v, usage %v, of the members %v and %v", o, g.Usage(), first.Usage(), second.Usage())
		}
		if o := g.Invoke(t.Context(), tools.Env{}, tools.Call{Name: "paper_search"}); o.Status != tools.Failed {
			t.Errorf("without the member's name: %+v", o)
		}
	})
	t.Run("SG-160 nested", func(t *testing.T) {
		outer := group(t, tools.GroupConfig{Namespace: true}, tools.Member{Name: "lab", Bus: g}, tools.Member{Name: "home", Bus: house(t, tools.GroupConfig{})})
		if got, want := outer.Select("in the lab, ask s2 to cite", 3), []string{"home__escalate", "lab__s2__cite", "lab__s2__paper_search"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if o := outer.Invoke(t.Context(), tools.Env{}, tools.Call{Name: "lab__s2__cite"}); o.Output != "cite" || second.Usage()["cite"] != 1 {
			t.Errorf("%+v, usage %v", o, second.Usage())
		}
	})
	t.Run("a filter of the group leaves the members in place", func(t *testing.T) {
		cfg := tools.GroupConfig{Namespace: true}
		cfg.Dispatch.Filters = []tools.Filter{{Deny: []string{"consensus__paper_search", "s2__cite"}}}
		g := group(t, cfg, members...)
		if got, want := g.Select("s2", 4), []string{"s2__paper_search"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := g.Select("consensus", 4), []string{"consensus__cite"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q: a need that is not on the bus has no effect", got, want)
		}
	})
}

package bogus_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/toolstest"
)

var calls = map[string]string{
	"my_notes":       `{"topic":"wifi"}`,
	"my_calendar":    `{"day":"2026-08-03"}`,
	"my_recipes":     `{"dish":"Lentil  soup"}`,
	"dictionary":     `{"word":"pelican"}`,
	"football_score": `{"club":"gravel rovers"}`,
	"gold_price":     `{"karat":"22"}`,
	"prayer_times":   `{"town":"Lower Quill"}`,
	"calculator":     `{"a":"0.1","operation":"add","b":"0.2"}`,
	"feed_cat":       `{"portion":"small"}`,
	"order_pizza":    `{"pizza":"quattro","size":"large"}`,
	"book_taxi":      `{"from":"home","to":"ferry"}`,
	"ask_mum":        `{"question":"where is the letter?"}`,
}

func TestToolsConform(t *testing.T) {
	for _, tool := range bogus.Tools() {
		name := tool.Definition().Name
		t.Run(name, func(t *testing.T) {
			toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(calls[name])})
		})
	}
}

// SG-34, SG-36, SG-38: every reply is the same each time and carries a receipt.
func TestRepliesAreDeterministicAndCarryAReceipt(t *testing.T) {
	for _, tool := range bogus.Tools() {
		name := tool.Definition().Name
		want := regexp.MustCompile(`"receipt":"bogus-` + name + `-[0-9a-f]{6}"`)
		var first string
		for range 3 {
			d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(calls[name])})
			if !want.MatchString(d.Result.Output) {
				t.Errorf("%s: output %s has no receipt", name, d.Result.Output)
			}
			if first == "" {
				first = d.Result.Output
			}
			if d.Result.Output != first {
				t.Errorf("%s: output %s, before it was %s", name, d.Result.Output, first)
			}
		}
	}
}

// SG-37.
func TestReceipt(t *testing.T) {
	if a, b := bogus.Receipt("my_notes", "wifi"), bogus.Receipt("my_notes", "wifi"); a != b {
		t.Errorf("Receipt = %s, then %s", a, b)
	}
	if a, b := bogus.Receipt("my_notes", "wifi"), bogus.Receipt("my_notes", "trip"); a == b {
		t.Errorf("two keys have the same receipt %s", a)
	}
	if a, b := bogus.Receipt("a", "bc"), bogus.Receipt("ab", "c"); a[len(a)-6:] == b[len(b)-6:] {
		t.Errorf("two splits have the same digits: %s %s", a, b)
	}
}

// What each fixture says is part of what tests of others rely on.
func TestReplies(t *testing.T) {
	tests := []struct{ row, tool, args, want string }{
		{"SG-39 my_notes", "my_notes", `{"topic":" WiFi "}`, `"found":true,"note":"the guest network is PelicanAttic, ask Oona for the phrase","written":"2026-08-01"`},
		{"SG-39 my_notes, of nothing", "my_notes", `{"topic":"x"}`, `"found":false,"topics":["garage","trip","wifi"]`},
		{"SG-40 my_calendar", "my_calendar", `{"day":"2026-08-03"}`, `"09:20 dentist Dr. Quillon"`},
		{"SG-40 my_calendar, an empty day", "my_calendar", `{"day":"2026-08-05"}`, `"entries":[],"found":false`},
		{"SG-41 my_recipes", "my_recipes", `{"dish":"PLUM cake"}`, `never more; 52 minutes`},
		{"SG-41 my_recipes, another's", "my_recipes", `{"dish":"pizza"}`, `"saved":["khichuri","lentil soup","plum cake"]`},
		{"SG-42 dictionary", "dictionary", `{"word":"Ladder"}`, `"meaning":"a promise with gaps in it"`},
		{"SG-42 dictionary, a real word", "dictionary", `{"word":"chair"}`, `"found":false`},
		{"SG-43 football_score", "football_score", `{"club":"Attic Athletic"}`, `"score":"Gravel Rovers 4, Attic Athletic 3"`},
		{"SG-43 football_score, of a real club", "football_score", `{"club":"Arsenal"}`, `"found":false`},
		{"SG-44 gold_price", "gold_price", `{"karat":"22"}`, `"taka_per_bhori":74819`},
		{"SG-45 prayer_times", "prayer_times", `{"town":"Dhaka"}`, `"dhuhr":"13:18"`},
		{"SG-46 calculator", "calculator", `{"a":"0.1","operation":"add","b":"0.2"}`, `"result":"0.3"`},
		{"SG-46 calculator, without an end", "calculator", `{"a":"1","operation":"divide","b":"3"}`, `"result":"1/3"`},
		{"SG-46 calculator, big", "calculator", `{"a":"9007199254740993","operation":"multiply","b":"9007199254740993"}`, `"result":"81129638414606699710187514626049"`},
		{"SG-47 feed_cat", "feed_cat", `{"portion":"normal"}`, `"fed":true,"feeder_percent":67`},
		{"SG-48 order_pizza", "order_pizza", `{"pizza":"margherita","size":"small","count":2}`, `"charged_cents":2260`},
		{"SG-49 book_taxi", "book_taxi", `{"from":"home","to":"ferry"}`, `"waiting_cents_per_minute":45`},
		{"SG-50 ask_mum", "ask_mum", `{"question":"where is the letter?"}`, `"minutes":41`},
	}
	byName := map[string]tools.Tool{}
	for _, tool := range bogus.Tools() {
		byName[tool.Definition().Name] = tool
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: byName[tt.tool], Arguments: json.RawMessage(tt.args)})
			if d.Result.Status != tools.Completed || !strings.Contains(d.Result.Output, tt.want) {
				t.Errorf("%s %s: %+v, want %s", tt.tool, tt.args, d.Result, tt.want)
			}
		})
	}
}

func TestCalculatorRefuses(t *testing.T) {
	for _, args := range []string{
		`{"a":"1","operation":"divide","b":"0.0"}`, `{"a":"x","operation":"add","b":"1"}`, `{"a":"1e9999999","operation":"add","b":"1"}`,
		`{"a":"1/3","operation":"add","b":"1"}`, `{"a":"` + strings.Repeat("9", 65) + `","operation":"add","b":"1"}`, `{"a":"NaN","operation":"add","b":"1"}`,
		`{"a":"1","operation":"power","b":"1"}`, `{"a":1,"operation":"add","b":"1"}`,
	} {
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: bogus.Calculator(), Arguments: json.RawMessage(args)})
		if d.Result.Status != tools.Failed || d.Result.Error == "" {
			t.Errorf("%s: %+v, want a failure that says why", args, d.Result)
		}
	}
}

// SG-33, SG-51: twelve, eight readonly, one idempotent, three destructive, none
// that says nothing.
func TestEffects(t *testing.T) {
	bus, err := tools.NewBus(bogus.Tools(), tools.BusConfig{})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[tools.Effect]int{}
	for _, name := range bus.Names() {
		effect, _ := bus.EffectOf(name)
		counts[effect]++
	}
	if want := map[tools.Effect]int{tools.Readonly: 8, tools.Idempotent: 1, tools.Destructive: 3}; !maps.Equal(counts, want) {
		t.Errorf("effects %v, want %v", counts, want)
	}
	if got := bus.Destructive(); !slices.Equal(got, []string{"order_pizza", "book_taxi", "ask_mum"}) {
		t.Errorf("destructive %q", got)
	}
	if got := bus.Unannotated(); len(got) != 0 {
		t.Errorf("unannotated %q", got)
	}
	if got := bus.Overlaps(); len(got) != 0 {
		t.Errorf("descriptions that are nearly the same: %v", got)
	}
}

// SG-35: every description says that the answer is nowhere else.
func TestDescriptionsSayThatNobodyCanKnow(t *testing.T) {
	says := regexp.MustCompile(`exist nowhere else|exists nowhere else|nobody else|not those in general use|from elsewhere|only the reply|can only be read here|only from its reply|nobody can know`)
	for _, tool := range bogus.Tools() {
		if d := tool.Definition(); !says.MatchString(d.Description) {
			t.Errorf("%s: %q does not say that its answers cannot be known", d.Name, d.Description)
		}
	}
}

// SG-52: a gate that goes by declared effects refuses order_pizza, lets feed_cat
// be tried again, and lets my_notes through, all through the dispatcher.
func TestAGateOverTheFixtures(t *testing.T) {
	down := true
	flaky, err := tools.Raw(*bogus.FeedCat().Definition(), nil, func(ctx context.Context, in *tools.Invocation) (any, error) {
		if down {
			down = false
			return nil, errors.New("the feeder did not answer")
		}
		return bogus.FeedCat().Call(ctx, in)
	})
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat([]tools.Tool{flaky}, slices.DeleteFunc(bogus.Tools(), func(t tools.Tool) bool { return t.Definition().Name == "feed_cat" }))
	reg, err := tools.NewRegistry(all...)
	if err != nil {
		t.Fatal(err)
	}
	d := tools.NewDispatcher(reg, tools.Config{Permission: func(_ context.Context, _ tools.Env, def *tools.Definition, _ tools.Call) error {
		if def.IsDestructive() {
			return &tools.Denial{Detail: "destructive", Text: "nothing that cannot be undone"}
		}
		return nil
	}})
	run := toolstest.NewLedger().Run()
	dispatch := func(turn int, name string) tools.Disposition {
		disp, err := d.Dispatch(t.Context(), run.Env(), tools.Call{ID: events.CallID{Turn: turn}, Name: name, Arguments: json.RawMessage(calls[name])})
		if err != nil {
			t.Fatal(err)
		}
		return disp
	}
	retry := func(turn int, name string) tools.Disposition {
		disp := dispatch(turn, name)
		if def, _ := d.Definition(name); disp.Result.Status == tools.Failed && disp.Blocked == "" && !def.IsDestructive() {
			disp = dispatch(turn+1, name)
		}
		return disp
	}
	answer := ""
	for turn, tt := range []struct {
		tool    string
		status  string
		blocked events.BlockedReason
	}{
		{"order_pizza", tools.Failed, events.BlockedPermissionDenied},
		{"feed_cat", tools.Completed, ""},
		{"my_notes", tools.Completed, ""},
	} {
		disp := retry(10*turn+1, tt.tool)
		if disp.Result.Status != tt.status || disp.Blocked != tt.blocked {
			t.Errorf("%s: %+v blocked %q, want %s and %q", tt.tool, disp.Result, disp.Blocked, tt.status, tt.blocked)
		}
		answer += disp.Result.Output
	}
	want := []string{
		"tool_execution_blocked",
		"tool_execution_started", "tool_execution_error", "tool_execution_started", "tool_execution_finished",
		"tool_execution_started", "tool_execution_finished",
	}
	if got := toolstest.TypesOf(run.Events()); !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	// SG-38: the receipts in what was answered say which tools fed it.
	fed := regexp.MustCompile(`bogus-[a-z_]+-[0-9a-f]{6}`).FindAllString(answer, -1)
	if want := []string{bogus.Receipt("feed_cat", "small"), bogus.Receipt("my_notes", "wifi")}; !slices.Equal(fed, want) {
		t.Errorf("receipts %q, want %q", fed, want)
	}
}

// SG-53: no package that ships registers the fixtures, but for the flag of the
// runner that says so.
func TestPackageSaysWhatItIsNot(t *testing.T) {
	src, err := os.ReadFile("bogus.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no imitations of real services", "no benchmark", "a price that is not true"} {
		if !strings.Contains(strings.ReplaceAll(string(src), "\n// ", " "), want) {
			t.Errorf("the package's comment does not say %q", want)
		}
	}
}

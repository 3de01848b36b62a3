package fanout_test

import (
	"context"
	"errors"
	"testing"

	"github.com/daybookhq/daybook/tools/internal/fanout"
)

type source string

func (s source) Name() string { return string(s) }

func TestAsk(t *testing.T) {
	sources := []source{"one", "two", "three"}
	if n := fanout.Name(sources); n != "one+two+three" {
		t.Errorf("name %q", n)
	}
	both := make(chan struct{})
	answers, err := fanout.Ask(t.Context(), sources, func(s source) (int, error) {
		switch s {
		case "one": // waits for the third, so they are asked at once
			<-both
			return 1, nil
		case "two":
			panic("oh")
		}
		close(both)
		return 3, errors.New("no")
	})
	if err != nil || len(answers) != 3 || answers[0] != (fanout.Answer[int]{Name: "one", R: 1}) ||
		answers[1].Name != "two" || answers[1].Err == nil || answers[1].Err.Error() != "crashed" || answers[2].Err == nil {
		t.Errorf("%+v, %v", answers, err)
	}
	why := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = fanout.Ask(ctx, sources, func(source) (int, error) { cancel(why); return 0, ctx.Err() })
	if !errors.Is(err, why) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestAdd(t *testing.T) {
	two, three := int64(2), int64(3)
	if s := fanout.Add(&two, &three); s == nil || *s != 5 || two != 2 {
		t.Errorf("%v", s)
	}
	if fanout.Add(nil, nil) != nil || fanout.Add(&two, nil) != &two || fanout.Add(nil, &three) != &three {
		t.Error("unmeasured is not nothing")
	}
}

func TestNoAnswer(t *testing.T) {
	if err := fanout.NoAnswer("searcher", [][2]string{{"a", "x"}, {"b", "y"}}); err.Error() != "no searcher answered: a: x; b: y" {
		t.Error(err)
	}
}

package scripted

import (
	"context"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// Stream is Call that tells the answer word by word, over the answer's delay.
func (m *Model) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	t, err := m.take(ctx, r)
	if err != nil {
		return model.Response{}, err
	}
	resp, err := t.render()
	words := strings.SplitAfter(resp.Text, " ")
	pause := t.answer.delay / time.Duration(len(words))
	for _, w := range words {
		if serr := sleep(ctx, pause); serr != nil {
			return model.Response{}, serr
		}
		if w != "" && err == nil {
			told(model.Delta{Kind: events.BlockText, Text: w})
		}
	}
	for i, call := range resp.Calls {
		told(model.Delta{Kind: events.BlockCall, Call: i, Name: call.Name})
		told(model.Delta{Kind: events.BlockCall, Call: i, Text: string(call.Arguments)})
	}
	return resp, err
}

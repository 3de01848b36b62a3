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
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	c := newConversation(r)
	ru, err := m.pick(c)
	if err != nil {
		return model.Response{}, err
	}
	served := m.name
	if served == "" {
		served = r.Model
	}
	resp, err := ru.answer.render(c, ru.name, served)
	words := strings.SplitAfter(resp.Text, " ")
	pause := ru.answer.delay / time.Duration(len(words))
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

package tools_test

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools"
)

func TestAfterCrash(t *testing.T) {
	for _, tt := range []struct {
		def  tools.Definition
		want string
	}{
		{tools.Definition{Effect: tools.Readonly}, "made again"},
		{tools.Definition{Effect: tools.Idempotent}, "made again"},
		{tools.Definition{}, "in doubt, for a person: ledgerctl resolve"},
		{tools.Definition{Effect: tools.Destructive, InDoubtContinue: true}, "in doubt, for a person: ledgerctl resolve; the run goes on meanwhile"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Keyed(24 * time.Hour)}, "sent again under the same key for 19h12m; later in doubt, for a person"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Keyed(100 * time.Minute)}, "sent again under the same key for 1h20m; later in doubt, for a person"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Keyed(50 * time.Hour)}, "sent again under the same key for 40h; later in doubt, for a person"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Keyed(50 * time.Second)}, "sent again under the same key for 40s; later in doubt, for a person"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Fenced()}, "sent again with the next fence, which the provider compares"},
		{tools.Definition{Effect: tools.Destructive, Recovery: tools.Probed()}, "the provider is asked; made again if it did not happen, in doubt while nobody can say"},
	} {
		if got := tt.def.AfterCrash(); got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.def.Effect, tt.def.Recovery, got, tt.want)
		}
	}
}

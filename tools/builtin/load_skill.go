package builtin

import (
	"context"
	"errors"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// maxSkillText is more than a skill has.
const maxSkillText = 96 << 10

// LoadSkill returns load_skill, with which the model reads the instructions of a
// skill that its prompt lists by description. It reads what the run was bound to when
// it started; to have read a skill permits nothing. What it returns came from outside
// if the skill did.
func LoadSkill() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "load_skill",
		Description: "Returns the instructions of one of the skills that you were told of. Load a skill before you do what it is for. It gives you no further tools.",
		Aliases:     []string{"skill", "instructions", "how to"},
		Pinned:      true,
		Effect:      tools.Readonly,
		Trust:       tools.Own, // and from outside where the skill is
		Timeout:     30 * time.Second,
		MaxOutput:   maxSkillText,
		Truncate:    tools.Refuse, // half an instruction is none
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Name string `json:"name" jsonschema:"of the skill"`
	},
	) (any, error) {
		if inv.Skills == nil {
			return nil, errors.New("there are no skills here")
		}
		s, err := inv.Skills.Skill(ctx, in.Name)
		switch {
		case err != nil:
			return nil, err
		case s.Trust == tools.Own:
			return s.Text, nil
		}
		return tools.FromOutside{Value: s.Text}, nil
	}))
}

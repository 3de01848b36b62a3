package builtin

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

const datePatterns = "days from 2026-03-01 to 2026-09-09; 30 days after 2026-03-01; 2 months before 2026-03-01 (days, weeks, months or years)"

// Dates returns dates, a [DateMath] whose only argument is a question in one of
// three forms, for models that are better at words than at arguments.
func Dates() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "dates",
		Description: "Answers a question about dates in exactly one of these forms: " + datePatterns + ".",
		Aliases:     []string{"date", "calendar", "days between", "deadline"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Question string `json:"question" jsonschema:"the question, as in: days from 2026-03-01 to 2026-09-09"`
	},
	) (string, error) {
		text, err := answerDates(in.Question)
		if err != nil {
			return "", &tools.ArgumentError{Tool: "dates", Problems: []string{"question: " + err.Error()}}
		}
		return text, nil
	}))
}

var (
	dateBetween = regexp.MustCompile(`^(day|week|month|year)s? from (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)$`)
	dateBeside  = regexp.MustCompile(`^(\d{1,9}) (day|week|month|year)s? (after|before) (\d{4}-\d\d-\d\d)$`)
)

// maxQuestion bounds a question in bytes; the longest that fits a form has 45.
const maxQuestion = 200

func answerDates(question string) (string, error) {
	if len(question) > maxQuestion {
		return "", errors.New("too long; ask in one of these forms: " + datePatterns)
	}
	q := strings.ToLower(strings.Join(strings.Fields(question), " "))
	if m := dateBetween.FindStringSubmatch(q); m != nil {
		from, err := parseWhen(m[2])
		if err != nil {
			return "", err
		}
		to, err := parseWhen(m[3])
		if err != nil {
			return "", err
		}
		n, err := difference(from, to, unit(m[1]))
		if err != nil {
			return "", err
		}
		return counted(n, unit(m[1])), nil
	}
	if m := dateBeside.FindStringSubmatch(q); m != nil {
		at, err := parseWhen(m[4])
		if err != nil {
			return "", err
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return "", err
		}
		if m[3] == "before" {
			n = -n
		}
		moved, err := at.add(n, unit(m[2]))
		if err != nil {
			return "", err
		}
		return moved.String(), nil
	}
	return "", errors.New("ask in one of these forms: " + datePatterns)
}

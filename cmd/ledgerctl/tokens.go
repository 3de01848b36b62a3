package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// tokenView is a token as a list shows it: never the token itself.
type tokenView struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	State   string         `json:"state"` // live, expired or revoked
	Scopes  []access.Scope `json:"scopes"`
	Tenant  string         `json:"tenant,omitempty"`
	Owner   string         `json:"owner,omitempty"`
	Created time.Time      `json:"created"`
	Expires time.Time      `json:"expires"`
	Revoked time.Time      `json:"revoked,omitzero"`
	// Token is set for a new one, this once.
	Token string `json:"token,omitempty"`
}

func viewToken(t access.Token, now time.Time) tokenView {
	state := "live"
	switch {
	case !t.Revoked.IsZero():
		state = "revoked"
	case !t.Live(now):
		state = "expired"
	}
	return tokenView{ID: t.ID(), Name: t.Name, State: state, Scopes: t.Scopes, Tenant: t.Tenant, Owner: t.Owner, Created: t.Created, Expires: t.Expires, Revoked: t.Revoked}
}

func (v tokenView) scopes() string {
	ss := make([]string, len(v.Scopes))
	for i, s := range v.Scopes {
		ss[i] = string(s)
	}
	return strings.Join(ss, ",")
}

func (a *app) tokensCommand() *cobra.Command {
	c := group("tokens", "Makes, lists and revokes the tokens that let people into the page")
	c.Long = `Makes, lists and revokes the tokens that let people and programs into the page
(ledgerctl ui --tokens FILE). The file holds hashes, never a token; it is its owner's
alone (mode 0600) and is changed in one step. A page that runs sees a change at once.`
	c.AddCommand(a.tokensNew(), a.tokensList(), a.tokensRevoke())
	return c
}

// tokensFile adds the flag for the file, which each of these commands needs.
func tokensFile(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "file", env("DAYBOOK_TOKENS", ""), "tokens file (required; DAYBOOK_TOKENS)")
}

func needFile(path string) error {
	if path == "" {
		return usagef("--file is required: the tokens file, as ledgerctl ui --tokens names it")
	}
	return nil
}

// asTokens says what to do about a tokens file that is not there.
func asTokens(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (ledgerctl tokens new makes it)", err)
	}
	return err
}

func (a *app) tokensNew() *cobra.Command {
	var path string
	var g access.Grant
	var scopes []string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Makes a token, and prints it this once",
		Long: `Makes a token, and prints it this once; the file is made if it is not there. NAME is
who the record names as the actor of whatever is done with the token.

Scopes: read (runs and what belongs to them), approve (approve and deny calls), resolve
(settle effects in doubt, cancel runs). With --tenant, and --owner within it, the token
sees and decides nothing else.`,
		Example: `  ledgerctl tokens new ann@example.com --file tokens.yaml --scopes read,approve --tenant acme
  ledgerctl tokens new dashboards --file tokens.yaml --for 720h`,
		Args: oneArg("a name"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := needFile(path); err != nil {
				return err
			}
			g.Name, g.Scopes = args[0], nil
			for _, s := range scopes {
				g.Scopes = append(g.Scopes, access.Scope(s))
			}
			text, t, err := g.New(a.now(), nil)
			if errors.Is(err, access.ErrGrant) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			v := viewToken(t, a.now())
			if a.dry {
				if a.output == formatJSON {
					return a.json(v)
				}
				_, err := fmt.Fprintf(a.out, "dry run: a token of %s (%s), good until %s, would be added to %s\n", v.Name, v.scopes(), stamp(t.Expires), path)
				return err
			}
			if err := access.Add(path, t); err != nil {
				return err
			}
			if a.output == formatJSON {
				v.Token = text
				return a.json(v)
			}
			fmt.Fprintf(a.err, "token %s of %s (%s), good until %s; nothing shows it again:\n", v.ID, v.Name, v.scopes(), stamp(t.Expires))
			_, err = fmt.Fprintln(a.out, text)
			return err
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	tokensFile(c, &path)
	fs.StringSliceVar(&scopes, "scopes", []string{string(access.Read)}, "what it allows: read, approve, resolve")
	fs.StringVar(&g.Tenant, "tenant", "", "all it sees; default every tenant")
	fs.StringVar(&g.Owner, "owner", "", "all it sees within the tenant; default every owner")
	fs.DurationVar(&g.Life, "for", access.DefaultLife, fmt.Sprintf("how long it is good, %s at most", access.MaxLife))
	a.outputFlag(c, formatTable, formatJSON)
	a.changesItself(c)
	_ = c.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions([]string{"read", "approve", "resolve"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) tokensList() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:     "list",
		Short:   "Lists tokens, those that are over too",
		Example: `  ledgerctl tokens list --file tokens.yaml`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := needFile(path); err != nil {
				return err
			}
			f, err := access.OpenFile(path)
			if err != nil {
				return asTokens(err)
			}
			ts, err := f.Tokens()
			if err != nil {
				return asTokens(err)
			}
			views := make([]tokenView, len(ts))
			for i, t := range ts {
				views[i] = viewToken(t, a.now())
			}
			return list(a, views, tokenColumns(), "no tokens: ledgerctl tokens new -h")
		},
	}
	tokensFile(c, &path)
	listFlags[tokenView](a, c)
	return c
}

func tokenColumns() []column[tokenView] {
	all := func(s string) string {
		if s == "" {
			return "all"
		}
		return s
	}
	return []column[tokenView]{
		{name: "id", keep: true, text: func(v tokenView) string { return v.ID }},
		{name: "name", want: 16, text: func(v tokenView) string { return v.Name }},
		{name: "state", keep: true, text: func(v tokenView) string { return v.State }, style: func(v tokenView) style {
			if v.State == "live" {
				return plain
			}
			return dim
		}},
		{name: "scopes", keep: true, text: tokenView.scopes},
		{name: "tenant", text: func(v tokenView) string { return all(v.Tenant) }, raw: func(v tokenView) string { return v.Tenant }},
		{name: "owner", text: func(v tokenView) string { return all(v.Owner) }, raw: func(v tokenView) string { return v.Owner }},
		{name: "expires", drop: 1, text: func(v tokenView) string { return stamp(v.Expires) }},
		{name: "created", drop: 2, text: func(v tokenView) string { return stamp(v.Created) }},
		{name: "revoked", mixed: true, drop: 3, text: func(v tokenView) string { return stamp(v.Revoked) }},
	}
}

func (a *app) tokensRevoke() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Ends a token, or all tokens of a name, and the sessions that began with them",
		Long: `Ends the token with an id, or all tokens of a name, and the sessions that began with
them: each page over the file sees it at its next request. Whoever found a token finds
its id by its hash: printf %s TOKEN | sha256sum | cut -c1-12`,
		Example: `  ledgerctl tokens revoke 3f9c1a2b44d0 --file tokens.yaml
  ledgerctl tokens revoke ann@example.com --file tokens.yaml`,
		Args: oneArg("an id or a name"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := needFile(path); err != nil {
				return err
			}
			if strings.HasPrefix(args[0], access.Prefix) {
				return usagef("that is a token, and is in your shell's history now: revoke it by its id (ledgerctl tokens list)")
			}
			revoke := access.Revoke
			verb := "revoked"
			if a.dry {
				revoke, verb = wouldRevoke, "dry run: would revoke"
			}
			ended, err := revoke(path, args[0], a.now())
			if errors.Is(err, access.ErrNoToken) {
				return fmt.Errorf("%w (ledgerctl tokens list)", err)
			}
			if err != nil {
				return asTokens(err)
			}
			views := make([]tokenView, len(ended))
			for i, t := range ended {
				views[i] = viewToken(t, a.now())
			}
			if a.output == formatJSON {
				return a.json(views)
			}
			for _, v := range views {
				fmt.Fprintf(a.out, "%s %s of %s (%s)\n", verb, v.ID, v.Name, v.scopes())
			}
			return nil
		},
	}
	tokensFile(c, &path)
	a.outputFlag(c, formatTable, formatJSON)
	a.changesItself(c)
	return c
}

// wouldRevoke is what access.Revoke would end.
func wouldRevoke(path, which string, _ time.Time) ([]access.Token, error) {
	f, err := access.OpenFile(path)
	if err != nil {
		return nil, err
	}
	all, err := f.Tokens()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t access.Token) bool { return t.ID() != which && t.Name != which || !t.Revoked.IsZero() })
	if len(all) == 0 {
		return nil, fmt.Errorf("revoke %q: %w", which, access.ErrNoToken)
	}
	return all, nil
}

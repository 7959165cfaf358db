package server

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) secretSet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret of your tenant",
		Long: `Set a secret of your tenant, or replace its value. The value is read from stdin, or asked for at a terminal and
not shown; it is never an argument, which others could see. A line break at its end is dropped.

Sandboxes whose template names NAME (env_from) have it as a variable in every command and turn that starts from
then on. The server keeps the value encrypted and never shows it.`,
		Example: "  berth secret set ANTHROPIC_API_KEY\n  berth secret set ANTHROPIC_API_KEY < key.txt\n  pass show anthropic | berth secret set ANTHROPIC_API_KEY",
		Args:    secretName,
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			return a.runSecretSet(ctx, args[0])
		}),
		ValidArgsFunction: a.completeSecrets,
	}
	return a.Online(cmd)
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretName accepts one name. Its errors repeat no argument, because it may be a value.
func secretName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return ui.Usagef(cmd, "the NAME of one secret is missing")
	case len(args) > 1 || strings.Contains(args[0], "="):
		return ui.Usage("the value is no argument, because others could see it", "Write 'berth secret set NAME' and give the value when asked, or on stdin: berth secret set NAME < FILE. If it was a real one, replace it: it may be in your shell's history.")
	case !variableName.MatchString(args[0]):
		return ui.Usage("that is no name of a secret", "A name is of letters, digits and _, and does not begin with a digit, such as ANTHROPIC_API_KEY.")
	}
	return nil
}

// maxSecret bounds the value that is read. The server accepts less.
const maxSecret = 64 << 10

func (a *app) runSecretSet(ctx context.Context, name string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	value, err := a.readSecret(ctx, name)
	if err != nil {
		return err
	}
	set, err := c.Secrets.Set(ctx, name, value)
	switch {
	case err != nil:
		return c.Explain(err)
	case a.JSON:
		return ui.WriteJSON(a.Out, set)
	}
	if len(set.Templates) == 0 {
		a.Warnf("no template that you may use names %s, so that no sandbox gets it; env_from in a template does", name)
		return nil
	}
	a.Notef("%s is set. Sandboxes of %s have it from their next command or turn on.", name, ui.Clean(strings.Join(set.Templates, ", ")))
	return nil
}

// readSecret reads a value from stdin, or asks for it at a terminal without showing it.
func (a *app) readSecret(ctx context.Context, name string) (string, error) {
	var text string
	if file, ok := a.Stdin.(*os.File); ok && ui.IsTerminal(file) {
		typed, err := a.ReadHidden(ctx, file, "Value of "+name+" (not shown): ")
		if err != nil {
			return "", err
		}
		text = typed
	} else {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxSecret+1))
		if err != nil {
			return "", fmt.Errorf("read value: %w", err)
		}
		text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	}
	switch {
	case text == "":
		return "", ui.Usage("the value is empty", "Give it on stdin or when asked. 'berth secret rm "+name+"' removes the secret.")
	case len(text) > maxSecret:
		return "", ui.Usage(fmt.Sprintf("the value is larger than %d bytes", maxSecret), "Put large values into files of the workspace.")
	}
	return text, nil
}

func (a *app) secretLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the secrets of your tenant",
		Long:    "List the secrets of your tenant by name, with the templates that name them. Values are never shown.",
		Example: "  berth secret ls\n  berth secret ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return c.Explain(ui.Show(a.UI, c.Secrets.List(ctx), ui.Listing[api.Secret]{
				Columns: []string{"NAME", "SET", "TEMPLATES"},
				Row: func(s api.Secret) []ui.Cell {
					return []ui.Cell{ui.Plain(s.Name), ui.Plain(a.Time(s.UpdatedAt)), ui.Plain(ui.OrDash(strings.Join(s.Templates, ", ")))}
				},
				ID:    func(s api.Secret) string { return s.Name },
				Empty: "No secrets yet. 'berth secret set NAME' sets one.",
			}))
		}),
	}
	a.QuietFlag(cmd, "names")
	return a.Online(cmd)
}

func (a *app) secretRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"delete"},
		Short:   "Delete secrets of your tenant",
		Long:    "Delete secrets of your tenant. A terminal is asked first. Commands and turns that run keep the value; later ones do not get it.",
		Example: "  berth secret rm ANTHROPIC_API_KEY",
		Args:    ui.Args(1, -1, "the NAME of at least one secret; 'berth secret ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, names []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.RemoveEach(ctx, remote.Removal{
				Question: "Delete secret %s? Sandboxes no longer get it.",
				Word:     "deleted",
				Do:       func(ctx context.Context, name string) error { return c.Explain(c.Secrets.Delete(ctx, name)) },
			}, names)
		}),
		ValidArgsFunction: a.completeSecrets,
	}
	a.YesFlag(cmd)
	return a.Online(cmd)
}

func (a *app) completeSecrets(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Secret, error] {
		return c.Secrets.List(ctx)
	}
	return remote.Complete(cmd.Context(), a.Remote, args, list, func(s api.Secret) remote.Candidate {
		return remote.Candidate{Word: s.Name, About: strings.Join(s.Templates, ", ")}
	})
}

package ui

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/config"
)

// Limit is the maximum number of items that a list prints; zero: all.
type Limit int

// String returns the limit as a number.
func (l *Limit) String() string { return strconv.Itoa(int(*l)) }

// Type returns the name of the value's type for the help.
func (l *Limit) Type() string { return "int" }

// Set parses the value of the flag.
func (l *Limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("must be an integer ≥ 1")
	}
	*l = Limit(n)
	return nil
}

// LimitFlag adds --limit to a command that prints a list.
func LimitFlag(cmd *cobra.Command, most *Limit) {
	cmd.Flags().Var(most, "limit", "print at most `N` (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

// QuietFlag adds -q to a command that lists ids.
func (u *UI) QuietFlag(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVarP(&u.Quiet, "quiet", "q", false, "print only "+what)
}

// Run returns a RunE that calls do with the context and the arguments of the command.
func Run(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }
}

// Args returns a check of the number of arguments. names describes the arguments in its errors.
func Args(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Usagef(cmd, "%s needs %s", cmd.CommandPath(), names)
		case most == 0 && len(args) > 0:
			return Usagef(cmd, "%s takes no arguments, but %q was given", cmd.CommandPath(), args[0])
		case most >= 0 && len(args) > most:
			return Usagef(cmd, "%s takes %s; %q is one too many", cmd.CommandPath(), names, args[most])
		}
		return nil
	}
}

// Group makes cmd a group of commands. Without arguments it prints its help. For an unknown command it returns an error
// that suggests the most similar ones.
func Group(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := Usagef(cmd, "%q is not a command of %s", args[0], cmd.CommandPath())
		if near := nearestOf(args[0], harmless(cmd, cmd.SuggestionsFor(args[0]))); len(near) > 0 {
			err.Hint = "Did you mean '" + cmd.CommandPath() + " " + strings.Join(near, "' or '"+cmd.CommandPath()+" ") + "'?"
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(members...)
	return cmd
}

// YesFlag adds --yes.
func (u *UI) YesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&u.Yes, "yes", "y", false, "do not ask")
}

// Offer completes the value of a flag with these words. It does not complete names of files.
func Offer[T ~string](cmd *cobra.Command, flag string, words []T) {
	fits := make([]cobra.Completion, len(words))
	for i, word := range words {
		fits[i] = string(word)
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(fits, cobra.ShellCompDirectiveNoFileComp))
}

// destructive lists commands that are never suggested: a suggestion after a typing error must not lead to data loss.
var destructive = []string{"rm", "terminate", "prune", "revoke", "forget", "down", "kill", "cleanup", "archive"}

func harmless(cmd *cobra.Command, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		found, _, err := cmd.Find([]string{name})
		return err != nil || slices.Contains(destructive, found.Name())
	})
}

// nearestOf returns the words with the fewest edits from typed.
func nearestOf(typed string, words []string) (near []string) {
	least := len(typed) + 1
	for _, word := range words {
		d := config.Distance(typed, word)
		if d < least {
			near, least = nil, d
		}
		if d == least {
			near = append(near, word)
		}
	}
	return near
}

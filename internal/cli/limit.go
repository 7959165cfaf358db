package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// limit is the most items a list prints; zero: all.
type limit int

func (l *limit) String() string { return strconv.Itoa(int(*l)) }
func (l *limit) Type() string   { return "int" }

// Set takes what a person wrote.
func (l *limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("it takes a whole number, 1 or more")
	}
	*l = limit(n)
	return nil
}

// limited adds --limit to a command that prints a list.
func limited(cmd *cobra.Command, most *limit) {
	cmd.Flags().Var(most, "limit", "print at most `N` (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

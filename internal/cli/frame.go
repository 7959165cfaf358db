package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// frame is what all commands share: the streams, the global flags and the way out.
type frame struct {
	Deps
	out, err stream
	now      func() time.Time
	patience time.Duration // with one delete

	interrupts interrupts

	json  bool
	quiet bool
	yes   bool

	server  string
	keyFile string
	dataDir string
}

func newFrame(deps Deps) *frame {
	f := &frame{Deps: deps, now: time.Now, patience: deletePatience}
	f.out, f.err = f.stream(deps.Stdout), f.stream(deps.Stderr)
	f.err.Writer = &serial{to: deps.Stderr}
	return f
}

// env is the variable's value, empty when it is not set.
func (f *frame) env(name string) string {
	value, _ := f.Env(name)
	return value
}

// notef tells the person at the terminal something that is not the result.
func (f *frame) notef(format string, args ...any) {
	if !f.json && !f.quiet {
		fmt.Fprintf(f.err, format+"\n", args...)
	}
}

// line prints one word as the whole result.
func (f *frame) line(word string) error {
	_, err := fmt.Fprintln(f.out, clean(word))
	return err
}

// goesOn tells whoever interrupts a command that the server is not interrupted by that.
func (f *frame) goesOn(look string) {
	f.notef("berth: interrupted; the server may go on with it: '%s' shows how far it is", clean(look))
}

// quietly adds -q to a command that lists ids.
func (f *frame) quietly(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only "+what)
}

// run makes the function of a command out of one that needs only the context and the arguments.
func run(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }
}

// takes checks the number of arguments. The names are those of the usage line.
func takes(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef(cmd, "%s needs %s", cmd.CommandPath(), names)
		case most == 0 && len(args) > 0:
			return usagef(cmd, "%s takes no arguments, but %q was given", cmd.CommandPath(), args[0])
		case most >= 0 && len(args) > most:
			return usagef(cmd, "%s takes %s; %q is too much", cmd.CommandPath(), names, args[most])
		}
		return nil
	}
}

// group makes a command that only holds others: alone it prints its help, and a word it does not
// know is answered with the nearest that it does.
func group(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := usagef(cmd, "%q is not a command of %s", args[0], cmd.CommandPath())
		if near := nearestOf(args[0], cmd.SuggestionsFor(args[0])); len(near) > 0 {
			err.hint = "Did you mean '" + cmd.CommandPath() + " " + strings.Join(near, "' or '"+cmd.CommandPath()+" ") + "'?"
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(members...)
	return cmd
}

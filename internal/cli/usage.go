package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

// The help lists commands in the order in which they are added.
func init() { cobra.EnableCommandSorting = false }

// helpWidth is the width of help texts, or their maximum width at a terminal.
const helpWidth = 100

// printHelp writes the help page of a command: its description, then its usage.
func (a *app) printHelp(cmd *cobra.Command, _ []string) {
	text := strings.TrimSpace(ui.First(cmd.Long, cmd.Short))
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", a.Reflow(text), cmd.UsageString())
}

// usage writes the help page without the description.
func (a *app) usage(cmd *cobra.Command) error {
	var b strings.Builder
	width := helpWidth
	if a.Out.TTY {
		width = min(width, a.WindowSize().Cols)
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", usageLine(cmd))
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso:\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	a.commands(&b, cmd)
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", a.ReflowIndented(cmd.LocalFlags().FlagUsagesWrapped(width)))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s", a.ReflowIndented(cmd.InheritedFlags().FlagUsagesWrapped(width)))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s COMMAND --help' shows the help of each.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}

// commands lists the subcommands of cmd, under the titles of their groups if there are groups.
func (a *app) commands(b *strings.Builder, cmd *cobra.Command) {
	groups := cmd.Groups()
	if len(groups) == 0 && cmd.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, g := range groups {
		fmt.Fprintf(b, "\n%s\n", g.Title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-13s %s\n", sub.Name(), a.Hang(sub.Short, 16))
			}
		}
	}
}

// help returns the command "berth help COMMAND", which prints the same as "berth COMMAND --help".
func (a *app) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return ui.Usagef(root, "there is no command %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

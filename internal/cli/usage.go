package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Commands are shown in the order they are added, which is the order they are met.
func init() { cobra.EnableCommandSorting = false }

// helpWidth fits into a usual terminal and does not depend on the one at hand, so that help reads
// the same everywhere.
const helpWidth = 100

// usage writes the part of a help page below its words.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", usageLine(cmd))
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso:\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	commands(&b, cmd)
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s COMMAND --help' tells more of each.\n", cmd.CommandPath())
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

// commands lists what a group holds, under the headings of its groups if it has some.
func commands(b *strings.Builder, cmd *cobra.Command) {
	groups := cmd.Groups()
	if len(groups) == 0 && cmd.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, g := range groups {
		fmt.Fprintf(b, "\n%s\n", g.Title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-13s %s\n", sub.Name(), sub.Short)
			}
		}
	}
}

// help is for those who type "berth help ls" instead of "berth ls --help".
func (f *frame) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef(root, "there is no command %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

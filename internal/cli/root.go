package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const welcome = `Berth runs sandboxes for AI agents: each with its own files, processes and life.

First steps:
  berth serve             start a server on this machine
  berth chat              in a second terminal: talk with an agent in a sandbox of its own
  berth create scratch    make a sandbox
  berth shell scratch     look around in it
  berth exec scratch -- uname -a`

// The groups of the help page.
const (
	groupAgents    = "agents"
	groupSandboxes = "sandboxes"
	groupInside    = "inside"
	groupServer    = "server"
	groupMore      = "more"
)

// root builds the whole tree of commands.
func (f *frame) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "berth",
		Short:         "Sandboxes for AI agents",
		Long:          welcome,
		Example:       "  berth create scratch --json\n  berth doctor",
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetIn(f.Stdin)
	root.SetOut(f.Stdout)
	root.SetErr(f.Stderr)
	f.versionFlag(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%v", err) })
	root.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON; errors too, as problem documents on stderr")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(f.help(root))
	root.SetUsageFunc(usage)

	root.AddGroup(
		&cobra.Group{ID: groupAgents, Title: "Agents:"},
		&cobra.Group{ID: groupSandboxes, Title: "Sandboxes:"},
		&cobra.Group{ID: groupInside, Title: "Inside a sandbox:"},
		&cobra.Group{ID: groupServer, Title: "Server:"},
		&cobra.Group{ID: groupMore, Title: "More:"},
	)
	in := func(id string, cmds ...*cobra.Command) {
		for _, cmd := range cmds {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	in(groupAgents, f.chat(), f.conversation(), f.agent(), f.usageReport())
	in(groupSandboxes, append(f.lives(), f.project(), f.sandbox())...)
	in(groupInside, f.insides()...)
	in(groupServer, f.serve(), f.down(), f.sweep(), f.host(), f.keys(), f.account(), f.template(), f.config(), f.migrate(), f.fsck(), f.doctor())
	in(groupMore, f.workspace(), f.completion(root), f.versionCommand())
	return root
}

// lives are the verbs of a sandbox's life, and insides those of what goes on in it, in the order they are
// met.
func (f *frame) lives() []*cobra.Command {
	return slices.Concat([]*cobra.Command{f.create(), f.ls(), f.get()}, f.turns(),
		[]*cobra.Command{f.explain(), f.history()}, f.saves(), []*cobra.Command{f.terminate(), f.rm()})
}

func (f *frame) insides() []*cobra.Command {
	return []*cobra.Command{f.exec(), f.shell(), f.cp(), f.files(), f.tree(), f.cat(), f.ps(), f.logs()}
}

// sandbox offers the same verbs under their noun, for those who look for them there.
func (f *frame) sandbox() *cobra.Command {
	verbs := append(f.lives(), f.insides()...)
	for _, verb := range verbs {
		verb.Example = strings.ReplaceAll(verb.Example, "berth ", "berth sandbox ")
	}
	return group(&cobra.Command{
		Use:     "sandbox",
		Aliases: []string{"sandboxes"},
		Short:   "The sandbox verbs under their noun",
		Long:    "The sandbox verbs under their noun: 'berth sandbox ls' is 'berth ls'.",
		Example: "  berth sandbox create scratch\n  berth sandbox ls",
	}, verbs...)
}

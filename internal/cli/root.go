package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/chat"
	"github.com/berthdev/berth/internal/cli/files"
	"github.com/berthdev/berth/internal/cli/process"
	"github.com/berthdev/berth/internal/cli/project"
	"github.com/berthdev/berth/internal/cli/sandbox"
	"github.com/berthdev/berth/internal/cli/server"
	"github.com/berthdev/berth/internal/cli/template"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/cli/versions"
)

const welcome = `Berth runs sandboxes for AI agents, each with its own files and processes.

First steps:
  berth serve             start a server on this machine
  berth chat              in a second terminal: talk with an agent in a sandbox
  berth create scratch    create a sandbox
  berth shell scratch     open a shell in it
  berth exec scratch -- uname -a`

// The groups of commands on the help page.
const (
	groupAgents    = "agents"
	groupSandboxes = "sandboxes"
	groupInside    = "inside"
	groupServer    = "server"
	groupMore      = "more"
)

// root returns the root command with all commands below it.
func (a *app) root() *cobra.Command {
	root := ui.Group(&cobra.Command{
		Use:           "berth",
		Short:         "Sandboxes for AI agents",
		Long:          welcome,
		Example:       "  berth create scratch --json\n  berth doctor",
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	a.versionFlag(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return ui.Usagef(cmd, "%v", err) })
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print JSON; errors too, as problem documents on stderr")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.help(root))
	root.SetUsageFunc(a.usage)
	root.SetHelpFunc(a.printHelp)

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
	in(groupAgents, chat.Commands(a.Remote)...)
	in(groupSandboxes, append(append(a.lifeCommands(), project.Commands(a.Remote)...), a.sandbox())...)
	in(groupInside, a.insideCommands()...)
	d := a.deps
	in(groupServer, server.Commands(a.Remote, server.Program{
		Build: d.build().String(), Serve: d.Serve, Migrate: d.Migrate, Fsck: d.Fsck, Down: d.Down,
		Secrets: d.Secrets, ForgetSecret: d.ForgetSecret, Probe: d.Probe,
	}, template.Commands(a.Remote)[0])...)
	in(groupServer, process.Console(a.Remote))
	in(groupMore, versions.Workspace(a.Remote, d.OpenStore), a.completion(root), a.versionCommand())
	return root
}

// lifeCommands returns the commands that create, list, change and delete sandboxes.
func (a *app) lifeCommands() []*cobra.Command {
	return sandbox.Commands(a.Remote, versions.Commands(a.Remote)...)
}

// insideCommands returns the commands that work inside a sandbox.
func (a *app) insideCommands() []*cobra.Command {
	p, f := process.Commands(a.Remote), files.Commands(a.Remote)
	return slices.Concat(p[:3], f, p[3:]) // run, exec and shell; the file commands; ps and the rest
}

// sandbox returns the command "berth sandbox", which has the same commands for sandboxes as the root.
func (a *app) sandbox() *cobra.Command {
	verbs := append(a.lifeCommands(), a.insideCommands()...)
	for _, verb := range verbs {
		verb.Example = strings.ReplaceAll(verb.Example, "berth ", "berth sandbox ")
	}
	return ui.Group(&cobra.Command{
		Use:     "sandbox",
		Aliases: []string{"sandboxes"},
		Short:   "The commands for sandboxes under one noun",
		Long:    "The sandbox verbs under their noun: 'berth sandbox ls' is 'berth ls'.",
		Example: "  berth sandbox create scratch\n  berth sandbox ls",
	}, verbs...)
}

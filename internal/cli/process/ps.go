package process

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) ps() *cobra.Command {
	var most ui.Limit
	cmd := &cobra.Command{
		Use:   "ps ID|NAME",
		Short: "List the commands of a sandbox",
		Long: `List the commands of exec and shell since the sandbox was last started, newest first, also those that
have ended. Their ids are for logs, kill and --attach.`,
		Example:           "  berth ps scratch\n  berth ps scratch --json",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runPs(ctx, args[0], most) }),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &most)
	a.QuietFlag(cmd, "ids")
	return cmd
}

func (a *app) runPs(ctx context.Context, ref string, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.NotFoundHint(ctx, ref, ui.Show(a.UI, execs(ctx, c, ref), ui.Listing[api.ExecStatus]{
		Columns: []string{"EXEC ID", "STATE", "STARTED", "OUTPUT", "COMMAND"},
		Drop:    []string{"OUTPUT"},
		Row: func(e api.ExecStatus) []ui.Cell {
			return []ui.Cell{ui.Plain(a.ShortID(e.ExecID)), execState(e), ui.Plain(a.Time(e.StartedAt)), ui.Plain(ui.Size(e.End)), ui.Plain(a.Abridge(commandOf(e), maxCommand))}
		},
		ID:    func(e api.ExecStatus) string { return e.ExecID },
		Empty: "Nothing was started in it since its last start.",
		Limit: int(most),
	}))
}

// execs yields the commands that were started in a sandbox, newest first.
func execs(ctx context.Context, c *remote.Connection, ref string) iter.Seq2[api.ExecStatus, error] {
	return ui.Items(c.Sandboxes.Execs(ctx, ref))
}

// execIDs completes short ids of the commands in a sandbox.
func execIDs(ref string) remote.IDs {
	return remote.IDs{
		Many: "commands",
		Exact: func(ctx context.Context, c *remote.Connection, id string) error {
			_, err := c.Sandboxes.ExecStatus(ctx, ref, id)
			return err
		},
		All: func(ctx context.Context, c *remote.Connection) iter.Seq2[remote.Candidate, error] {
			return remote.Candidates(execs(ctx, c, ref), func(e api.ExecStatus) remote.Candidate {
				return remote.Candidate{Word: e.ExecID, About: ui.Truncate(commandOf(e), maxCommand)}
			})
		},
	}
}

// execState returns a command's state, or its exit code after its end.
func execState(e api.ExecStatus) ui.Cell {
	switch x := e.Exit; {
	case e.Running:
		return ui.Coloured("running", ui.Green)
	case x == nil:
		return ui.Coloured("unknown", ui.Yellow)
	case x.Lost:
		return ui.Coloured("lost", ui.Red)
	case x.Signal != "":
		return ui.Coloured("killed "+x.Signal, ui.Red)
	case x.ExitCode != 0:
		return ui.Coloured(fmt.Sprintf("exit %d", x.ExitCode), ui.Red)
	}
	return ui.Coloured("exit 0", ui.Dim)
}

const maxCommand = 60

// commandOf returns the command line of a command. For a login shell it returns a name, because the command line does
// not help the user.
func commandOf(e api.ExecStatus) string {
	if slices.Equal(e.Command, api.LoginShell()) {
		return "(login shell)"
	}
	return ui.ShellQuote(e.Command)
}

// completeExecs completes a sandbox, and then the commands in it.
func (a *app) completeExecs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.CompleteSandboxes(1)(cmd, args, typed)
	case 1:
		return a.offerExecs(cmd, args, func(api.ExecStatus) bool { return true })
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeTerminals completes the running terminals of the sandbox in args.
func (a *app) completeTerminals(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offerExecs(cmd, args, func(e api.ExecStatus) bool { return e.Terminal && e.Running })
}

func (a *app) offerExecs(cmd *cobra.Command, args []string, fits func(api.ExecStatus) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.ExecStatus, error] {
		return execs(ctx, c, args[0])
	}
	return remote.Complete(cmd.Context(), a.Remote, args, list, func(e api.ExecStatus) remote.Candidate {
		if !fits(e) {
			return remote.Candidate{}
		}
		return remote.Candidate{Word: e.ExecID, About: execState(e).Text + " " + commandOf(e)}
	})
}

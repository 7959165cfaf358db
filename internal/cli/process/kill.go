package process

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) kill() *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use:   "kill ID|NAME EXEC_ID...",
		Short: "Send a signal to commands in a sandbox",
		Long: `Send a signal to commands in a sandbox, and to the processes they started. 'berth ps' lists the commands.
The sandbox itself stays: 'berth stop' ends everything in it.`,
		Example:           "  berth kill scratch 2f1f7a10\n  berth kill -s INT scratch build",
		Args:              ui.Args(2, -1, "the ID or NAME of one sandbox and at least one EXEC_ID"),
		ValidArgsFunction: a.completeExecs,
		PreRunE:           a.ResolveSandboxes(1),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			return a.runKill(ctx, args[0], args[1:], strings.TrimPrefix(strings.ToUpper(signal), "SIG"))
		}),
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "`SIGNAL` to send, such as INT or KILL")
	ui.Offer(cmd, "signal", []string{"TERM", "INT", "KILL", "HUP"})
	return a.Online(cmd)
}

func (a *app) runKill(ctx context.Context, ref string, ids []string, signal string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.ForEach(ctx, remote.Action{
		Doing: "signalling", Done: "sent SIG" + signal + " to", Look: "berth ps " + ref + " ",
		Do: func(ctx context.Context, id string) (any, error) {
			id, err := c.WholeID(ctx, id, execIDs(ref))
			if err == nil {
				err = c.Sandboxes.Signal(ctx, ref, id, signal)
			}
			return map[string]string{"exec_id": id, "signal": signal}, c.NotFoundHint(ctx, ref, noSuchExec(ref, err))
		},
	}, ids)
}

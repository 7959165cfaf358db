package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/client"
)

func (f *frame) conversationRm() *cobra.Command {
	var end ending
	var keep bool
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete conversations for good",
		Long: `Delete conversations for good, with everything that was said. What runs in them is cancelled first. A
terminal is asked before.

The sandbox that a conversation made for itself goes, too, if nobody else works in it; its workspace is saved
first, unless --no-save is given. With --keep-sandbox it stays. What was used stays in 'berth usage'.`,
		Example:           "  berth conversation rm 01970e4b-0000-7000-8000-000000000001\n  berth conversation ls -q | xargs berth conversation rm -y",
		Args:              takes(1, -1, "the ID of at least one conversation"),
		ValidArgsFunction: f.completeConversations(-1),
	}
	cmd.RunE = run(func(ctx context.Context, ids []string) error {
		opts := end.options()
		if keep {
			opts = append(opts, client.KeepSandbox())
		}
		return f.runConversationRm(ctx, ids, opts)
	})
	cmd.Flags().BoolVar(&keep, "keep-sandbox", false, "keep their sandboxes")
	f.confirmed(cmd)
	cmd.Flags().BoolVarP(&f.yes, "force", "f", false, "the same as --yes")
	end.flag(cmd)
	return f.online(cmd)
}

func (f *frame) runConversationRm(ctx context.Context, ids []string, opts []client.EndOption) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.each(ctx, removal{
		question: "Delete conversation %s and everything that was said in it for good?",
		word:     "deleted",
		do: func(ctx context.Context, id string) error {
			spin := f.spin("deleting " + clean(id))
			err := c.Conversations.Delete(ctx, id, opts...)
			spin.stop()
			if err != nil && ctx.Err() != nil {
				f.goesOn("berth conversation show " + id)
			}
			return c.knownConversation(ctx, id, err)
		},
	}, ids)
}

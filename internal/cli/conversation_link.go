package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) conversationLink() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link ID SANDBOX",
		Short: "Have a conversation work in another sandbox",
		Long: `Have a conversation work in another sandbox of your tenant from its next turn on. Its messages stay. The sandbox
it made for itself stays, too, and linking back to it is possible. Not while a turn runs.`,
		Example:           "  berth conversation link 01970e4b-0000-7000-8000-000000000001 scratch",
		Args:              takes(2, 2, "the ID of a conversation and the ID or NAME of a sandbox"),
		ValidArgsFunction: f.completeConversations(1),
		RunE: run(func(ctx context.Context, args []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			s, err := c.Sandboxes.Get(ctx, args[1])
			if err != nil {
				return c.known(ctx, args[1], err)
			}
			conv, err := c.Conversations.Patch(ctx, args[0], api.PatchConversation{SandboxID: s.ID})
			switch {
			case err != nil:
				return c.knownConversation(ctx, args[0], err)
			case f.json:
				return writeJSON(f.out, conv)
			}
			f.notef("Conversation %s works in sandbox %s from now on.", clean(conv.ID), clean(conv.SandboxID))
			return nil
		}),
	}
	return f.online(cmd)
}

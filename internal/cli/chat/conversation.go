package chat

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) conversation() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "conversation",
		Aliases: []string{"conversations", "conv"},
		Short:   "Manage conversations",
		Long: `Conversations with agents: their messages, their turns and their cost. 'berth chat' starts and continues
them.`,
		Example: "  berth conversation ls\n  berth conversation messages",
	}, a.conversationLs(), a.conversationShow(), a.conversationMessages(), a.conversationExport(), a.conversationLink(), a.conversationRm())
}

func (a *app) conversationLs() *cobra.Command {
	var most ui.Limit
	var filter client.ConversationFilter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List conversations",
		Long:    "List the conversations that your key may see, newest first.",
		Example: "  berth conversation ls\n  berth conversation ls --sandbox scratch --json\n  berth conversation ls -q --limit 1",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runConversationLs(ctx, filter, most) }),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &most)
	cmd.Flags().StringVar(&filter.SandboxID, "sandbox", "", "only those that work in the sandbox of this `ID|NAME`")
	_ = cmd.RegisterFlagCompletionFunc("sandbox", a.CompleteSandboxes(-1))
	a.QuietFlag(cmd, "ids")
	return cmd
}

func (a *app) runConversationLs(ctx context.Context, filter client.ConversationFilter, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	empty := "No conversations yet. 'berth chat PROMPT' begins one."
	if ref := filter.SandboxID; ref != "" {
		s, err := c.Sandboxes.Get(ctx, ref)
		if err != nil {
			return c.ExistingHint(ctx, ref, err)
		}
		filter.SandboxID, empty = s.ID, "No conversation works in it."
	}
	return c.Explain(ui.Show(a.UI, c.Conversations.List(ctx, filter), ui.Listing[api.Conversation]{
		Columns: []string{"ID", "TITLE", "STATUS", "MESSAGES", "TOKENS", "COST", "UPDATED"},
		Drop:    []string{"TOKENS", "MESSAGES", "COST"},
		Row: func(v api.Conversation) []ui.Cell {
			return []ui.Cell{ui.Plain(a.ShortID(v.ID)), ui.Plain(a.Abridge(ui.Clean(ui.OrDash(v.Title)), 40)),
				ui.Coloured(v.Status, statusColour(v.Status)), ui.Plain(ui.Thousands(v.Stats.MessagesExchanged)),
				ui.Plain(ui.Thousands(tokensOf(v.Stats))), ui.Plain(costOf(v.Stats.TotalCostUSD)), ui.Plain(a.Time(v.UpdatedAt))}
		},
		ID:    func(v api.Conversation) string { return v.ID },
		Empty: empty,
		Limit: int(most),
	}))
}

// tokensOf returns the number of all tokens of a conversation.
func tokensOf(s api.Stats) int64 {
	return s.TotalInputTokens + s.TotalOutputTokens + s.TotalCacheTokens
}

// costOf formats a cost; zero is "-".
func costOf(usd float64) string {
	if usd == 0 {
		return "-"
	}
	return ui.Dollars(usd)
}

func statusColour(status string) ui.Colour {
	switch status {
	case api.TurnRunning, api.TurnCompleted:
		return ui.Green
	case api.TurnFailed, api.TurnInterrupted:
		return ui.Red
	case api.TurnCancelled:
		return ui.Yellow
	}
	return ""
}

// oneConversation calls do with the conversation in args, or with the newest one if args is empty.
func (a *app) oneConversation(args []string, do func(ctx context.Context, c *remote.Connection, v api.Conversation) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := a.Connect()
		if err != nil {
			return err
		}
		var v api.Conversation
		if len(args) == 0 {
			v, err = newestConversation(ctx, c)
		} else {
			v, err = c.Conversations.Get(ctx, args[0])
			err = conversationHint(ctx, c, args[0], err)
		}
		if err != nil {
			return c.Explain(err)
		}
		return c.Explain(do(ctx, c, v))
	}
}

// conversationHint adds a next step to the error if the conversation was not found.
func conversationHint(ctx context.Context, c *remote.Connection, id string, err error) error {
	names := func(ctx context.Context) iter.Seq2[string, error] {
		return remote.NamesIn(c.Conversations.List(ctx, client.ConversationFilter{}), func(v api.Conversation) string { return v.ID })
	}
	return c.Hint(ctx, id, err, names, "'berth conversation ls' lists the conversations", "")
}

// completeConversations completes the ids of conversations in the first most arguments; most < 0 means in all.
func (a *app) completeConversations(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Conversation, error] {
			return c.Conversations.List(ctx, client.ConversationFilter{})
		}
		fits, directive := remote.Complete(cmd.Context(), a.Remote, args, list, func(v api.Conversation) remote.Candidate {
			return remote.Candidate{Word: v.ID, About: v.Title}
		})
		return fits, directive | cobra.ShellCompDirectiveKeepOrder
	}
}

func (a *app) conversationRm() *cobra.Command {
	var end remote.EndFlags
	var keep bool
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete conversations for good",
		Long: `Delete conversations for good, with all their messages. Running turns are cancelled first. At a terminal
it asks first.

The sandbox that a conversation created is deleted, too, unless it is in use. Its workspace is saved
first, unless --no-save is given. --keep-sandbox keeps the sandbox. 'berth usage' still counts the
deleted conversations.`,
		Example:           "  berth conversation rm 01970e4b-0000-7000-8000-000000000001\n  berth conversation ls -q | xargs berth conversation rm -y",
		Args:              ui.Args(1, -1, "the ID of at least one conversation"),
		ValidArgsFunction: a.completeConversations(-1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, ids []string) error {
		opts := end.Options()
		if keep {
			opts = append(opts, client.KeepSandbox())
		}
		return a.runConversationRm(ctx, ids, opts)
	})
	cmd.Flags().BoolVar(&keep, "keep-sandbox", false, "keep their sandboxes")
	a.YesFlag(cmd)
	cmd.Flags().BoolVarP(&a.Yes, "force", "f", false, "the same as --yes")
	end.Flag(cmd)
	return a.Online(cmd)
}

func (a *app) runConversationRm(ctx context.Context, ids []string, opts []client.EndOption) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.RemoveEach(ctx, remote.Removal{
		Question: "Delete conversation %s and everything that was said in it for good?",
		Word:     "deleted",
		Find: func(ctx context.Context, id string) error {
			_, err := c.Conversations.Get(ctx, id)
			return conversationHint(ctx, c, id, err)
		},
		Do: func(ctx context.Context, id string) error {
			spin := a.Spin("deleting " + ui.Clean(id))
			err := c.Conversations.Delete(ctx, id, opts...)
			spin.Stop()
			if err != nil && ctx.Err() != nil {
				a.NoteServerContinues("berth conversation show " + id)
			}
			return conversationHint(ctx, c, id, err)
		},
	}, ids)
}

func (a *app) conversationLink() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link ID SANDBOX",
		Short: "Link a conversation to another sandbox",
		Long: `Link a conversation to another sandbox of your tenant, from its next turn on. Its messages stay. Its own
sandbox stays, too, and can be linked again. Refused while a turn runs.`,
		Example:           "  berth conversation link 01970e4b-0000-7000-8000-000000000001 scratch",
		Args:              ui.Args(2, 2, "the ID of a conversation and the ID or NAME of a sandbox"),
		ValidArgsFunction: a.completeConversations(1),
		PreRunE:           a.Resolve(remote.ConversationIDs, 1),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if args[1], err = c.WholeID(ctx, args[1], remote.SandboxIDs); err != nil {
				return err
			}
			s, err := c.Sandboxes.Get(ctx, args[1])
			if err != nil {
				return c.ExistingHint(ctx, args[1], err)
			}
			conv, err := c.Conversations.Patch(ctx, args[0], api.PatchConversation{SandboxID: s.ID})
			switch {
			case err != nil:
				return conversationHint(ctx, c, args[0], err)
			case a.JSON:
				return ui.WriteJSON(a.Out, conv)
			}
			a.Notef("Conversation %s works in sandbox %s from now on.", ui.Clean(conv.ID), ui.Clean(conv.SandboxID))
			return nil
		}),
	}
	return a.Online(cmd)
}

package cli

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func (f *frame) conversation() *cobra.Command {
	return group(&cobra.Command{
		Use:     "conversation",
		Aliases: []string{"conversations", "conv"},
		Short:   "Look at what was said, export it, link it, delete it",
		Long: `Conversations with agents: what was asked and answered, what was done and what it cost. 'berth chat' begins
one and goes on with it.`,
		Example: "  berth conversation ls\n  berth conversation messages",
	}, f.conversationLs(), f.conversationShow(), f.conversationMessages(), f.conversationExport(), f.conversationLink(), f.conversationRm())
}

func (f *frame) conversationLs() *cobra.Command {
	var most limit
	var filter client.ConversationFilter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List conversations",
		Long:    "List the conversations that your key may see, newest first.",
		Example: "  berth conversation ls\n  berth conversation ls --sandbox scratch --json\n  berth conversation ls -q --limit 1",
		Args:    takes(0, 0, ""),
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runConversationLs(ctx, filter, most) }),
	}
	limited(f.online(cmd), &most)
	cmd.Flags().StringVar(&filter.SandboxID, "sandbox", "", "only those that work in the sandbox of this `ID|NAME`")
	_ = cmd.RegisterFlagCompletionFunc("sandbox", f.completeSandboxes(-1))
	f.quietly(cmd, "ids")
	return cmd
}

func (f *frame) runConversationLs(ctx context.Context, filter client.ConversationFilter, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	empty := "No conversations yet. 'berth chat PROMPT' begins one."
	if ref := filter.SandboxID; ref != "" {
		s, err := c.Sandboxes.Get(ctx, ref)
		if err != nil {
			return c.known(ctx, ref, err)
		}
		filter.SandboxID, empty = s.ID, "No conversation works in it."
	}
	return c.explain(show(f, c.Conversations.List(ctx, filter), listing[api.Conversation]{
		columns: []string{"ID", "TITLE", "STATUS", "MESSAGES", "TOKENS", "COST", "UPDATED"},
		row: func(v api.Conversation) []cell {
			return []cell{plain(v.ID), plain(cutTo(clean(orDash(v.Title)), 40)), {v.Status, statusColour(v.Status)}, plain(thousands(v.Stats.MessagesExchanged)),
				plain(thousands(tokensOf(v.Stats))), plain(costOf(v.Stats.TotalCostUSD)), plain(f.when(v.UpdatedAt))}
		},
		id:    func(v api.Conversation) string { return v.ID },
		empty: empty,
		limit: int(most),
	}))
}

// tokensOf are all tokens of a conversation.
func tokensOf(s api.Stats) int64 {
	return s.TotalInputTokens + s.TotalOutputTokens + s.TotalCacheTokens
}

// costOf is a cost, or none.
func costOf(usd float64) string {
	if usd == 0 {
		return "-"
	}
	return dollars(usd)
}

func statusColour(status string) colour {
	switch status {
	case api.TurnRunning, api.TurnCompleted:
		return green
	case api.TurnFailed, api.TurnInterrupted:
		return red
	case api.TurnCancelled:
		return yellow
	}
	return ""
}

// oneConversation runs what shows one: the one that is named, or the newest.
func (f *frame) oneConversation(args []string, do func(ctx context.Context, c *connection, v api.Conversation) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := f.connect()
		if err != nil {
			return err
		}
		var v api.Conversation
		if len(args) == 0 {
			v, err = c.newestConversation(ctx)
		} else {
			v, err = c.Conversations.Get(ctx, args[0])
			err = c.knownConversation(ctx, args[0], err)
		}
		if err != nil {
			return c.explain(err)
		}
		return c.explain(do(ctx, c, v))
	}
}

// knownConversation adds to a failure what a person can do who wanted a conversation.
func (c *connection) knownConversation(ctx context.Context, id string, err error) error {
	names := func(ctx context.Context) iter.Seq2[string, error] {
		return namesIn(c.Conversations.List(ctx, client.ConversationFilter{}), func(v api.Conversation) string { return v.ID })
	}
	return c.missing(ctx, id, err, names, "'berth conversation ls' lists the conversations", "")
}

// completeConversations offers the ids of conversations with their titles, for the first most arguments; most
// < 0 means all.
func (f *frame) completeConversations(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *connection) iter.Seq2[api.Conversation, error] {
			return c.Conversations.List(ctx, client.ConversationFilter{})
		}
		fits, directive := complete(cmd.Context(), f, args, list, func(v api.Conversation) candidate {
			return candidate{v.ID, v.Title}
		})
		return fits, directive | cobra.ShellCompDirectiveKeepOrder
	}
}

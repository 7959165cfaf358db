package chat

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) conversationShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [ID]",
		Aliases: []string{"get"},
		Short:   "Show one conversation",
		Long: `Show one conversation: its agent, its sandbox, its usage and how its newest turn ended. The default is
the newest conversation.`,
		Example:           "  berth conversation show\n  berth terminate $(berth conversation show -q)",
		Args:              ui.Args(0, 1, "the ID of one conversation"),
		ValidArgsFunction: a.completeConversations(1),
		PreRunE:           a.Resolve(remote.ConversationIDs, 1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		return a.oneConversation(args, a.showConversation)(ctx)
	})
	a.QuietFlag(cmd, "the id of its sandbox")
	return a.Online(cmd)
}

func (a *app) showConversation(ctx context.Context, c *remote.Connection, v api.Conversation) error {
	switch {
	case a.JSON:
		return ui.WriteJSON(a.Out, v)
	case a.Quiet && v.SandboxID == "":
		return ui.Hint(fmt.Errorf("conversation %s has no sandbox yet", v.ID), "Its first prompt makes one: 'berth chat -c "+v.ID+" PROMPT'.")
	case a.Quiet:
		return a.Line(v.SandboxID)
	}
	lines := []ui.Detail{
		{"id", v.ID}, {"title", v.Title}, {"status", v.Status}, {"turn", v.TurnID},
		{"agent", v.AgentID}, {"template", v.Template}, {"sandbox", v.SandboxID}, {"session", v.SessionID}, {"account", v.AccountID},
		{"messages", ui.Thousands(v.Stats.MessagesExchanged)}, {"tokens", tokenLine(v.Stats)}, {"cost", costOf(v.Stats.TotalCostUSD)},
		{"created", a.Time(v.CreatedAt)}, {"updated", a.Time(v.UpdatedAt)}, {"metadata", ui.Joined(v.Metadata)},
	}
	if u := v.Undelivered; u != nil {
		lines = append(lines, ui.Detail{"undelivered", ui.Plural(u.Messages, "message", "messages") + ", kept and tried again: " + u.LastError})
	}
	for turn, err := range c.Conversations.Turns(ctx, v.ID) {
		if err != nil {
			return err
		}
		lines = append(lines, ui.Detail{"last turn", a.turnLine(turn)})
		break
	}
	return a.Details(lines)
}

func tokenLine(s api.Stats) string {
	return fmt.Sprintf("%s in, %s out, cache %s read, %s written", ui.Thousands(s.TotalInputTokens), ui.Thousands(s.TotalOutputTokens),
		ui.Thousands(s.TotalCacheReadTokens), ui.Thousands(s.TotalCacheWriteTokens))
}

// turnLine returns one line with the status of a turn.
func (a *app) turnLine(t api.Turn) string {
	line := t.Status + " " + a.Time(t.CreatedAt)
	if t.Version != "" {
		line += ", version " + t.Version
	}
	if t.Message != "" {
		line += ": " + t.Message
	}
	return line
}

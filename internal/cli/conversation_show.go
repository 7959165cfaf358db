package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) conversationShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [ID]",
		Aliases: []string{"get"},
		Short:   "Show one conversation",
		Long: `Show one conversation: its agent, its sandbox, what it used and how its newest turn ended. Without an ID it
is the newest one.`,
		Example:           "  berth conversation show\n  berth terminate $(berth conversation show -q)",
		Args:              takes(0, 1, "the ID of one conversation"),
		ValidArgsFunction: f.completeConversations(1),
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		return f.oneConversation(args, f.showConversation)(ctx)
	})
	f.quietly(cmd, "the id of its sandbox")
	return f.online(cmd)
}

func (f *frame) showConversation(ctx context.Context, c *connection, v api.Conversation) error {
	switch {
	case f.json:
		return writeJSON(f.out, v)
	case f.quiet && v.SandboxID == "":
		return &hinted{fmt.Errorf("conversation %s has no sandbox yet", v.ID), "Its first prompt makes one: 'berth chat -c " + v.ID + " PROMPT'."}
	case f.quiet:
		return f.line(v.SandboxID)
	}
	lines := []detail{
		{"id", v.ID}, {"title", v.Title}, {"status", v.Status}, {"turn", v.TurnID},
		{"agent", v.AgentID}, {"template", v.Template}, {"sandbox", v.SandboxID}, {"session", v.SessionID}, {"account", v.AccountID},
		{"messages", thousands(v.Stats.MessagesExchanged)}, {"tokens", tokenLine(v.Stats)}, {"cost", costOf(v.Stats.TotalCostUSD)},
		{"created", f.when(v.CreatedAt)}, {"updated", f.when(v.UpdatedAt)}, {"metadata", joined(v.Metadata)},
	}
	if u := v.Undelivered; u != nil {
		lines = append(lines, detail{"undelivered", plural(u.Messages, "message", "messages") + ", kept and tried again: " + u.LastError})
	}
	for turn, err := range c.Conversations.Turns(ctx, v.ID) {
		if err != nil {
			return err
		}
		lines = append(lines, detail{"last turn", f.turnLine(turn)})
		break
	}
	return f.details(lines)
}

func tokenLine(s api.Stats) string {
	return fmt.Sprintf("%s in, %s out, cache %s read, %s written", thousands(s.TotalInputTokens), thousands(s.TotalOutputTokens),
		thousands(s.TotalCacheReadTokens), thousands(s.TotalCacheWriteTokens))
}

// turnLine is how a turn is, or ended.
func (f *frame) turnLine(t api.Turn) string {
	line := t.Status + " " + f.when(t.CreatedAt)
	if t.Version != "" {
		line += ", version " + t.Version
	}
	if t.Message != "" {
		line += ": " + t.Message
	}
	return line
}

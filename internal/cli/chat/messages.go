package chat

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) conversationMessages() *cobra.Command {
	var most ui.Limit
	cmd := &cobra.Command{
		Use:     "messages [ID]",
		Aliases: []string{"log"},
		Short:   "Print the messages",
		Long: `Print the prompts and answers of a conversation, oldest first, with the tools that were used. --limit
prints only the newest ones. The default is the newest conversation.`,
		Example:           "  berth conversation messages\n  berth conversation messages --limit 2 --json",
		Args:              ui.Args(0, 1, "the ID of one conversation"),
		ValidArgsFunction: a.completeConversations(1),
		PreRunE:           a.Resolve(remote.ConversationIDs, 1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		return a.oneConversation(args, func(ctx context.Context, c *remote.Connection, v api.Conversation) error {
			return a.printMessages(ctx, c, v.ID, int(most))
		})(ctx)
	})
	a.QuietFlag(cmd, "ids")
	ui.LimitFlag(a.Online(cmd), &most)
	return cmd
}

func (a *app) printMessages(ctx context.Context, c *remote.Connection, id string, most int) error {
	items := c.Conversations.Messages(ctx, id)
	if most > 0 {
		newest := make([]api.Message, 0, min(most, 1000))
		for m, err := range c.Conversations.Newest(ctx, id) {
			if err != nil {
				return err
			}
			newest = append([]api.Message{m}, newest...)
			if len(newest) == most {
				break
			}
		}
		items = ui.Items(newest, nil)
	}
	if a.JSON || a.Quiet {
		return ui.Show(a.UI, items, ui.Listing[api.Message]{ID: func(m api.Message) string { return m.ID }})
	}
	n := 0
	for m, err := range items {
		if err != nil {
			return err
		}
		if n++; n > 1 {
			fmt.Fprintln(a.Out)
		}
		if err := a.printMessage(m); err != nil {
			return err
		}
	}
	if n == 0 {
		a.Notef("Nothing has been said in it yet.")
	}
	return nil
}

// printMessage prints the role and the blocks of a message.
func (a *app) printMessage(m api.Message) error {
	head := m.Role
	if m.Model != "" {
		head += " (" + m.Model + ")"
	}
	about := a.Time(m.CreatedAt)
	if m.Role == api.RoleAssistant {
		about += fmt.Sprintf(" · %s in · %s out", ui.Thousands(m.Usage.InputTokens), ui.Thousands(m.Usage.OutputTokens))
		if m.CostUSD > 0 {
			about += " · " + ui.Dollars(m.CostUSD)
		}
	}
	if m.Status != api.TurnCompleted {
		about += " · " + a.Out.Paint(statusColour(m.Status), ui.Clean(m.Status))
	}
	fmt.Fprintf(a.Out, "%s  %s\n", a.Out.Paint(ui.Bold, ui.Clean(head)), a.Out.Paint(ui.Dim, about))
	for _, b := range m.Content {
		if err := a.printBlock(b); err != nil {
			return err
		}
	}
	for _, f := range m.Attachments {
		fmt.Fprintln(a.Out, a.Out.Paint(ui.Dim, ui.Clean(fmt.Sprintf("attached: %s (%s, %s)", f.Path, f.MediaType, ui.Size(f.Size)))))
	}
	if m.Error != "" {
		fmt.Fprintln(a.Out, a.Out.Paint(ui.Red, ui.CleanLines(m.Error)))
	}
	return nil
}

func (a *app) printBlock(b api.Block) error {
	switch b.Type {
	case api.BlockText:
		out, end := ui.SafeWriter(a.Out)
		if _, err := io.WriteString(out, strings.TrimRight(b.Text, "\n")+"\n"); err != nil {
			return err
		}
		return end()
	case api.BlockToolUse:
		fmt.Fprintln(a.Out, a.Out.Paint(ui.Dim, "⏺ "+ui.Clean(b.Name)+toolSubject(b)))
	case api.BlockToolResult:
		c := ui.Dim
		if b.IsError {
			c = ui.Red
		}
		fmt.Fprintln(a.Out, a.Out.Paint(c, "  ⎿ "+ui.Truncate(ui.Clean(ui.OneLine(b.Text)), 200)))
	case api.BlockThinking:
		fmt.Fprintln(a.Out, a.Out.Paint(ui.Dim, ui.CleanText(strings.TrimRight(b.Text, "\n"))))
	}
	return nil
}

func toolSubject(b api.Block) string {
	if about := aboutCall(b.Input); about != "" {
		return ": " + ui.Truncate(ui.Clean(about), 200)
	}
	return ""
}

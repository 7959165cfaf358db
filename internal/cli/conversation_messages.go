package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) conversationMessages() *cobra.Command {
	var most limit
	cmd := &cobra.Command{
		Use:     "messages [ID]",
		Aliases: []string{"log"},
		Short:   "Print what was said",
		Long: `Print what was asked and answered, oldest first, with the tools that were used. With --limit it is the newest
ones. Without an ID it is the newest conversation.`,
		Example:           "  berth conversation messages\n  berth conversation messages --limit 2 --json",
		Args:              takes(0, 1, "the ID of one conversation"),
		ValidArgsFunction: f.completeConversations(1),
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		return f.oneConversation(args, func(ctx context.Context, c *connection, v api.Conversation) error {
			return f.printMessages(ctx, c, v.ID, int(most))
		})(ctx)
	})
	f.quietly(cmd, "ids")
	limited(f.online(cmd), &most)
	return cmd
}

func (f *frame) printMessages(ctx context.Context, c *connection, id string, most int) error {
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
		items = these(newest, nil)
	}
	if f.json || f.quiet {
		return show(f, items, listing[api.Message]{id: func(m api.Message) string { return m.ID }})
	}
	n := 0
	for m, err := range items {
		if err != nil {
			return err
		}
		if n++; n > 1 {
			fmt.Fprintln(f.out)
		}
		if err := f.printMessage(m); err != nil {
			return err
		}
	}
	if n == 0 {
		f.notef("Nothing has been said in it yet.")
	}
	return nil
}

// printMessage prints who said something, and what.
func (f *frame) printMessage(m api.Message) error {
	head := m.Role
	if m.Model != "" {
		head += " (" + m.Model + ")"
	}
	about := f.when(m.CreatedAt)
	if m.Role == api.RoleAssistant {
		about += fmt.Sprintf(" · %s in · %s out", thousands(m.Usage.InputTokens), thousands(m.Usage.OutputTokens))
		if m.CostUSD > 0 {
			about += " · " + dollars(m.CostUSD)
		}
	}
	if m.Status != api.TurnCompleted {
		about += " · " + f.out.paint(statusColour(m.Status), clean(m.Status))
	}
	fmt.Fprintf(f.out, "%s  %s\n", f.out.paint(bold, clean(head)), f.out.paint(dim, about))
	for _, b := range m.Content {
		if err := f.printBlock(b); err != nil {
			return err
		}
	}
	if m.Error != "" {
		fmt.Fprintln(f.out, f.out.paint(red, cleanLines(m.Error)))
	}
	return nil
}

func (f *frame) printBlock(b api.Block) error {
	switch b.Type {
	case api.BlockText:
		out, end := shownOn(f.out)
		if _, err := io.WriteString(out, strings.TrimRight(b.Text, "\n")+"\n"); err != nil {
			return err
		}
		return end()
	case api.BlockToolUse:
		fmt.Fprintln(f.out, f.out.paint(dim, "⏺ "+clean(b.Name)+callAbout(b)))
	case api.BlockToolResult:
		c := dim
		if b.IsError {
			c = red
		}
		fmt.Fprintln(f.out, f.out.paint(c, "  ⎿ "+cutTo(clean(oneLine(b.Text)), 200)))
	case api.BlockThinking:
		fmt.Fprintln(f.out, f.out.paint(dim, tame(strings.TrimRight(b.Text, "\n"))))
	}
	return nil
}

func callAbout(b api.Block) string {
	if about := aboutCall(b.Input); about != "" {
		return ": " + cutTo(clean(about), 200)
	}
	return ""
}

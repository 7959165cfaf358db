package chat

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) conversationExport() *cobra.Command {
	var file, format string
	cmd := &cobra.Command{
		Use:   "export [ID]",
		Short: "Export a conversation as JSON or Markdown",
		Long: `Print a conversation with all its messages, blocks and tokens, as one JSON document or as Markdown for
people. --output writes it to a file, which appears only when it is complete. The default is the newest
conversation.`,
		Example:           "  berth conversation export --format markdown\n  berth conversation export -o talk.json",
		Args:              ui.Args(0, 1, "the ID of one conversation"),
		ValidArgsFunction: a.completeConversations(1),
		PreRunE:           a.Resolve(remote.ConversationIDs, 1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		switch {
		case format == "":
			format = formatOf(file)
		case format == "md":
			format = "markdown"
		}
		if format != "json" && format != "markdown" {
			return ui.Usagef(cmd, "--format is json or markdown, not %q", format)
		}
		return a.oneConversation(args, func(ctx context.Context, c *remote.Connection, v api.Conversation) error {
			return a.exportConversation(ctx, c, v.ID, format, file)
		})(ctx)
	})
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write (default: stdout)")
	cmd.Flags().StringVar(&format, "format", "", "json or markdown (default: as the file is named, else json)")
	ui.Offer(cmd, "format", []string{"json", "markdown"})
	return a.Online(cmd)
}

func formatOf(file string) string {
	switch filepath.Ext(file) {
	case ".md", ".markdown":
		return "markdown"
	}
	return "json"
}

func (a *app) exportConversation(ctx context.Context, c *remote.Connection, id, format, file string) error {
	d, err := c.Conversations.Export(ctx, id, format)
	if err != nil {
		return err
	}
	defer d.Close()
	if file == "" || file == "-" {
		out, end := ui.SafeWriter(a.Out)
		if _, err := io.Copy(out, d); err != nil {
			return fmt.Errorf("export conversation: %w", err)
		}
		return end()
	}
	n, err := writeWhole(file, d)
	if err != nil {
		return fmt.Errorf("export conversation: %w", err)
	}
	a.Notef("wrote %s (%s)", ui.Clean(file), ui.Size(n))
	return nil
}

// writeWhole writes from to a file. If that fails, an existing file stays unchanged.
func writeWhole(file string, from io.Reader) (n int64, err error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // such as /dev/null, which must not be replaced
		to, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		n, err = io.Copy(to, from)
		return n, firstErr(err, to.Close())
	}
	to, err := os.CreateTemp(filepath.Dir(file), ".berth-export-*")
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(to, from)
	if err = firstErr(err, to.Chmod(0o644), to.Close()); err == nil {
		err = os.Rename(to.Name(), file)
	}
	if err != nil {
		_ = os.Remove(to.Name())
	}
	return n, err
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) fsck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check the database",
		Long: `Check the database: that the stats of each conversation are the sums over its messages, in the database
or in another message store, that the events of each turn are complete, and that no owner has two
sandboxes. Nothing is changed. SQLite can be checked while no server uses it, PostgreSQL at any time.

Exits with 1 if anything is wrong.`,
		Example: "  berth fsck\n  berth fsck --database-url postgres://berth@db/berth --json",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		found, err := a.Fsck(ctx, cfg)
		switch {
		case err != nil:
			return err
		case a.JSON:
			err = ui.WriteJSON(a.Out, found)
		default:
			for _, p := range found.Problems {
				if _, err := fmt.Fprintln(a.Out, "wrong:", ui.Clean(p)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(a.Out, "%d checks, %d conversations with %d messages (%d not delivered yet): %d problems\n",
				found.Checks, found.Conversations, found.Messages, found.Undelivered, len(found.Problems))
		}
		if err == nil && len(found.Problems) > 0 {
			return ui.ExitCode(1)
		}
		return err
	})
	return cmd
}

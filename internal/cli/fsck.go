package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (f *frame) fsck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Prove that the database is as it must be",
		Long: `Prove that the database is as it must be: the stats of every conversation are the sum over its
messages, wherever those are kept, the events of every turn are complete, and no owner has two sandboxes.
Nothing is changed. SQLite can be checked while no server uses it, PostgreSQL at any time.

It exits with 1 if anything is wrong.`,
		Example: "  berth fsck\n  berth fsck --database-url postgres://berth@db/berth --json",
		Args:    takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		found, err := f.Fsck(ctx, cfg)
		switch {
		case err != nil:
			return err
		case f.json:
			err = writeJSON(f.out, found)
		default:
			for _, p := range found.Problems {
				if _, err := fmt.Fprintln(f.out, "wrong:", clean(p)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(f.out, "%d checks, %d conversations with %d messages (%d not delivered yet): %d problems\n",
				found.Checks, found.Conversations, found.Messages, found.Undelivered, len(found.Problems))
		}
		if err == nil && len(found.Problems) > 0 {
			return exited(1)
		}
		return err
	})
	return cmd
}

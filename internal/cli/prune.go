package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) prune() *cobra.Command {
	var want api.PruneVersions
	cmd := &cobra.Command{
		Use:   "prune ID|NAME",
		Short: "Remove old versions of a sandbox's workspace",
		Long: `Remove the versions of a sandbox's workspace that are not among the newest --keep-last, nor the newest of one
of the last --keep-daily days. The newest is always kept, and every kept one stays whole. A terminal is
asked first.`,
		Example:           "  berth prune scratch --keep-last 10 --keep-daily 30 --dry-run\n  berth prune scratch --keep-last 10 --yes",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if want.KeepLast < 0 || want.KeepDaily < 0 || want.KeepLast+want.KeepDaily == 0 {
			return usagef(cmd, "%s needs --keep-last N, --keep-daily DAYS or both", cmd.CommandPath())
		}
		return f.runPrune(ctx, args[0], want)
	})
	cmd.Flags().IntVar(&want.KeepLast, "keep-last", 0, "keep the `N` newest")
	cmd.Flags().IntVar(&want.KeepDaily, "keep-daily", 0, "keep the newest of each of the last `DAYS`")
	cmd.Flags().BoolVarP(&want.DryRun, "dry-run", "n", false, "say which, and do nothing")
	offer(cmd, "keep-last", []string{"10", "100"})
	offer(cmd, "keep-daily", []string{"7", "30"})
	f.confirmed(cmd)
	f.quietly(cmd, "the versions that are removed")
	return f.online(cmd)
}

func (f *frame) runPrune(ctx context.Context, ref string, want api.PruneVersions) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if !want.DryRun {
		if err := f.ask(ctx, fmt.Sprintf("Remove old versions of %s for good?", ref)); err != nil {
			return err
		}
	}
	spin := f.spin("pruning " + clean(ref))
	done, err := c.Sandboxes.Prune(ctx, ref, want)
	spin.stop()
	switch {
	case err != nil:
		return c.known(ctx, ref, err)
	case f.json:
		return writeJSON(f.out, done)
	}
	word := "removed"
	if want.DryRun {
		word = "would remove"
	}
	for _, v := range done.Removed {
		line := clean(v.ID)
		if !f.quiet {
			line = fmt.Sprintf("%s %s (%s)", word, line, f.when(v.CreatedAt))
		}
		if _, err := fmt.Fprintln(f.out, line); err != nil {
			return err
		}
	}
	if f.quiet {
		return nil
	}
	_, err = fmt.Fprintln(f.out, prunedHere(done, word))
	return err
}

// prunedHere is what came of it in numbers.
func prunedHere(done api.Pruned, word string) string {
	text := fmt.Sprintf("%s %s, %s %d", word, plural(len(done.Removed), "version", "versions"), map[bool]string{false: "kept", true: "keep"}[done.DryRun], done.Kept)
	if done.Objects > 0 {
		text += fmt.Sprintf("; freed %s in %s", size(done.Bytes), plural(done.Objects, "object", "objects"))
	}
	if done.Waiting > 0 {
		text += fmt.Sprintf("; %s freed by a prune a day from now", plural(done.Waiting, "object is", "objects are"))
	}
	return text
}

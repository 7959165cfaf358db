package versions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) prune() *cobra.Command {
	var want api.PruneVersions
	cmd := &cobra.Command{
		Use:   "prune ID|NAME",
		Short: "Remove old versions of a sandbox's workspace",
		Long: `Remove old versions of a sandbox's workspace. --keep-last keeps the newest ones, --keep-daily the newest
version of each of the last days. The newest version is always kept, and every version that is kept can
still be restored. At a terminal it asks first.`,
		Example:           "  berth prune scratch --keep-last 10 --keep-daily 30 --dry-run\n  berth prune scratch --keep-last 10 --yes",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		if want.KeepLast < 0 || want.KeepDaily < 0 || want.KeepLast+want.KeepDaily == 0 {
			return ui.Usagef(cmd, "%s needs --keep-last N, --keep-daily DAYS or both", cmd.CommandPath())
		}
		return a.runPrune(ctx, args[0], want)
	})
	cmd.Flags().IntVar(&want.KeepLast, "keep-last", 0, "keep the `N` newest")
	cmd.Flags().IntVar(&want.KeepDaily, "keep-daily", 0, "keep the newest of each of the last `DAYS`")
	cmd.Flags().BoolVarP(&want.DryRun, "dry-run", "n", false, "say which, and do nothing")
	ui.Offer(cmd, "keep-last", []string{"10", "100"})
	ui.Offer(cmd, "keep-daily", []string{"7", "30"})
	a.YesFlag(cmd)
	a.QuietFlag(cmd, "the versions that are removed")
	return a.Online(cmd)
}

func (a *app) runPrune(ctx context.Context, ref string, want api.PruneVersions) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if !want.DryRun {
		if err := a.Confirm(ctx, fmt.Sprintf("Remove old versions of %s for good?", ref)); err != nil {
			return err
		}
	}
	spin := a.Spin("pruning " + ui.Clean(ref))
	done, err := c.Sandboxes.Prune(ctx, ref, want)
	spin.Stop()
	switch {
	case err != nil:
		return c.ExistingHint(ctx, ref, err)
	case a.JSON:
		return ui.WriteJSON(a.Out, done)
	}
	word := "removed"
	if want.DryRun {
		word = "would remove"
	}
	for _, v := range done.Removed {
		line := ui.Clean(v.ID)
		if !a.Quiet {
			line = fmt.Sprintf("%s %s (%s)", word, line, a.Time(v.CreatedAt))
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	if a.Quiet {
		return nil
	}
	_, err = fmt.Fprintln(a.Out, pruneSummary(done, word))
	return err
}

// pruneSummary returns the result in numbers.
func pruneSummary(done api.Pruned, word string) string {
	text := fmt.Sprintf("%s %s, %s %d", word, ui.Plural(len(done.Removed), "version", "versions"), map[bool]string{false: "kept", true: "keep"}[done.DryRun], done.Kept)
	if done.Objects > 0 {
		text += fmt.Sprintf("; freed %s in %s", ui.Size(done.Bytes), ui.Plural(done.Objects, "object", "objects"))
	}
	if done.Waiting > 0 {
		text += fmt.Sprintf("; %s freed by a prune a day from now", ui.Plural(done.Waiting, "object is", "objects are"))
	}
	return text
}

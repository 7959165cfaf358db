package versions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspacePrune() *cobra.Command {
	var p pruneJob
	cmd := &cobra.Command{
		Use:   "prune [DIR]",
		Short: "Remove old versions",
		Long: `Remove all versions except the newest --keep-last, and the newest of each of the last --keep-daily days.
The newest version is always kept, and every version that is kept can still be restored. At a terminal
it asks first.

Data that only removed versions had is deleted a day later, by the next prune, because a running push
may still need it. Pushes may run at the same time.`,
		Example: `  berth workspace prune --store /backup/versions --keep-last 10 --dry-run
  berth workspace prune --store s3://bucket/project --keep-last 10 --keep-daily 30 --yes`,
		Args:              ui.Args(0, 1, "at most one directory"),
		ValidArgsFunction: completeDirs,
	}
	p.storeFlags = a.storeFlags(cmd)
	cmd.Flags().IntVar(&p.policy.Last, "keep-last", 0, "keep the newest `N`")
	cmd.Flags().IntVar(&p.policy.Daily, "keep-daily", 0, "keep the newest of each of the last `D` days")
	cmd.Flags().BoolVarP(&p.dry, "dry-run", "n", false, "say what would be removed, and change nothing")
	ui.Offer(cmd, "keep-last", []string{})
	ui.Offer(cmd, "keep-daily", []string{})
	a.YesFlag(cmd)
	a.QuietFlag(cmd, "the versions that were removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.policy.Last < 0 || p.policy.Daily < 0 {
			return ui.Usagef(cmd, "--keep-last and --keep-daily take whole numbers, 0 or more")
		}
		if p.policy == (workspace.Policy{}) {
			return ui.Usagef(cmd, "%s needs --keep-last, --keep-daily or both", cmd.CommandPath())
		}
		return a.withOptionalDir(p.run)(cmd, args)
	}
	return cmd
}

// pruneJob holds the flags of a prune.
type pruneJob struct {
	*storeFlags
	policy workspace.Policy
	dry    bool
}

// prunedJSON is the JSON output of berth workspace prune.
type prunedJSON struct {
	DryRun bool `json:"dry_run"`
	workspace.Pruned
}

func (p *pruneJob) run(ctx context.Context) error {
	open := p.openToWrite
	if p.dry {
		open = p.open
	}
	repo, err := open(ctx)
	if err == nil && !p.dry {
		err = p.askFirst(ctx, repo)
	}
	if err != nil {
		return err
	}
	done, err := p.prune(ctx, repo, p.dry)
	if err != nil {
		return err
	}
	return p.printResult(done)
}

// askFirst asks at a terminal, with the number of versions that would be removed.
func (p *pruneJob) askFirst(ctx context.Context, repo *workspace.Repo) error {
	if p.a.Yes || !ui.IsTerminal(p.a.Stdin) {
		return nil
	}
	plan, err := p.prune(ctx, repo, true)
	if err != nil || len(plan.Removed) == 0 {
		return err
	}
	n := len(plan.Removed)
	return p.a.Confirm(ctx, fmt.Sprintf("Remove %s of %d for good?", ui.Plural(n, "version", "versions"), n+len(plan.Kept)))
}

func (p *pruneJob) prune(ctx context.Context, repo *workspace.Repo, dry bool) (*workspace.Pruned, error) {
	spin := p.a.Spin("pruning")
	defer spin.Stop()
	done, err := repo.Prune(ctx, workspace.PruneOptions{Policy: p.policy, DryRun: dry})
	return done, storeHint(err)
}

func (p *pruneJob) printResult(done *workspace.Pruned) error {
	switch {
	case p.a.JSON:
		done.Kept, done.Removed = append([]workspace.Version{}, done.Kept...), append([]workspace.Version{}, done.Removed...)
		return ui.WriteJSON(p.a.Out, prunedJSON{p.dry, *done})
	case p.a.Quiet:
		for _, v := range done.Removed {
			if err := p.a.Line(v.ID); err != nil {
				return err
			}
		}
		return nil
	}
	word, kept := "removed", "kept"
	if p.dry {
		word, kept = "would remove", "keep"
	}
	for _, v := range done.Removed {
		if _, err := fmt.Fprintf(p.a.Out, "%s %s (%s)\n", word, ui.Clean(v.ID), p.a.Time(v.At)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(p.a.Out, localPruneSummary(done, word, kept))
	return err
}

// localPruneSummary returns the result in numbers.
func localPruneSummary(done *workspace.Pruned, word, kept string) string {
	text := fmt.Sprintf("%s %s, %s %d", word, ui.Plural(len(done.Removed), "version", "versions"), kept, len(done.Kept))
	if done.Packs > 0 {
		text += fmt.Sprintf("; freed %s in %s", ui.Size(done.Bytes), ui.Plural(done.Packs, "object", "objects"))
	}
	if done.Waiting > 0 {
		text += fmt.Sprintf("; %s freed by a prune a day from now", ui.Plural(done.Waiting, "object is", "objects are"))
	}
	return text
}

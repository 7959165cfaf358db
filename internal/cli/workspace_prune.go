package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspacePrune() *cobra.Command {
	var p pruning
	cmd := &cobra.Command{
		Use:   "prune [DIR]",
		Short: "Remove old versions",
		Long: `Remove all versions but the newest --keep-last, and the newest of each day of the last --keep-daily
days. The newest version always stays, and no version that stays loses anything. A terminal is asked
first.

What only removed versions had is deleted a day later, by the next prune: a push that is under way may
still need it. Pushes may go on meanwhile.`,
		Example: `  berth workspace prune --store /backup/versions --keep-last 10 --dry-run
  berth workspace prune --store s3://bucket/project --keep-last 10 --keep-daily 30 --yes`,
		Args:              takes(0, 1, "at most one directory"),
		ValidArgsFunction: folders,
	}
	p.depot = f.depot(cmd)
	cmd.Flags().IntVar(&p.policy.Last, "keep-last", 0, "keep the newest `N`")
	cmd.Flags().IntVar(&p.policy.Daily, "keep-daily", 0, "keep the newest of each of the last `D` days")
	cmd.Flags().BoolVarP(&p.dry, "dry-run", "n", false, "say what would be removed, and change nothing")
	offer(cmd, "keep-last", []string{})
	offer(cmd, "keep-daily", []string{})
	f.confirmed(cmd)
	f.quietly(cmd, "the versions that were removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.policy.Last < 0 || p.policy.Daily < 0 {
			return usagef(cmd, "--keep-last and --keep-daily take whole numbers, 0 or more")
		}
		if p.policy == (workspace.Policy{}) {
			return usagef(cmd, "%s needs --keep-last, --keep-daily or both", cmd.CommandPath())
		}
		return f.perhaps(p.run)(cmd, args)
	}
	return cmd
}

// pruning is what the flags of a prune say.
type pruning struct {
	*depot
	policy workspace.Policy
	dry    bool
}

// prunedJSON is what --json prints.
type prunedJSON struct {
	DryRun bool `json:"dry_run"`
	workspace.Pruned
}

func (p *pruning) run(ctx context.Context) error {
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
	return p.tell(done)
}

// askFirst finds out how many versions would go, where somebody is there to be asked.
func (p *pruning) askFirst(ctx context.Context, repo *workspace.Repo) error {
	if p.f.yes || !isTerminal(p.f.Stdin) {
		return nil
	}
	plan, err := p.prune(ctx, repo, true)
	if err != nil || len(plan.Removed) == 0 {
		return err
	}
	n := len(plan.Removed)
	return p.f.ask(ctx, fmt.Sprintf("Remove %s of %d for good?", plural(n, "version", "versions"), n+len(plan.Kept)))
}

func (p *pruning) prune(ctx context.Context, repo *workspace.Repo, dry bool) (*workspace.Pruned, error) {
	spin := p.f.spin("pruning")
	defer spin.stop()
	done, err := repo.Prune(ctx, workspace.PruneOptions{Policy: p.policy, DryRun: dry})
	return done, storeHint(err)
}

func (p *pruning) tell(done *workspace.Pruned) error {
	switch {
	case p.f.json:
		done.Kept, done.Removed = append([]workspace.Version{}, done.Kept...), append([]workspace.Version{}, done.Removed...)
		return writeJSON(p.f.out, prunedJSON{p.dry, *done})
	case p.f.quiet:
		for _, v := range done.Removed {
			if err := p.f.line(v.ID); err != nil {
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
		if _, err := fmt.Fprintf(p.f.out, "%s %s (%s)\n", word, clean(v.ID), p.f.when(v.At)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(p.f.out, prunedInShort(done, word, kept))
	return err
}

// prunedInShort is what came of it in numbers.
func prunedInShort(done *workspace.Pruned, word, kept string) string {
	text := fmt.Sprintf("%s %s, %s %d", word, plural(len(done.Removed), "version", "versions"), kept, len(done.Kept))
	if done.Packs > 0 {
		text += fmt.Sprintf("; freed %s in %s", size(done.Bytes), plural(done.Packs, "object", "objects"))
	}
	if done.Waiting > 0 {
		text += fmt.Sprintf("; %s freed by a prune a day from now", plural(done.Waiting, "object is", "objects are"))
	}
	return text
}

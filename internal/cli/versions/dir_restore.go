package versions

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceRestore() *cobra.Command {
	var version, into string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore a version into a directory",
		Long: `Make a directory equal to a version, by default the newest; a missing directory is created. Files that
the version does not have are deleted, except those that .berthignore lists. At a terminal it asks first
if that would lose changes that were never saved.

The store does not change: after a restore of an older version, the next push saves it as a new version.`,
		Example: `  berth workspace restore --store /backup/versions ~/project
  berth workspace restore --store /backup/versions --version 20260801T1200 ~/project
  berth workspace restore --store s3://bucket/project --into /tmp/look`,
		ValidArgsFunction: completeDirs,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if into != "" {
			return ui.Args(0, 1, "at most one directory with --into")(cmd, args)
		}
		return ui.Args(1, 1, "one directory")(cmd, args)
	}
	h := a.localSync(cmd)
	cmd.Flags().StringVar(&into, "into", "", "restore into this `DIRECTORY` instead, and leave DIR alone")
	h.versionFlag(cmd, &version)
	a.YesFlag(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		if into == "" {
			into = args[0]
		}
		return h.restore(ctx, into, version)
	})
	return cmd
}

func (h *localSync) restore(ctx context.Context, path, version string) error {
	if err := h.beginInto(ctx, path); err != nil {
		return err
	}
	defer h.tree.Close()
	version, err := wholeVersion(ctx, h.repo, version)
	if err != nil {
		return err
	}
	if err := h.confirmLoss(ctx); err != nil {
		return err
	}
	began := h.a.Now()
	res, err := h.work(ctx, "restoring", func(repo *workspace.Repo) (*workspace.Result, error) {
		return repo.Restore(ctx, h.tree.Dir, h.base, version, workspace.PullOptions{Ignore: h.tree.Ignore})
	})
	if err != nil {
		return versionHint(ctx, h.repo, version, err)
	}
	what := "restored version " + res.Version + counts(res.Stats)
	if err := h.a.printLocalSync(res, what, h.a.Now().Sub(began)); err != nil {
		return err
	}
	if res.Version != res.Index.ID {
		h.a.Notef("The newest version is still %s: 'berth workspace push' saves this one as the newest.", ui.Clean(res.Index.ID))
	}
	return nil
}

// confirmLoss asks at a terminal before unsaved changes are lost.
func (h *localSync) confirmLoss(ctx context.Context) error {
	if h.a.Yes || !ui.IsTerminal(h.a.Stdin) {
		return nil
	}
	var saved *workspace.Manifest
	if h.base != nil {
		saved = &h.base.Manifest
	}
	changed, err := workspace.Changes(ctx, h.tree.Dir, saved, h.base, h.tree.Ignore)
	if err != nil || len(changed.Changes) == 0 {
		return err
	}
	since := "was never saved here"
	if h.base != nil {
		since = "was changed since version " + h.base.ID
	}
	return h.a.Confirm(ctx, fmt.Sprintf("Lose what %s in %s: %s?", since, h.tree.Path, firstChanges(changed.Changes)))
}

// firstChanges returns the first changes and the number of the others.
func firstChanges(changes []workspace.Change) string {
	const most = 3
	var names []string
	for _, c := range changes[:min(most, len(changes))] {
		names = append(names, c.Path+" ("+string(c.Kind)+")")
	}
	text := strings.Join(names, ", ")
	if rest := len(changes) - most; rest > 0 {
		text += " and " + ui.Plural(rest, "more", "more")
	}
	return text
}

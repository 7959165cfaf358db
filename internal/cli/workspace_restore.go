package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceRestore() *cobra.Command {
	var version, into string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a directory exactly what a version is",
		Long: `Make a directory exactly what a version is, the newest unless --version names another. The directory
is made if it is not there. Files that the version does not have are deleted, but for those that
.berthignore names; a terminal is asked first when that would lose changes that were never saved.

Nothing in the store changes: after an older version was restored, the next push saves it as a new
one.`,
		Example: `  berth workspace restore --store /backup/versions ~/project
  berth workspace restore --store /backup/versions --version 20260801T1200 ~/project
  berth workspace restore --store s3://bucket/project --into /tmp/look`,
		ValidArgsFunction: folders,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if into != "" {
			return takes(0, 1, "at most one directory with --into")(cmd, args)
		}
		return takes(1, 1, "one directory")(cmd, args)
	}
	h := f.byHand(cmd)
	cmd.Flags().StringVar(&into, "into", "", "restore into this `DIRECTORY` instead, and leave DIR alone")
	h.versionFlag(cmd, &version)
	f.confirmed(cmd)
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if into == "" {
			into = args[0]
		}
		return h.restore(ctx, into, version)
	})
	return cmd
}

func (h *byHand) restore(ctx context.Context, path, version string) error {
	if err := h.beginInto(ctx, path); err != nil {
		return err
	}
	defer h.tree.close()
	version, err := wholeVersion(ctx, h.repo, version)
	if err != nil {
		return err
	}
	if err := h.askToLose(ctx); err != nil {
		return err
	}
	began := h.f.now()
	res, err := h.work(ctx, "restoring", func(repo *workspace.Repo) (*workspace.Result, error) {
		return repo.Restore(ctx, h.tree.dir, h.base, version, workspace.PullOptions{Ignore: h.tree.ignore})
	})
	if err != nil {
		return aboutVersion(ctx, h.repo, version, err)
	}
	what := "restored version " + res.Version + counts(res.Stats)
	if err := h.f.tellSync(res, what, h.f.now().Sub(began)); err != nil {
		return err
	}
	if res.Version != res.Index.ID {
		h.f.notef("The newest version is still %s: 'berth workspace push' saves this one as the newest.", clean(res.Index.ID))
	}
	return nil
}

// askToLose asks whoever sits at the terminal before changes are lost that no version has.
func (h *byHand) askToLose(ctx context.Context) error {
	if h.f.yes || !isTerminal(h.f.Stdin) {
		return nil
	}
	var saved *workspace.Manifest
	if h.base != nil {
		saved = &h.base.Manifest
	}
	changed, err := workspace.Changes(ctx, h.tree.dir, saved, h.base, h.tree.ignore)
	if err != nil || len(changed.Changes) == 0 {
		return err
	}
	since := "was never saved here"
	if h.base != nil {
		since = "was changed since version " + h.base.ID
	}
	return h.f.ask(ctx, fmt.Sprintf("Lose what %s in %s: %s?", since, h.tree.path, fewOf(changed.Changes)))
}

// fewOf names the first of some changes, and counts the rest.
func fewOf(changes []workspace.Change) string {
	const most = 3
	var names []string
	for _, c := range changes[:min(most, len(changes))] {
		names = append(names, c.Path+" ("+string(c.Kind)+")")
	}
	text := strings.Join(names, ", ")
	if rest := len(changes) - most; rest > 0 {
		text += " and " + plural(rest, "more", "more")
	}
	return text
}

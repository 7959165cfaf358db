package versions

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) diff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff ID|NAME VERSION [VERSION]",
		Short: "Compare two versions of a sandbox's workspace",
		Long: `Compare two versions of a sandbox's workspace, or one version with the newest: A is added, M modified, D
deleted, R renamed, from the first to the second. Changes since the last save are in no version; 'berth
sync' saves them.`,
		Example:           "  berth diff scratch 1a2b3c\n  berth diff scratch 1a2b3c 4d5e6f\n  berth diff scratch 1a2b3c -q",
		Args:              ui.Args(2, 3, "the ID or NAME of one sandbox, and one or two versions"),
		RunE:              ui.Run(a.runDiff),
		ValidArgsFunction: a.completeVersions(2),
		PreRunE:           a.ResolveSandboxes(1),
	}
	a.QuietFlag(cmd, "the paths that differ")
	return a.Online(cmd)
}

func (a *app) runDiff(ctx context.Context, args []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	diff, err := diffVersions(ctx, c, args[0], args[1:])
	switch {
	case err != nil:
		return c.ExistingHint(ctx, args[0], err)
	case a.JSON:
		return ui.WriteJSON(a.Out, diff)
	}
	return a.printVersionDiff(diff)
}

func diffVersions(ctx context.Context, c *remote.Connection, ref string, typed []string) (diff api.VersionDiff, err error) {
	ids := make([]string, len(typed))
	for i := range typed {
		if ids[i], err = findVersion(ctx, c, ref, typed[i]); err != nil {
			return diff, err
		}
	}
	if len(ids) == 1 {
		for v, err := range c.Sandboxes.Versions(ctx, ref) {
			if err != nil {
				return diff, err
			}
			ids = append(ids, v.ID)
			break
		}
	}
	return c.Sandboxes.Diff(ctx, ref, ids[0], ids[len(ids)-1])
}

// printVersionDiff prints a line for each path, and a summary.
func (a *app) printVersionDiff(d api.VersionDiff) error {
	out := difference{From: d.From, To: d.To, Added: d.Added, Modified: d.Modified, Deleted: d.Deleted, Renamed: d.Renamed, Bytes: d.Bytes}
	for _, p := range d.Paths {
		out.Changes = append(out.Changes, pathChange(p))
	}
	if err := a.printDifference(out); err != nil {
		return err
	}
	if d.Truncated {
		a.Notef("There are more paths than these; the sum is of all.")
	}
	return nil
}

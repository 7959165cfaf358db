package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) diff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff ID|NAME VERSION [VERSION]",
		Short: "Compare two versions of a sandbox's workspace",
		Long: `Compare two versions of a sandbox's workspace, or one with the newest: A is added, M modified, D deleted,
R renamed, each as seen from the first. What was changed since the last save is in no version; 'berth sync' saves it.`,
		Example:           "  berth diff scratch 1a2b3c\n  berth diff scratch 1a2b3c 4d5e6f\n  berth diff scratch 1a2b3c -q",
		Args:              takes(2, 3, "the ID or NAME of one sandbox, and one or two versions"),
		RunE:              run(f.runDiff),
		ValidArgsFunction: f.completeVersions(2),
	}
	f.quietly(cmd, "the paths that differ")
	return f.online(cmd)
}

func (f *frame) runDiff(ctx context.Context, args []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	diff, err := c.diff(ctx, args[0], args[1:])
	switch {
	case err != nil:
		return c.known(ctx, args[0], err)
	case f.json:
		return writeJSON(f.out, diff)
	}
	return f.tellVersionDiff(diff)
}

func (c *connection) diff(ctx context.Context, ref string, typed []string) (diff api.VersionDiff, err error) {
	ids := make([]string, len(typed))
	for i := range typed {
		if ids[i], err = c.version(ctx, ref, typed[i]); err != nil {
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

// tellVersionDiff prints a line for each path, and the sum.
func (f *frame) tellVersionDiff(d api.VersionDiff) error {
	told := difference{From: d.From, To: d.To, Added: d.Added, Modified: d.Modified, Deleted: d.Deleted, Renamed: d.Renamed, Bytes: d.Bytes}
	for _, p := range d.Paths {
		told.Changes = append(told.Changes, pathChange(p))
	}
	if err := f.tellDifference(told); err != nil {
		return err
	}
	if d.Truncated {
		f.notef("There are more paths than these; the sum is of all.")
	}
	return nil
}

package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceVersions() *cobra.Command {
	var most limit
	cmd := &cobra.Command{
		Use:     "versions [DIR]",
		Aliases: []string{"ls"},
		Short:   "List the versions of a workspace",
		Long: `List the versions of a workspace, the newest first. With DIR, a star marks the one that the directory
was last the same as.

Wherever a version is asked for, the beginning or the end of its name is enough.`,
		Example: `  berth workspace versions --store /backup/versions
  berth workspace versions --store s3://bucket/project --limit 10 ~/project
  berth workspace versions --store /backup/versions -q`,
		Args:              takes(0, 1, "at most one directory"),
		ValidArgsFunction: folders,
	}
	d := f.depot(cmd)
	cmd.RunE = run(func(ctx context.Context, args []string) error { return d.versions(ctx, args, int(most)) })
	limited(cmd, &most)
	f.quietly(cmd, "their names")
	return cmd
}

func (d *depot) versions(ctx context.Context, args []string, most int) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	l := listing[workspace.Version]{
		columns: []string{"VERSION", "SAVED", "FILES", "SIZE", "NOTE"},
		row: func(v workspace.Version) []cell {
			return []cell{{v.ID, bold}, plain(d.f.when(v.At)), plain(strconv.Itoa(v.Files)), plain(size(v.Bytes)), plain(orDash(v.Note))}
		},
		id:    func(v workspace.Version) string { return v.ID },
		empty: "Nothing is saved in " + clean(where(repo)) + " yet: 'berth workspace push' saves the first version.",
		limit: most,
	}
	if len(args) > 0 {
		if err := d.mark(args[0], &l); err != nil {
			return err
		}
	}
	return storeHint(show(d.f, repo.Versions(ctx), l))
}

// mark adds a column with a star for the version that a directory was last the same as.
func (d *depot) mark(dir string, l *listing[workspace.Version]) error {
	t, err := d.f.openTree(dir)
	if err != nil {
		return err
	}
	defer t.close()
	row := l.row
	l.columns = append([]string{"HERE"}, l.columns...)
	l.row = func(v workspace.Version) []cell {
		star := cell{text: ""}
		if t.state.is(v) {
			star = cell{"*", green}
		}
		return append([]cell{star}, row(v)...)
	}
	return nil
}

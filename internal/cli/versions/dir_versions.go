package versions

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceVersions() *cobra.Command {
	var most ui.Limit
	cmd := &cobra.Command{
		Use:     "versions [DIR]",
		Aliases: []string{"ls"},
		Short:   "List the versions of a workspace",
		Long: `List the versions of a workspace, newest first. With DIR, a star marks the version that the directory
was last synced with.

Instead of the id of a version, its beginning or its end is enough.`,
		Example: `  berth workspace versions --store /backup/versions
  berth workspace versions --store s3://bucket/project --limit 10 ~/project
  berth workspace versions --store /backup/versions -q`,
		Args:              ui.Args(0, 1, "at most one directory"),
		ValidArgsFunction: completeDirs,
	}
	d := a.storeFlags(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error { return d.versions(ctx, args, int(most)) })
	a.WideFlag(cmd)
	ui.LimitFlag(cmd, &most)
	a.QuietFlag(cmd, "their names")
	return cmd
}

func (d *storeFlags) versions(ctx context.Context, args []string, most int) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	l := ui.Listing[workspace.Version]{
		Columns: []string{"VERSION", "SAVED", "FILES", "SIZE", "NOTE"},
		Drop:    []string{"FILES"},
		Row: func(v workspace.Version) []ui.Cell {
			return []ui.Cell{ui.Coloured(d.a.ShortVersion(v.ID), ui.Bold), ui.Plain(d.a.Time(v.At)),
				ui.Plain(strconv.Itoa(v.Files)), ui.Plain(ui.Size(v.Bytes)), ui.Plain(ui.OrDash(v.Note))}
		},
		ID:    func(v workspace.Version) string { return v.ID },
		Empty: "Nothing is saved in " + ui.Clean(repo.Location()) + " yet: 'berth workspace push' saves the first version.",
		Limit: most,
	}
	if len(args) > 0 {
		if err := d.mark(args[0], &l); err != nil {
			return err
		}
	}
	return storeHint(ui.Show(d.a.UI, repo.Versions(ctx), l))
}

// mark adds a column with a star for the version that the directory was last in sync with.
func (d *storeFlags) mark(dir string, l *ui.Listing[workspace.Version]) error {
	t, err := workspace.OpenLocal(dir, d.a.localOptions(false))
	if err != nil {
		return err
	}
	defer t.Close()
	row := l.Row
	l.Columns = append([]string{"HERE"}, l.Columns...)
	l.Row = func(v workspace.Version) []ui.Cell {
		star := ui.Cell{Text: ""}
		if t.Is(v) {
			star = ui.Coloured("*", ui.Green)
		}
		return append([]ui.Cell{star}, row(v)...)
	}
	return nil
}

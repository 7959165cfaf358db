package versions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceShow() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "show [DIR]",
		Short: "Show what a version changed",
		Long: `Show one version, by default the newest, and its changes since the version before it: A for added, M for
modified, D for deleted, R for renamed.`,
		Example: `  berth workspace show --store /backup/versions
  berth workspace show --store /backup/versions --version 20260801T1200 --json`,
		Args:              ui.Args(0, 1, "at most one directory"),
		ValidArgsFunction: completeDirs,
	}
	d := a.storeFlags(cmd)
	d.versionFlag(cmd, &version)
	a.QuietFlag(cmd, "the paths that it changed")
	cmd.RunE = a.withOptionalDir(func(ctx context.Context) error { return d.show(ctx, version) })
	return cmd
}

// shownVersion is the JSON output of berth workspace show.
type shownVersion struct {
	Version workspace.Version `json:"version"`
	difference
}

func (d *storeFlags) show(ctx context.Context, typed string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	v, diff, err := compareVersions(ctx, repo, "", typed)
	switch {
	case err != nil:
		return err
	case d.a.JSON:
		return ui.WriteJSON(d.a.Out, shownVersion{v, diff})
	case !d.a.Quiet:
		if _, err := fmt.Fprintln(d.a.Out, d.a.versionText(v)); err != nil {
			return err
		}
	}
	return d.a.printDifference(diff)
}

// versionText returns one line about a version, and a second one with its note if it has one.
func (a *app) versionText(v workspace.Version) string {
	text := fmt.Sprintf("%s  saved %s, %s, %s", a.Out.Paint(ui.Bold, ui.Clean(v.ID)), a.Time(v.At), ui.Plural(v.Files, "file", "files"), ui.Size(v.Bytes))
	if v.Note != "" {
		text += "\n" + ui.Clean(v.Note)
	}
	return text
}

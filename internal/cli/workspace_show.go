package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceShow() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "show [DIR]",
		Short: "Show what a version changed",
		Long: `Show one version, the newest unless --version names another, and what it changed against the one
before it: A for added, M for modified, D for deleted, R for renamed.`,
		Example: `  berth workspace show --store /backup/versions
  berth workspace show --store /backup/versions --version 20260801T1200 --json`,
		Args:              takes(0, 1, "at most one directory"),
		ValidArgsFunction: folders,
	}
	d := f.depot(cmd)
	d.versionFlag(cmd, &version)
	f.quietly(cmd, "the paths that it changed")
	cmd.RunE = f.perhaps(func(ctx context.Context) error { return d.show(ctx, version) })
	return cmd
}

// shownVersion is what --json prints of one version.
type shownVersion struct {
	Version workspace.Version `json:"version"`
	difference
}

func (d *depot) show(ctx context.Context, typed string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	v, diff, err := between(ctx, repo, "", typed)
	switch {
	case err != nil:
		return err
	case d.f.json:
		return writeJSON(d.f.out, shownVersion{v, diff})
	case !d.f.quiet:
		if _, err := fmt.Fprintln(d.f.out, d.f.aboutOne(v)); err != nil {
			return err
		}
	}
	return d.f.tellDifference(diff)
}

// aboutOne is a version in a line, and its note in another.
func (f *frame) aboutOne(v workspace.Version) string {
	text := fmt.Sprintf("%s  saved %s, %s, %s", f.out.paint(bold, clean(v.ID)), f.when(v.At), plural(v.Files, "file", "files"), size(v.Bytes))
	if v.Note != "" {
		text += "\n" + clean(v.Note)
	}
	return text
}

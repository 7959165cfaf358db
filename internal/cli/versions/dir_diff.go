package versions

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceDiff() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "diff [DIR]",
		Short: "Compare two versions, or a directory with one",
		Long: `Compare a directory, as it is now, with the version that it was last synced with: the changes that
'push' would save. --from compares it with another version; --from and --to compare two versions.
Without a directory, --to is by default the newest version, and --from the one before --to.

A is added, M modified, D deleted and R renamed, from the first to the second.`,
		Example: `  berth workspace diff --store /backup/versions ~/project
  berth workspace diff --store /backup/versions --from 20260801T1200 ~/project
  berth workspace diff --store /backup/versions --from 20260801T1200 --to 20260802T0900`,
		Args:              ui.Args(0, 1, "at most one directory"),
		ValidArgsFunction: completeDirs,
	}
	d := a.storeFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `VERSION` to compare with")
	cmd.Flags().StringVar(&to, "to", "", "the `VERSION` that is compared (default: the directory as it is)")
	d.completeVersions(cmd, "from")
	d.completeVersions(cmd, "to")
	a.QuietFlag(cmd, "the paths that differ")
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		if len(args) > 0 && to == "" {
			return d.diffTree(ctx, args[0], from)
		}
		return d.diffVersions(ctx, from, to)
	})
	return cmd
}

func (d *storeFlags) diffVersions(ctx context.Context, from, to string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	_, diff, err := compareVersions(ctx, repo, from, to)
	if err != nil {
		return err
	}
	return d.a.showDifference(diff)
}

// compareVersions compares two versions. By default to is the newest one, and from the version before to.
func compareVersions(ctx context.Context, repo *workspace.Repo, from, to string) (v workspace.Version, diff difference, err error) {
	v, toManifest, err := oneVersion(ctx, repo, to)
	if err != nil {
		return v, diff, err
	}
	if from == "" {
		if from, err = previousVersion(ctx, repo, v.ID); err != nil {
			return v, diff, err
		}
	}
	var fromManifest *workspace.Manifest
	if from != "" {
		var fromVersion workspace.Version
		if fromVersion, fromManifest, err = oneVersion(ctx, repo, from); err != nil {
			return v, diff, err
		}
		from = fromVersion.ID
	}
	return v, differenceOf(from, v.ID, workspace.Diff(fromManifest, toManifest)), nil
}

// oneVersion returns the version for a part of its id, or the newest if typed is empty.
func oneVersion(ctx context.Context, repo *workspace.Repo, typed string) (v workspace.Version, m *workspace.Manifest, err error) {
	id, err := wholeVersion(ctx, repo, typed)
	if err != nil {
		return v, nil, err
	}
	if v, m, err = repo.Version(ctx, id); err != nil {
		return v, nil, versionHint(ctx, repo, id, err)
	}
	return v, m, nil
}

// previousVersion returns the id of the version that was saved before another one, or the empty string for the first.
func previousVersion(ctx context.Context, repo *workspace.Repo, id string) (string, error) {
	past := false
	for v, err := range repo.Versions(ctx) {
		if err != nil || past {
			return v.ID, storeHint(err)
		}
		past = v.ID == id
	}
	return "", nil
}

// diffTree compares a directory with a version. By default it is the version that the directory was last in sync with,
// or the newest one if that is unknown.
func (d *storeFlags) diffTree(ctx context.Context, path, from string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	t, err := workspace.OpenLocal(path, d.a.localOptions(false))
	if err != nil {
		return err
	}
	defer t.Close()
	base, err := t.Base(ctx, repo)
	if err != nil {
		return err
	}
	then := base
	if base == nil || from != "" {
		v, m, err := oneVersion(ctx, repo, from)
		if err != nil {
			return err
		}
		then = &workspace.Index{Manifest: *m, Stamps: make([]workspace.Stamp, len(m.Entries))}
		then.ID = v.ID
	}
	if base == nil {
		base = then
	}
	diff, err := workspace.Changes(ctx, t.Dir, &then.Manifest, base, t.Ignore)
	if err != nil {
		return err
	}
	return d.a.showDifference(differenceOf(then.ID, "", diff))
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceDiff() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "diff [DIR]",
		Short: "Compare two versions, or a directory with one",
		Long: `Compare a directory, as it is now, with the version it was last the same as: what 'push' would save.
With --from it is compared with that version, and with --from and --to these two are compared. Without
a directory --to is the newest version unless it is given, and --from the one before that.

A is added, M modified, D deleted and R renamed, each as seen from the first of the two.`,
		Example: `  berth workspace diff --store /backup/versions ~/project
  berth workspace diff --store /backup/versions --from 20260801T1200 ~/project
  berth workspace diff --store /backup/versions --from 20260801T1200 --to 20260802T0900`,
		Args:              takes(0, 1, "at most one directory"),
		ValidArgsFunction: folders,
	}
	d := f.depot(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `VERSION` to compare with")
	cmd.Flags().StringVar(&to, "to", "", "the `VERSION` that is compared (default: the directory as it is)")
	d.completeVersions(cmd, "from")
	d.completeVersions(cmd, "to")
	f.quietly(cmd, "the paths that differ")
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if len(args) > 0 && to == "" {
			return d.diffTree(ctx, args[0], from)
		}
		return d.diffVersions(ctx, from, to)
	})
	return cmd
}

func (d *depot) diffVersions(ctx context.Context, from, to string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	_, diff, err := between(ctx, repo, from, to)
	if err != nil {
		return err
	}
	return d.f.showDifference(diff)
}

// between compares a version, the newest by default, with another, the one before it by default.
func between(ctx context.Context, repo *workspace.Repo, from, to string) (v workspace.Version, diff difference, err error) {
	v, there, err := oneVersion(ctx, repo, to)
	if err != nil {
		return v, diff, err
	}
	if from == "" {
		if from, err = before(ctx, repo, v.ID); err != nil {
			return v, diff, err
		}
	}
	var here *workspace.Manifest
	if from != "" {
		var was workspace.Version
		if was, here, err = oneVersion(ctx, repo, from); err != nil {
			return v, diff, err
		}
		from = was.ID
	}
	return v, differenceOf(from, v.ID, workspace.Diff(here, there)), nil
}

// oneVersion is the version that a person means, the newest by default.
func oneVersion(ctx context.Context, repo *workspace.Repo, typed string) (v workspace.Version, m *workspace.Manifest, err error) {
	id, err := wholeVersion(ctx, repo, typed)
	if err != nil {
		return v, nil, err
	}
	if v, m, err = repo.Version(ctx, id); err != nil {
		return v, nil, aboutVersion(ctx, repo, id, err)
	}
	return v, m, nil
}

// before is the version that was saved before another one, of those there are; empty for the first.
func before(ctx context.Context, repo *workspace.Repo, id string) (string, error) {
	past := false
	for v, err := range repo.Versions(ctx) {
		if err != nil || past {
			return v.ID, storeHint(err)
		}
		past = v.ID == id
	}
	return "", nil
}

// diffTree compares a directory with a version, by default the one it was last the same as, or else the
// newest.
func (d *depot) diffTree(ctx context.Context, path, from string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	t, err := d.f.openTree(path)
	if err != nil {
		return err
	}
	defer t.close()
	base, err := t.base(ctx, repo)
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
	diff, err := workspace.Changes(ctx, t.dir, &then.Manifest, base, t.ignore)
	if err != nil {
		return err
	}
	return d.f.showDifference(differenceOf(then.ID, "", diff))
}

package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Prove that every version can be restored",
		Long: `Read every version, and every byte that one refers to, and compare it with its checksum. What is not as
it was saved is told, with the versions and files that have it.

It ends with 0 when every version is whole and with 1 when one is not.`,
		Example: `  berth workspace verify --store /backup/versions
  berth workspace verify --store s3://bucket/project --json`,
		Args:              takes(0, 1, "at most one directory"),
		ValidArgsFunction: folders,
	}
	d := f.depot(cmd)
	f.quietly(cmd, "the versions that are not whole")
	cmd.RunE = f.perhaps(d.verify)
	return cmd
}

func (d *depot) verify(ctx context.Context) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	repo.Progress = new(workspace.Progress)
	show := d.f.progressOf("verifying "+clean(where(repo)), farnessOf(repo.Progress))
	found, err := repo.Verify(ctx)
	show.stop()
	if err != nil {
		return storeHint(err)
	}
	if err := d.tellVerified(repo, found); err != nil {
		return err
	}
	if len(found.Problems) > 0 {
		return exited(1)
	}
	return nil
}

func (d *depot) tellVerified(repo *workspace.Repo, found *workspace.Verified) error {
	broken := brokenOf(found)
	switch {
	case d.f.json:
		found.Problems = append([]workspace.Problem{}, found.Problems...) // a list, if an empty one
		return writeJSON(d.f.out, found)
	case d.f.quiet:
		for _, id := range broken {
			if err := d.f.line(id); err != nil {
				return err
			}
		}
		return nil
	case found.Versions == 0:
		d.f.notef("Nothing is saved in %s yet.", clean(where(repo)))
		return nil
	}
	for _, p := range found.Problems {
		what := "all of it"
		if p.Path != "" {
			what = p.Path
		}
		d.f.complain("version %s, %s: %s", clean(p.Version), clean(what), clean(p.Why))
	}
	text := fmt.Sprintf("%s whole", plural(found.Versions-len(broken), "version is", "versions are"))
	if len(broken) > 0 {
		text += fmt.Sprintf(", %d not", len(broken))
	}
	_, err := fmt.Fprintf(d.f.out, "%s: read %s, %s\n", text, plural(found.Files, "file", "files"), size(found.Bytes))
	return err
}

// brokenOf are the versions that are not whole, each once.
func brokenOf(found *workspace.Verified) (ids []string) {
	for _, p := range found.Problems {
		if !slices.Contains(ids, p.Version) {
			ids = append(ids, p.Version)
		}
	}
	return ids
}

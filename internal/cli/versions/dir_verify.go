package versions

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Check that every version can be restored",
		Long: `Read every version with all its data, and compare it with the checksums. Damage is reported with the
versions and files that it affects.

Exits with 0 if every version is whole, otherwise with 1.`,
		Example: `  berth workspace verify --store /backup/versions
  berth workspace verify --store s3://bucket/project --json`,
		Args:              ui.Args(0, 1, "at most one directory"),
		ValidArgsFunction: completeDirs,
	}
	d := a.storeFlags(cmd)
	a.QuietFlag(cmd, "the versions that are not whole")
	cmd.RunE = a.withOptionalDir(d.verify)
	return cmd
}

func (d *storeFlags) verify(ctx context.Context) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	repo.Progress = new(workspace.Progress)
	show := d.a.ProgressOf("verifying "+ui.Clean(repo.Location()), progressOf(repo.Progress))
	found, err := repo.Verify(ctx)
	show.Stop()
	if err != nil {
		return storeHint(err)
	}
	if err := d.printVerified(repo, found); err != nil {
		return err
	}
	if len(found.Problems) > 0 {
		return ui.ExitCode(1)
	}
	return nil
}

func (d *storeFlags) printVerified(repo *workspace.Repo, found *workspace.Verified) error {
	broken := brokenOf(found)
	switch {
	case d.a.JSON:
		found.Problems = append([]workspace.Problem{}, found.Problems...) // not nil: JSON output has [] for an empty list
		return ui.WriteJSON(d.a.Out, found)
	case d.a.Quiet:
		for _, id := range broken {
			if err := d.a.Line(id); err != nil {
				return err
			}
		}
		return nil
	case found.Versions == 0:
		d.a.Notef("Nothing is saved in %s yet.", ui.Clean(repo.Location()))
		return nil
	}
	for _, p := range found.Problems {
		what := "all of it"
		if p.Path != "" {
			what = p.Path
		}
		d.a.Errorf("version %s, %s: %s", ui.Clean(p.Version), ui.Clean(what), ui.Clean(p.Why))
	}
	text := fmt.Sprintf("%s whole", ui.Plural(found.Versions-len(broken), "version is", "versions are"))
	if len(broken) > 0 {
		text += fmt.Sprintf(", %d not", len(broken))
	}
	_, err := fmt.Fprintf(d.a.Out, "%s: read %s, %s\n", text, ui.Plural(found.Files, "file", "files"), ui.Size(found.Bytes))
	return err
}

// brokenOf returns the ids of the versions with problems, each once.
func brokenOf(found *workspace.Verified) (ids []string) {
	for _, p := range found.Problems {
		if !slices.Contains(ids, p.Version) {
			ids = append(ids, p.Version)
		}
	}
	return ids
}

package versions

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspaceExport() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "export TARGET",
		Short: "Export a version for other tools",
		Long: `Write one version, by default the newest, in a form that other tools can read. TARGET is

  a directory           it must be empty or not exist
  NAME.tar, NAME.tar.gz an archive; - writes one to stdout
  s3://BUCKET/PREFIX    every file as one object, below VERSION/

Directories and stores get a .sandbox-state with the checksum of every file.`,
		Example: `  berth workspace export --store /backup/versions /tmp/look
  berth workspace export --store s3://bucket/project --version 20260801T1200 project.tar.gz
  berth workspace export --store /backup/versions - | tar tv`,
		Args: ui.Args(1, 1, "one TARGET: a directory, an archive, - or a store"),
	}
	d := a.storeFlags(cmd)
	d.versionFlag(cmd, &version)
	a.QuietFlag(cmd, "the version")
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error { return d.export(ctx, version, args[0]) })
	return cmd
}

// exportJob is one run of berth workspace export.
type exportJob struct {
	repo *workspace.Repo
	id   string
	to   string
}

func (d *storeFlags) export(ctx context.Context, typed, to string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	id, err := wholeVersion(ctx, repo, typed)
	if err != nil {
		return err
	}
	x := &exportJob{repo: repo, id: id, to: to}
	x.repo.Progress = new(workspace.Progress)
	began := d.a.Now()
	show := d.a.ProgressOf("exporting to "+ui.Clean(to), progressOf(x.repo.Progress))
	done, err := x.write(ctx, d.a)
	show.Stop()
	if err != nil {
		return versionHint(ctx, repo, id, err)
	}
	return d.a.printExport(done, fmt.Sprintf("exported version %s to %s: %s, %s (%s)", done.Version, ui.Clean(to),
		ui.Plural(done.Files, "file", "files"), ui.Size(done.Bytes), ui.Brief(d.a.Now().Sub(began))), to == "-")
}

// write writes the version to the target.
func (x *exportJob) write(ctx context.Context, a *app) (*workspace.Exported, error) {
	switch {
	case x.to == "-":
		if a.Out.TTY {
			return nil, ui.Usage("an archive is nothing to look at", "Send it on: berth workspace export - | tar tv")
		}
		return x.repo.ExportTar(ctx, x.id, a.Stdout)
	case strings.Contains(x.to, "://"):
		store, err := a.OpenStore(ctx, x.to)
		if err != nil {
			return nil, err
		}
		return x.repo.Export(ctx, x.id, store, "")
	case strings.HasSuffix(x.to, ".tar"):
		return x.archive(func(w io.Writer) (*workspace.Exported, error) { return x.repo.ExportTar(ctx, x.id, w) })
	case strings.HasSuffix(x.to, ".tar.gz"), strings.HasSuffix(x.to, ".tgz"):
		return x.archive(func(w io.Writer) (*workspace.Exported, error) {
			z := gzip.NewWriter(w)
			done, err := x.repo.ExportTar(ctx, x.id, z)
			return done, errors.Join(err, z.Close())
		})
	}
	if ext := filepath.Ext(x.to); slices.Contains(otherArchives, ext) {
		return nil, ui.Usage("Berth writes no "+ext, "Name an archive .tar or .tar.gz.")
	}
	return x.directory(ctx)
}

// otherArchives are extensions of archives that Berth cannot write. A target with such an extension is refused; it is
// not used as a directory.
var otherArchives = []string{".zip", ".gz", ".bz2", ".xz", ".zst", ".7z"}

// archive writes an archive file atomically. It does not replace an existing file.
func (x *exportJob) archive(do func(io.Writer) (*workspace.Exported, error)) (*workspace.Exported, error) {
	if _, err := os.Lstat(x.to); err == nil {
		return nil, hintedError(api.CodeFileExists, "Remove it, or choose another name.", "%s is there already", x.to)
	}
	file, err := os.CreateTemp(filepath.Dir(x.to), ".berth-export-")
	if err != nil {
		return nil, err
	}
	done, err := do(file)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), x.to)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return done, nil
}

// directory writes the version into an empty directory.
func (x *exportJob) directory(ctx context.Context) (*workspace.Exported, error) {
	if err := os.MkdirAll(x.to, 0o777); err != nil {
		return nil, workspace.NoDirectory(x.to, err)
	}
	inside, err := os.ReadDir(x.to)
	switch {
	case err != nil:
		return nil, err
	case len(inside) > 0:
		return nil, hintedError(api.CodeNotEmpty, "Choose another, or make it what the version is with 'berth workspace restore'.", "%s is not empty", x.to)
	}
	dir, err := workspace.OpenDir(x.to)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return x.repo.ExportDir(ctx, x.id, dir)
}

// printExport prints the result, and the files that the target could not hold. If stdout is the archive, it prints to
// stderr.
func (a *app) printExport(done *workspace.Exported, what string, archive bool) error {
	warnEach(a, done.Skipped, func(s workspace.Skipped) string {
		return fmt.Sprintf("left out %s: %s", ui.Clean(s.Path), ui.Clean(s.Why))
	})
	switch {
	case archive:
		a.Notef("%s", what)
		return nil
	case a.JSON:
		return ui.WriteJSON(a.Out, exportedJSON{done.Version, done.Files, done.Bytes, skippedOf(done.Skipped)})
	case a.Quiet:
		return a.Line(done.Version)
	}
	_, err := fmt.Fprintln(a.Out, what)
	return err
}

// exportedJSON is the JSON output of berth workspace export.
type exportedJSON struct {
	Version string        `json:"version"`
	Files   int           `json:"files"`
	Bytes   int64         `json:"bytes"`
	Skipped []skippedJSON `json:"skipped"`
}

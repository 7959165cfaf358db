package cli

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
	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceExport() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "export TARGET",
		Short: "Write a version where other tools can read it",
		Long: `Write one version, the newest unless --version names another, where other tools can read it. TARGET is

  a directory           which must be empty, or is made
  NAME.tar, NAME.tar.gz an archive; - is one on stdout
  s3://BUCKET/PREFIX    every file as an object of its own, below VERSION/

Directories and stores get a .sandbox-state with the checksum of every file.`,
		Example: `  berth workspace export --store /backup/versions /tmp/look
  berth workspace export --store s3://bucket/project --version 20260801T1200 project.tar.gz
  berth workspace export --store /backup/versions - | tar tv`,
		Args: takes(1, 1, "one TARGET: a directory, an archive, - or a store"),
	}
	d := f.depot(cmd)
	d.versionFlag(cmd, &version)
	f.quietly(cmd, "the version")
	cmd.RunE = run(func(ctx context.Context, args []string) error { return d.export(ctx, version, args[0]) })
	return cmd
}

// exporting is one export under way.
type exporting struct {
	repo *workspace.Repo
	id   string
	to   string
}

func (d *depot) export(ctx context.Context, typed, to string) error {
	repo, err := d.open(ctx)
	if err != nil {
		return err
	}
	id, err := wholeVersion(ctx, repo, typed)
	if err != nil {
		return err
	}
	x := &exporting{repo: repo, id: id, to: to}
	x.repo.Progress = new(workspace.Progress)
	began := d.f.now()
	show := d.f.progressOf("exporting to "+clean(to), farnessOf(x.repo.Progress))
	done, err := x.write(ctx, d.f)
	show.stop()
	if err != nil {
		return aboutVersion(ctx, repo, id, err)
	}
	return d.f.tellExport(done, fmt.Sprintf("exported version %s to %s: %s, %s (%s)", done.Version, clean(to),
		plural(done.Files, "file", "files"), size(done.Bytes), brief(d.f.now().Sub(began))), to == "-")
}

// write writes to whatever the target is.
func (x *exporting) write(ctx context.Context, f *frame) (*workspace.Exported, error) {
	switch {
	case x.to == "-":
		if f.out.tty {
			return nil, &usageError{"an archive is nothing to look at", "Send it on: berth workspace export - | tar tv"}
		}
		return x.repo.ExportTar(ctx, x.id, f.Stdout)
	case strings.Contains(x.to, "://"):
		store, err := f.OpenStore(ctx, x.to)
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
		return nil, &usageError{"Berth writes no " + ext, "Name an archive .tar or .tar.gz."}
	}
	return x.directory(ctx)
}

// otherArchives are names that nobody means as a directory's.
var otherArchives = []string{".zip", ".gz", ".bz2", ".xz", ".zst", ".7z"}

// archive writes a file that is there whole or not at all, and replaces none.
func (x *exporting) archive(do func(io.Writer) (*workspace.Exported, error)) (*workspace.Exported, error) {
	if _, err := os.Lstat(x.to); err == nil {
		return nil, refusal(api.CodeFileExists, "Remove it, or choose another name.", "%s is there already", x.to)
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

// directory writes into one that has nothing in it.
func (x *exporting) directory(ctx context.Context) (*workspace.Exported, error) {
	if err := os.MkdirAll(x.to, 0o777); err != nil {
		return nil, noDirectory(x.to, err)
	}
	inside, err := os.ReadDir(x.to)
	switch {
	case err != nil:
		return nil, err
	case len(inside) > 0:
		return nil, refusal(api.CodeNotEmpty, "Choose another, or make it what the version is with 'berth workspace restore'.", "%s is not empty", x.to)
	}
	dir, err := workspace.OpenDir(x.to)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return x.repo.ExportDir(ctx, x.id, dir)
}

// tellExport says what was written, and what the target could not hold. Where stdout is the archive, it is
// not the place to say so.
func (f *frame) tellExport(done *workspace.Exported, what string, archive bool) error {
	nameEach(f, done.Skipped, func(s workspace.Skipped) string {
		return fmt.Sprintf("left out %s: %s", clean(s.Path), clean(s.Why))
	})
	switch {
	case archive:
		f.notef("%s", what)
		return nil
	case f.json:
		return writeJSON(f.out, exportedJSON{done.Version, done.Files, done.Bytes, skippedOf(done.Skipped)})
	case f.quiet:
		return f.line(done.Version)
	}
	_, err := fmt.Fprintln(f.out, what)
	return err
}

// exportedJSON is what --json prints.
type exportedJSON struct {
	Version string        `json:"version"`
	Files   int           `json:"files"`
	Bytes   int64         `json:"bytes"`
	Skipped []skippedJSON `json:"skipped"`
}

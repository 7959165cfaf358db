package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

func workspace(t testing.TB, d *local.Driver, id driver.ID) files.FS {
	t.Helper()
	fs, err := d.Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

func write(ctx context.Context, fs files.FS, path, text string) error {
	_, _, err := fs.Write(ctx, path, strings.NewReader(text), files.WriteOptions{})
	return err
}

// upload is a file on its way that has begun and waits for its rest.
type upload struct {
	rest *io.PipeWriter
	done chan error
}

func beginUpload(t testing.TB, fs files.FS, path string) *upload {
	t.Helper()
	from, to := io.Pipe()
	u := &upload{to, make(chan error, 1)}
	go func() {
		_, _, err := fs.Write(context.Background(), path, from, files.WriteOptions{})
		from.Close()
		u.done <- err
	}()
	if _, err := io.WriteString(to, "the first half, "); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *upload) finish() error {
	_, err := io.WriteString(u.rest, "and the second")
	return errors.Join(err, u.rest.Close(), <-u.done)
}

// An instance goes through the steps while files of it are open. Whoever has them then changes nothing any
// more, and is told to ask again.
var turns = map[string]struct {
	before, between []func(*local.Driver, driver.ID) error
}{
	"started":           {[]step{stop}, []step{start}},
	"stopped":           {nil, []step{stop}},
	"restarted":         {nil, []step{stop, start}},
	"restarted, frozen": {[]step{freeze}, []step{stop, start}},
}

type step = func(*local.Driver, driver.ID) error

func start(d *local.Driver, id driver.ID) error {
	_, err := d.Start(context.Background(), id)
	return err
}
func stop(d *local.Driver, id driver.ID) error   { return d.Stop(context.Background(), id) }
func freeze(d *local.Driver, id driver.ID) error { return d.Freeze(context.Background(), id) }

func take(t testing.TB, d *local.Driver, id driver.ID, steps []step) {
	t.Helper()
	for _, s := range steps {
		if err := s(d, id); err != nil {
			t.Fatal(err)
		}
	}
}

func isBusy(t testing.TB, what string, err error) {
	t.Helper()
	known, _ := errors.AsType[*fault.Error](err)
	if known == nil || known.Code != api.CodeBusy || !known.Retry {
		t.Errorf("%s: %v", what, err)
	}
}

func TestChangesOfFilesEndWithTheStateOfTheInstance(t *testing.T) {
	for name, turn := range turns {
		for disk, limits := range map[string]driver.Limits{"": {}, ", hard disk": {DiskBytes: 32 << 20, DiskHard: true}} {
			t.Run(name+disk, func(t *testing.T) {
				d := open(t, t.TempDir())
				id := create(t, d, limited(limits)).ID
				output(t, d, id, sh("echo old >file; mkdir dir; echo kept >dir/kept"))
				take(t, d, id, turn.before)
				fs := workspace(t, d, id)
				replaced, made := beginUpload(t, fs, "file"), beginUpload(t, fs, "new/folder/file")
				take(t, d, id, turn.between)
				isBusy(t, "finish a file", replaced.finish())
				isBusy(t, "finish another", made.finish())
				changeAll(t, fs)
				take(t, d, id, []step{start})
				const look = "cat file dir/kept; find . -name '.berth-tmp-*' -prune -o -type f -print | sort"
				if got, want := output(t, d, id, sh(look)), "old\nkept\n./dir/kept\n./file\n"; got != want {
					t.Errorf("inside there is %q, not %q", got, want)
				}
				if err := write(t.Context(), workspace(t, d, id), "file", "new"); err != nil {
					t.Error(err)
				}
				if got := output(t, d, id, sh("cat file; rm -r new; ls -A | grep -c tmp")); got != "new1\n" {
					t.Errorf("inside there is %q", got)
				}
			})
		}
	}
}

// changeAll tries every kind of change.
func changeAll(t *testing.T, fs files.FS) {
	t.Helper()
	ctx := t.Context()
	isBusy(t, "write a file", write(ctx, fs, "late", "late"))
	isBusy(t, "make a folder", fs.Mkdir(ctx, "late"))
	isBusy(t, "make a link", fs.Symlink(ctx, "file", "late"))
	isBusy(t, "move a file", fs.Rename(ctx, "file", "late", true))
	isBusy(t, "remove a file", fs.Remove(ctx, "file", false))
	isBusy(t, "remove a folder", fs.Remove(ctx, "dir", true))
}

// What fails by itself takes back what it began, as long as the instance is what it was.
func TestFailedUploadLeavesNothing(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	for _, before := range [][]step{nil, {stop}} {
		take(t, d, id, before)
		u := beginUpload(t, workspace(t, d, id), "new/file")
		u.rest.CloseWithError(errors.New("the sender is gone"))
		if err := <-u.done; err == nil || !strings.Contains(err.Error(), "the sender is gone") {
			t.Errorf("it ended with %v", err)
		}
	}
	take(t, d, id, []step{start})
	if got := output(t, d, id, sh("ls -A")); got != "" {
		t.Errorf("it left %q", got)
	}
}

// What is destroyed stays so, and another one under its name is another one.
func TestChangesOfFilesDoNotBringBackAnInstance(t *testing.T) {
	for name, before := range map[string][]step{"running": nil, "stopped": {stop}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir)
			s := spec()
			id := create(t, d, s).ID
			take(t, d, id, before)
			fs := workspace(t, d, id)
			u := beginUpload(t, fs, "file")
			if err := errors.Join(d.Destroy(t.Context(), id), d.WaitIdle(t.Context())); err != nil {
				t.Fatal(err)
			}
			isBusy(t, "finish a file", u.finish())
			changeAll(t, fs)
			if _, err := os.Lstat(filepath.Join(dir, string(id))); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("of the instance there is something again: %v", err)
			}
			create(t, d, s)
			take(t, d, id, before)
			changeAll(t, fs)
		})
	}
}

// However many files are written, an instance starts and stops in between, and none of them is broken.
func TestWritersAndRestartsGetAlong(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writing, end := context.WithCancel(t.Context())
	defer end()
	var writers errgroup.Group
	for i := range 8 {
		writers.Go(func() error {
			for n := 0; writing.Err() == nil; n++ {
				err := writeSome(writing, d, id, fmt.Sprintf("%d/%d", i, n%10))
				if err != nil && writing.Err() == nil && fault.CodeOf(err) != api.CodeBusy {
					return err
				}
			}
			return nil
		})
	}
	for range 5 {
		if err := d.Stop(ctx, id); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	if got := output(t, d, id, sh("ls -lR | grep -c '?'; true")); got != "0\n" {
		t.Errorf("%s files are broken", got)
	}
}

// A clone of a repository on the same disk shares its objects as hard links. Both are whole in an archive.
func TestArchiveHoldsHardLinkedRepositories(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	output(t, d, id, sh(`set -e
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost
		git init -q one && cd one && echo content >file && git add file && git commit -qm first
		cd .. && git clone -q one two && cp -al one three
		test $(find two/.git/objects -type f -links +1 | wc -l) -gt 0`))
	for _, before := range [][]step{nil, {stop}} {
		take(t, d, id, before)
		to := t.TempDir()
		unpack(t, workspace(t, d, id), to)
		for _, repository := range []string{"one", "two", "three"} {
			for _, args := range [][]string{{"fsck", "--full", "--strict"}, {"status", "--porcelain"}, {"show", "HEAD:file"}} {
				git := exec.Command("git", append([]string{"-C", filepath.Join(to, repository)}, args...)...)
				git.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
				out, err := git.CombinedOutput()
				if err != nil || args[0] == "show" && string(out) != "content\n" || args[0] == "status" && len(out) > 0 {
					t.Errorf("%s in %s: %v: %s", args, repository, err, out)
				}
			}
		}
	}
}

// unpack packs files and has tar unpack them on this machine.
func unpack(t *testing.T, fs files.FS, to string) {
	t.Helper()
	var archive bytes.Buffer
	packed, err := files.Pack(t.Context(), fs, &archive, files.PackOptions{})
	if err != nil || packed.Skipped > 0 {
		t.Fatalf("packed %+v, %v", packed, err)
	}
	tar := exec.Command("tar", "-x", "--no-same-owner", "-C", to)
	tar.Stdin = &archive
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
}

// writeSome writes files until something goes wrong.
func writeSome(ctx context.Context, d *local.Driver, id driver.ID, path string) error {
	fs, err := d.Files(ctx, id, files.WorkingDir)
	if err != nil {
		return err
	}
	defer fs.Close()
	for ctx.Err() == nil {
		if _, _, err := fs.Write(ctx, path, strings.NewReader("x"), files.WriteOptions{Lazy: true}); err != nil {
			return err
		}
	}
	return nil
}

package workspacesync_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// archived is a sandbox whose workspace was saved and whose instance is gone; the directory of it is kept to
// compare with.
func archived(w *world, fill func(dir string)) (sb sandbox.Sandbox, live files.FS) {
	w.Helper()
	sb = w.restore(w.born(sandbox.Sandbox{}))
	fill(w.path(sb, ""))
	sb = w.save(sb)
	if err := os.Remove(w.path(sb, ".sandbox-state")); err != nil { // no part of a version
		w.Fatal(err)
	}
	dir, err := os.Open(w.path(sb, ""))
	if err != nil {
		w.Fatal(err)
	}
	if live, err = files.NewDir(dir, files.Owner{}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = live.Close() })
	sb.Instance, sb.State = "", sandbox.Archived
	return sb, live
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// tangled has names that sort between a folder and what is in it, links of all kinds and a large file.
func tangled(t testing.TB) func(dir string) {
	return func(dir string) {
		for _, name := range []string{"a/x/y", "a-b", "a.d/z", "empty", ".hidden/deep"} {
			must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		}
		for i := range 30 {
			must(t, os.WriteFile(filepath.Join(dir, "a", fmt.Sprintf("f%02d.txt", i)), []byte(strings.Repeat("x", i)), 0o644))
		}
		must(t, os.WriteFile(filepath.Join(dir, "a/x/y/run"), []byte("#!/bin/sh"), 0o755),
			os.WriteFile(filepath.Join(dir, "a0"), []byte("zero"), 0o600),
			os.WriteFile(filepath.Join(dir, ".hidden/deep/f"), nil, 0o644),
			os.Symlink("a/x", filepath.Join(dir, "in")), os.Symlink("../a-b/../a0", filepath.Join(dir, "a/up")),
			os.Symlink("/etc/passwd", filepath.Join(dir, "abs")), os.Symlink("../../etc", filepath.Join(dir, "out")),
			os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
			os.Symlink("a0/x", filepath.Join(dir, "through-file")))
		large := make([]byte, 9<<20)
		_, _ = rand.Read(large)
		must(t, os.WriteFile(filepath.Join(dir, "large"), large, 0o644))
	}
}

// A workspace without a machine shows the same as its directory did: lists page by page, trees, single files and
// archives, and the same refusals.
func TestStoredFilesAreThoseOfTheWorkspace(t *testing.T) {
	testkit.Proves(t, "V3", "V4")
	w := newWorld(t)
	sb, live := archived(w, tangled(t))
	kept, err := w.Stored(t.Context(), sb)
	must(t, err)
	same := func(what string, of func(files.FS) string) {
		t.Helper()
		if a, b := of(live), of(kept); a != b {
			t.Errorf("%s:\nlive   %s\nstored %s", what, a, b)
		}
	}
	for _, o := range []files.ListOptions{
		{}, {Depth: 1, Hidden: true}, {Depth: 9, Limit: 7}, {Depth: 9, Hidden: true, Limit: 1}, {Path: "a", Limit: 4}, {Path: "in", Depth: 3},
		{Depth: 9, Pattern: "*.txt", Limit: 5}, {Path: "a0"}, {Path: "none"}, {Path: "out"}, {Path: "abs"}, {Path: "loop"}, {Path: "dangling"}, {Path: "through-file"}, {Path: "empty"},
	} {
		same(fmt.Sprintf("list %+v", o), func(fsys files.FS) string { return listed(t, fsys, o) })
	}
	for _, path := range []string{"", "a", "in", "in/y", "a/up", "abs", "none", "a0/none", "a/x/y/run", "large", "out/passwd", "loop/x"} {
		same("stat "+path, func(fsys files.FS) string {
			info, err := fsys.Stat(t.Context(), path)
			return described(info) + code(err)
		})
		same("read "+path, func(fsys files.FS) string { return contents(t, fsys, path) })
	}
	same("tree", func(fsys files.FS) string {
		root, cut, err := files.Tree(t.Context(), fsys, files.TreeOptions{Depth: 3, Limit: 20})
		must(t, err)
		return grown(root) + fmt.Sprint(cut)
	})
	same("archive", func(fsys files.FS) string { return packed(t, fsys) })
	same("part of a large file", func(fsys files.FS) string {
		f, err := fsys.Open(t.Context(), "large")
		must(t, err)
		defer f.Close()
		part := make([]byte, 100)
		_, err = f.ReadAt(part, 5<<20)
		must(t, err)
		end := make([]byte, 100)
		n, err := f.ReadAt(end, 9<<20-10)
		return fmt.Sprintf("%x %x %d %v", part, end, n, err)
	})
	if _, _, err := kept.Write(t.Context(), "f", strings.NewReader("x"), files.WriteOptions{}); fault.CodeOf(err) != api.CodeNotRunning {
		t.Errorf("wrote: %v", err)
	}
	for _, err := range []error{kept.Mkdir(t.Context(), "f"), kept.Symlink(t.Context(), "f", "g"), kept.Remove(t.Context(), "a", true), kept.Rename(t.Context(), "a", "b", false)} {
		if fault.CodeOf(err) != api.CodeNotRunning {
			t.Errorf("changed a version: %v", err)
		}
	}
}

func listed(t *testing.T, fsys files.FS, o files.ListOptions) string {
	t.Helper()
	var out strings.Builder
	for {
		page, err := files.List(t.Context(), fsys, o)
		if err != nil {
			return code(err)
		}
		for _, info := range page.Items {
			fmt.Fprintln(&out, described(info))
		}
		fmt.Fprintln(&out, page.Next)
		if o.Cursor = page.Next; o.Cursor == "" {
			return out.String()
		}
	}
}

func described(i files.Info) string {
	size, perm := i.Size, i.Mode
	if i.Mode.IsDir() {
		size = 0
	}
	if i.Target != "" {
		perm = perm.Type()
	}
	if i.Path == "" || i.Path == "in" {
		perm = perm.Type()
	}
	return fmt.Sprintf("%q %v %d %q", i.Path, perm, size, i.Target)
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return string(fault.CodeOf(err))
}

func contents(t *testing.T, fsys files.FS, path string) string {
	t.Helper()
	f, err := fsys.Open(t.Context(), path)
	if err != nil {
		return code(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	must(t, err)
	return fmt.Sprintf("%d %x", f.Info().Size, data)
}

func grown(n *files.Node) string {
	out := described(n.Info) + fmt.Sprint(n.Truncated) + "\n"
	for _, c := range n.Children {
		out += grown(c)
	}
	return out
}

func packed(t *testing.T, fsys files.FS) string {
	t.Helper()
	var buf bytes.Buffer
	_, err := files.Pack(t.Context(), fsys, &buf, files.PackOptions{})
	must(t, err)
	var out strings.Builder
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out.String()
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		fmt.Fprintf(&out, "%s %c %d %s %x\n", h.Name, h.Typeflag, h.Size, h.Linkname, data)
	}
}

// silent is a store that never answers.
type silent struct{ blob.Store }

func (silent) Get(ctx context.Context, _ string, _ blob.GetOptions) (*blob.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that does not answer is said to be unreachable within five seconds, for lists and for bytes.
func TestStoredFilesOfASilentStore(t *testing.T) {
	testkit.Proves(t, "V3", "E6")
	w := newWorld(t)
	sb, _ := archived(w, tangled(t))
	real := w.Opts().Store
	kept, err := w.Stored(t.Context(), sb)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		w.Opts().Store = silent{}
		begun := time.Now()
		if _, err := w.Stored(t.Context(), sb); fault.CodeOf(err) != api.CodeBlobUnreachable || time.Since(begun) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Stored(cancelled, sb); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	})
	w.Opts().Store = real
	if got := contents(t, kept, "a0"); !strings.HasPrefix(got, "4 ") {
		t.Errorf("%q", got)
	}
}

// A sandbox that never saved anything has an empty workspace; one whose versions vanished says so; one that is not
// saved has none.
func TestStoredFilesOfNoVersion(t *testing.T) {
	testkit.Proves(t, "V3")
	w := newWorld(t)
	sb := sandbox.Sandbox{ID: "s", State: sandbox.Archived}
	for _, w.plan.Empty = range []bool{false, true} {
		kept, err := w.Stored(t.Context(), sb)
		must(t, err)
		if got, err := kept.ReadDir(t.Context(), "", "", 10); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	}
	sb.Synced.Version = "20261115T031402.123456789Z-1a2b3c"
	if _, err := w.Stored(t.Context(), sb); fault.CodeOf(err) != api.CodeBadManifest {
		t.Errorf("%v", err)
	}
	w.plan.Off = true
	if _, err := w.Stored(t.Context(), sb); fault.CodeOf(err) != api.CodeNotRunning {
		t.Errorf("%v", err)
	}
}

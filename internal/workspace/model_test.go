package workspace_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// writerModel is one of those who work on a workspace, and what we know of it.
type writerModel struct {
	dir   string
	tree  *workspace.Dir
	index *workspace.Index
}

// history is every version that was acknowledged, and the tree it must restore to.
type history struct {
	m       *memory
	r       *workspace.Repo
	writers []*writerModel
	acked   map[string]map[string]string
	latest  string
}

var paths = []string{"a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "new\nline"}

// Any sequence of edits, pushes, pulls, restores, lost indexes and failing requests, by two writers: no
// acknowledged version is ever lost or other than the tree was, and whoever restores has exactly it.
func TestAnyHistoryKeepsEveryVersion(t *testing.T) {
	testkit.Proves(t, "S7", "S15", "S3")
	checks(t, "workspace.model")
	rapid.Check(t, func(rt *rapid.T) {
		layout := rapid.SampledFrom([]workspace.Layout{workspace.Packed, workspace.Plain}).Draw(rt, "layout")
		h := &history{m: newMemory(), acked: map[string]map[string]string{}}
		h.r = &workspace.Repo{Store: h.m, Layout: layout}
		for range 2 {
			dir, err := os.MkdirTemp(t.TempDir(), "w")
			must(t, err)
			h.writers = append(h.writers, &writerModel{dir: dir, tree: open(t, dir)})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"edit":    h.edit,
			"sync":    func(rt *rapid.T) { h.sync(t, rt) },
			"restore": func(rt *rapid.T) { h.restore(t, rt) },
			"lose": func(rt *rapid.T) {
				if w := h.writer(rt); w.index != nil {
					base, err := h.r.BaseOf(t.Context(), w.index.ID)
					must(t, err)
					w.index = base
				}
			},
			"": func(*rapid.T) {},
		})
		h.check(t, rt)
	})
}

// checks says how many examples rapid tries, from the table of sizes.
func checks(t *testing.T, name string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if was := f.Value.String(); was == f.DefValue {
		must(t, f.Value.Set(fmt.Sprint(testkit.Size(t, name))))
		t.Cleanup(func() { must(t, f.Value.Set(was)) })
	}
}

func (h *history) writer(rt *rapid.T) *writerModel {
	return h.writers[rapid.IntRange(0, 1).Draw(rt, "writer")]
}

// edit changes one path, to whatever kind it draws.
func (h *history) edit(rt *rapid.T) {
	w := h.writer(rt)
	path := filepath.Join(w.dir, rapid.SampledFrom(paths).Draw(rt, "path"))
	for dir := filepath.Dir(path); dir != w.dir; dir = filepath.Dir(dir) {
		if st, err := os.Lstat(dir); err == nil && !st.IsDir() {
			_ = os.Remove(dir)
		}
	}
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	kind := rapid.IntRange(0, 6).Draw(rt, "kind")
	if st, err := os.Lstat(path); err == nil && (kind > 1 || st.IsDir()) {
		_ = os.RemoveAll(path)
	}
	text := strings.Repeat(fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "text")), rapid.IntRange(0, 30).Draw(rt, "long"))
	switch kind {
	case 0, 1, 2:
		_ = os.WriteFile(path, []byte(text), 0o644)
	case 3:
		_ = os.Symlink("to"+text, path)
	case 4:
		_ = os.Mkdir(path, 0o755)
	case 5:
		_ = os.WriteFile(path, []byte(text), 0o600)
	}
}

// sync saves, with a request that fails now and then, and tries again until it has worked.
func (h *history) sync(t *testing.T, rt *rapid.T) {
	w := h.writer(rt)
	at, lost := rapid.IntRange(0, 12).Draw(rt, "fails"), rapid.Bool().Draw(rt, "lost")
	var calls atomic.Int64
	fail := func(string, string) error {
		if calls.Add(1) == int64(at) {
			return errBroken
		}
		return nil
	}
	if lost {
		h.m.after = fail
	} else {
		h.m.hook = fail
	}
	o := workspace.PushOptions{AllowMassDelete: true}
	res, err := h.r.Sync(t.Context(), w.tree, w.index, o)
	h.m.hook, h.m.after = nil, nil
	if err != nil {
		if !errors.Is(err, errBroken) {
			rt.Fatalf("%v", err)
		}
		if res, err = h.r.Sync(t.Context(), w.tree, w.index, o); err != nil {
			rt.Fatalf("again: %v", err)
		}
	}
	w.index = res.Index
	is := tree(t, w.dir)
	if was, ok := h.acked[res.Version]; ok && !res.New {
		if diff := cmp.Diff(was, is); diff != "" {
			rt.Fatalf("version %s is said to be the tree, and is not:\n%s", res.Version, diff)
		}
	}
	h.acked[res.Version], h.latest = is, res.Version
}

func (h *history) restore(t *testing.T, rt *rapid.T) {
	if len(h.acked) == 0 {
		return
	}
	w := h.writer(rt)
	id := rapid.SampledFrom(sorted(h.acked)).Draw(rt, "version")
	var base *workspace.Index
	if rapid.Bool().Draw(rt, "with base") {
		base = w.index
	}
	res, err := h.r.Restore(t.Context(), w.tree, base, id, workspace.PullOptions{})
	if err != nil {
		rt.Fatalf("%v", err)
	}
	w.index = res.Index
	if diff := cmp.Diff(h.acked[id], tree(t, w.dir)); diff != "" {
		rt.Fatalf("version %s restores to something else:\n%s", id, diff)
	}
}

// check restores every acknowledged version into nothing.
func (h *history) check(t *testing.T, rt *rapid.T) {
	for _, id := range sorted(h.acked) {
		dir, err := os.MkdirTemp(t.TempDir(), "c")
		must(t, err)
		d, err := workspace.OpenDir(dir)
		must(t, err)
		if _, err := h.r.Pull(t.Context(), d, nil, workspace.PullOptions{Version: id}); err != nil {
			rt.Fatalf("version %s: %v", id, err)
		}
		if diff := cmp.Diff(h.acked[id], tree(t, dir)); diff != "" {
			rt.Fatalf("version %s:\n%s", id, diff)
		}
		must(t, d.Close(), os.RemoveAll(dir))
	}
	if v, err := h.r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
		rt.Fatalf("%+v, %v", v, err)
	}
}

func sorted(m map[string]map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}

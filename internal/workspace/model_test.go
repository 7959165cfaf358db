package workspace_test

import (
	"crypto/sha256"
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
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/workspace"
)

// writerModel is one of those who work on a workspace, and what we know of it.
type writerModel struct {
	dir, file string // the tree, and where its index is kept
	tree      *workspace.Dir
	index     *workspace.Index
	unsaved   map[string]string // path → what was written there since the last sync
}

// history is every version that was acknowledged, and the tree it must restore to.
type history struct {
	address string // of the store, for processes that are killed; empty: there is none
	s       *spoilt
	r       *workspace.Repo
	writers []*writerModel
	acked   map[string]map[string]string
	written int
	kills   *map[string]int
}

var paths = []string{"a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "new\nline"}

// Any sequence of edits, pushes, pulls, restores, lost indexes and failing requests, by two writers, and of
// processes that are killed: no acknowledged version is ever lost or other than the tree was, whoever
// restores has exactly it, and what was written is in the tree after the next sync.
func TestAnyHistoryKeepsEveryVersion(t *testing.T) {
	testkit.Proves(t, "S7", "S15", "S3")
	for name, c := range map[string]struct {
		size    string
		address func(t *testing.T) string
	}{
		"memory":    {"workspace.model", func(*testing.T) string { return "" }},
		"directory": {"workspace.crashes", func(t *testing.T) string { dir, _ := os.MkdirTemp(t.TempDir(), "s"); return dir }},
		"S3":        {"workspace.crashes_s3", func(t *testing.T) string { return s3test.New(t).URL("") }},
	} {
		t.Run(name, func(t *testing.T) {
			checks(t, c.size)
			kills := map[string]int{}
			rapid.Check(t, func(rt *rapid.T) { anyHistory(t, rt, c.address(t), &kills) })
			t.Logf("killed: %v", kills)
		})
	}
}

func anyHistory(t *testing.T, rt *rapid.T, address string, kills *map[string]int) {
	layout := rapid.SampledFrom([]workspace.Layout{workspace.Packed, workspace.Plain}).Draw(rt, "layout")
	h := &history{address: address, s: &spoilt{Store: newMemory()}, acked: map[string]map[string]string{}, kills: kills}
	if address != "" {
		h.s.Store = openStore(t, address)
	}
	h.r = &workspace.Repo{Store: h.s, Layout: layout}
	for range 2 {
		dir, err := os.MkdirTemp(t.TempDir(), "w")
		must(t, err)
		h.writers = append(h.writers, &writerModel{dir: dir, file: dir + ".index", tree: open(t, dir), unsaved: map[string]string{}})
	}
	acts := map[string]func(*rapid.T){
		"edit":    h.edit,
		"sync":    func(rt *rapid.T) { h.sync(t, rt, h.writer(rt)) },
		"restore": func(rt *rapid.T) { h.restore(t, rt, h.writer(rt), "") },
		"lose": func(rt *rapid.T) {
			if w := h.writer(rt); w.index != nil {
				base, err := h.r.BaseOf(t.Context(), w.index.ID)
				must(t, err)
				w.index = base
			}
		},
		"": func(*rapid.T) {},
	}
	if address != "" {
		acts["killed sync"] = func(rt *rapid.T) { h.killedSync(t, rt) }
		acts["killed restore"] = func(rt *rapid.T) { h.killedRestore(t, rt) }
	}
	rt.Repeat(acts)
	h.check(t, rt)
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

// edit changes one path, to whatever kind it draws. Half of the files have bytes that no other ever had.
func (h *history) edit(rt *rapid.T) {
	w := h.writer(rt)
	rel := rapid.SampledFrom(paths).Draw(rt, "path")
	path := filepath.Join(w.dir, rel)
	for dir := filepath.Dir(path); dir != w.dir; dir = filepath.Dir(dir) {
		if st, err := os.Lstat(dir); err == nil && !st.IsDir() {
			w.remove(dir)
		}
	}
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	kind := rapid.IntRange(0, 6).Draw(rt, "kind")
	if st, err := os.Lstat(path); err == nil && (kind > 1 || !st.Mode().IsRegular()) {
		w.remove(path)
	}
	text := strings.Repeat(fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "text")), rapid.IntRange(0, 30).Draw(rt, "long"))
	switch kind {
	case 0, 1, 2:
		h.written++
		text = fmt.Sprint(h.written, " ", text)
		_ = os.WriteFile(path, []byte(text), 0o644)
		w.unsaved[rel] = text
	case 3:
		_ = os.Symlink("to"+text, path)
	case 4:
		_ = os.Mkdir(path, 0o755)
	case 5:
		_ = os.WriteFile(path, []byte(text), 0o600)
	}
}

// remove removes a path and what is below it.
func (w *writerModel) remove(path string) {
	_ = os.RemoveAll(path)
	gone := strings.TrimPrefix(path, w.dir+"/")
	maps.DeleteFunc(w.unsaved, func(rel, _ string) bool { return rel == gone || strings.HasPrefix(rel, gone+"/") })
}

// sync saves, with a request that fails now and then, and tries again until it has worked.
func (h *history) sync(t *testing.T, rt *rapid.T, w *writerModel) {
	at, lost := rapid.IntRange(0, 12).Draw(rt, "fails"), rapid.Bool().Draw(rt, "lost")
	var calls atomic.Int64
	fail := func(string, string) error {
		if calls.Add(1) == int64(at) {
			return errBroken
		}
		return nil
	}
	if lost {
		h.s.set(nil, fail)
	} else {
		h.s.set(fail, nil)
	}
	o := workspace.PushOptions{AllowMassDelete: true}
	res, err := h.r.Sync(t.Context(), w.tree, w.index, o)
	h.s.set(nil, nil)
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
	h.acked[res.Version] = is
	w.wantWritten(rt, is)
}

// wantWritten looks for everything that was written since the last sync.
func (w *writerModel) wantWritten(rt *rapid.T, is map[string]string) {
	sums := map[string]bool{}
	for _, line := range is {
		sums[line[strings.LastIndexByte(line, ' ')+1:]] = true
	}
	for path, text := range w.unsaved {
		if !sums[fmt.Sprintf("%x", sha256.Sum256([]byte(text)))] {
			rt.Fatalf("what was written to %s is gone: %q; there is\n%v", path, text, is)
		}
	}
	clear(w.unsaved)
}

// restore brings a version back, the one that is drawn if none is named.
func (h *history) restore(t *testing.T, rt *rapid.T, w *writerModel, id string) {
	if len(h.acked) == 0 {
		return
	}
	if id == "" {
		id = rapid.SampledFrom(sorted(h.acked)).Draw(rt, "version")
	}
	var base *workspace.Index
	if rapid.Bool().Draw(rt, "with base") {
		base = w.index
	}
	res, err := h.r.Restore(t.Context(), w.tree, base, id, workspace.PullOptions{})
	if err != nil {
		rt.Fatalf("%v", err)
	}
	w.index = res.Index
	clear(w.unsaved)
	if diff := cmp.Diff(h.acked[id], tree(t, w.dir)); diff != "" {
		rt.Fatalf("version %s restores to something else:\n%s", id, diff)
	}
}

// killedSync saves in a process that dies somewhere on the way, or not. If a version was made, it is the
// tree. Another sync brings everything to its end.
func (h *history) killedSync(t *testing.T, rt *rapid.T) {
	w := h.writer(rt)
	j := job{Do: "sync"}
	if rapid.Bool().Draw(rt, "while it merges") {
		j.Step = rapid.IntRange(1, 12).Draw(rt, "step")
	} else {
		j.Window = rapid.SampledFrom(pushWindows).Draw(rt, "window")
	}
	h.kill(t, rt, w, j)
	is := tree(t, w.dir)
	for v, err := range h.r.Versions(t.Context()) {
		must(t, err)
		if h.acked[v.ID] == nil {
			h.acked[v.ID] = is
		}
	}
	h.sync(t, rt, w)
}

// killedRestore brings a version back in a process that dies on the way, or not, and then again.
func (h *history) killedRestore(t *testing.T, rt *rapid.T) {
	if len(h.acked) == 0 {
		return
	}
	w, id := h.writer(rt), rapid.SampledFrom(sorted(h.acked)).Draw(rt, "version")
	h.kill(t, rt, w, job{Do: "restore", Version: id, Step: rapid.IntRange(1, 20).Draw(rt, "step")})
	h.restore(t, rt, w, id)
}

// kill has a process do something and die.
func (h *history) kill(t *testing.T, rt *rapid.T, w *writerModel, j job) {
	j.Store, j.Dir, j.Index, j.Layout = h.address, w.dir, w.file, h.r.Layout
	_ = os.Remove(w.file)
	if w.index != nil {
		must(t, w.index.Save(w.file))
	}
	out, killed, err := j.run(t)
	if err != nil {
		rt.Fatalf("%v", err)
	}
	if killed {
		(*h.kills)[string(out)]++
	}
	w.index, err = workspace.LoadIndex(w.file)
	must(t, err)
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

package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("%v has the code %s, not %s", err, fault.CodeOf(err), code)
	}
}

func read(t *testing.T, dir, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// A file that changes in the same instant as it was saved, with its size and time as they were, is saved
// by the next push all the same.
func TestChangeInTheSameInstantIsSaved(t *testing.T) {
	testkit.Proves(t, "S8")
	r, dir := &workspace.Repo{Store: newMemory()}, t.TempDir()
	path := filepath.Join(dir, "f")
	lost := 0
	for i := range 60 {
		was, is := fmt.Sprintf("one %03d", i), fmt.Sprintf("two %03d", i)
		write(t, dir, map[string]string{"f": was})
		at := time.Now().Truncate(time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		res := pushAny(t, r, dir)
		if err := errors.Join(os.WriteFile(path, []byte(is), 0o644), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		if again := push(t, r, dir, res.Index); !again.New {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of 60 changes were not seen", lost)
	}
}

// pushAny pushes whatever the store has.
func pushAny(t *testing.T, r *workspace.Repo, dir string) *workspace.Result {
	t.Helper()
	base, err := r.BaseOf(t.Context(), "")
	if err != nil {
		base = nil
	}
	return push(t, r, dir, base)
}

// Bytes that were altered in the store never get a file's name, and what was here stays.
func TestAlteredBytesAreRefused(t *testing.T) {
	testkit.Proves(t, "S12")
	for name, size := range map[string]int{"small": 100, "large": 5 << 20} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			r, a, b := &workspace.Repo{Store: m}, t.TempDir(), t.TempDir()
			write(t, a, map[string]string{"f": strings.Repeat("x", size), "g": "fine"})
			push(t, r, a, nil)
			write(t, b, map[string]string{"f": "what was here"})
			if n := m.change("packs/", func(data []byte) []byte {
				data[len(data)/2] ^= 1
				return data
			}); n == 0 {
				t.Fatal("nothing was altered")
			}
			_, err := r.Restore(t.Context(), open(t, b), nil, "", workspace.PullOptions{})
			wantCode(t, err, api.CodeBadManifest)
			if err == nil || !strings.Contains(err.Error(), "the stored bytes of ") {
				t.Errorf("%v does not name the file", err)
			}
			if got := read(t, b, "f"); got != "what was here" {
				t.Errorf("f is %.40q", got)
			}
			v, err := r.Verify(t.Context())
			if err != nil || len(v.Problems) == 0 {
				t.Errorf("verify found %+v, %v", v, err)
			}
		})
	}
}

// A pull that would delete most of a tree is refused, unless it is allowed.
func TestMassDeleteIsRefused(t *testing.T) {
	testkit.Proves(t, "S3")
	eachStore(t, func(t *testing.T, store blob.Store) {
		r, a, b := &workspace.Repo{Store: store}, t.TempDir(), t.TempDir()
		files := map[string]string{}
		for i := range 10 {
			files[fmt.Sprint("f", i)] = fmt.Sprint(i)
		}
		write(t, a, files)
		first := push(t, r, a, nil)
		got := pull(t, r, b, nil, workspace.PullOptions{})
		for i := range 6 {
			if err := os.Remove(filepath.Join(a, fmt.Sprint("f", i))); err != nil {
				t.Fatal(err)
			}
		}
		push(t, r, a, first.Index)
		before := tree(t, b)
		_, err := r.Pull(t.Context(), open(t, b), got.Index, workspace.PullOptions{})
		wantCode(t, err, api.CodeMassDelete)
		if after := tree(t, b); len(after) != len(before) {
			t.Errorf("%d of %d files are left", len(after), len(before))
		}
		pull(t, r, b, got.Index, workspace.PullOptions{AllowMassDelete: true})
		same(t, a, b)
	})
}

// Without a base, with one of another history, and with a manifest that is not whole, nothing is deleted.
func TestNothingIsDeletedOnAGuess(t *testing.T) {
	testkit.Proves(t, "S3", "S4")
	m := newMemory()
	r, a, b := &workspace.Repo{Store: m}, t.TempDir(), t.TempDir()
	write(t, a, map[string]string{"theirs": "1"})
	push(t, r, a, nil)
	write(t, b, map[string]string{"mine": "2", "other": "3", "d/deep": "4"})
	pull(t, r, b, nil, workspace.PullOptions{})
	foreign := push(t, &workspace.Repo{Store: newMemory()}, b, nil)
	pull(t, r, b, foreign.Index, workspace.PullOptions{})
	m.change(workspace.StateFile, func(data []byte) []byte { return data[:len(data)/2] })
	_, err := r.Pull(t.Context(), open(t, b), nil, workspace.PullOptions{Discard: true})
	wantCode(t, err, api.CodeBadManifest)
	for _, path := range []string{"mine", "other", "d/deep", "theirs"} {
		if _, err := os.Stat(filepath.Join(b, path)); err != nil {
			t.Error(err)
		}
	}
}

// Two that work on one workspace both keep what they did; a file changed by both is kept twice.
func TestChangesOfBothSidesAreKept(t *testing.T) {
	testkit.Proves(t, "S15")
	eachStore(t, func(t *testing.T, store blob.Store) {
		r, a, b := &workspace.Repo{Store: store}, t.TempDir(), t.TempDir()
		write(t, a, map[string]string{"same": "0", "theirs": "0", "mine": "0", "both": "0", "gone": "0", "gone-here": "0", "d/x": "0", "swap": "file"})
		first := push(t, r, a, nil)
		here := pull(t, r, b, nil, workspace.PullOptions{}).Index

		write(t, a, map[string]string{"theirs": "changed there", "both": "changed there", "gone-here": "changed there", "new-there": "1", "d/y": "1"})
		if err := errors.Join(os.Remove(filepath.Join(a, "gone")), os.Remove(filepath.Join(a, "swap"))); err != nil {
			t.Fatal(err)
		}
		write(t, a, map[string]string{"swap/in": "a folder now"})
		push(t, r, a, first.Index)

		write(t, b, map[string]string{"mine": "changed here", "both": "changed here", "new-here": "1", "gone": "0"})
		if err := os.Remove(filepath.Join(b, "gone-here")); err != nil {
			t.Fatal(err)
		}
		res, err := r.Sync(t.Context(), open(t, b), here, workspace.PushOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Conflicts) != 1 || res.Conflicts[0].Path != "both" {
			t.Errorf("conflicts %q", res.Conflicts)
		}
		for path, want := range map[string]string{
			"same": "0", "theirs": "changed there", "mine": "changed here", "both": "changed here", "gone-here": "changed there",
			"new-here": "1", "new-there": "1", "d/x": "0", "d/y": "1", "swap/in": "a folder now",
		} {
			if got := read(t, b, path); got != want {
				t.Errorf("%s is %q, not %q", path, got, want)
			}
		}
		copies, err := filepath.Glob(filepath.Join(b, "both.conflict-*"))
		if err != nil || len(copies) != 1 || read(t, "/", copies[0]) != "changed there" {
			t.Errorf("the other copy: %q, %v", copies, err)
		}
		c := t.TempDir()
		pull(t, r, c, nil, workspace.PullOptions{})
		same(t, b, c)
	})
}

// Versions go by the policy, the newest never; bytes that a kept version refers to are never deleted,
// whatever is pushed meanwhile.
func TestPruneNeverBreaksAKeptVersion(t *testing.T) {
	testkit.Proves(t, "S17")
	m := newMemory()
	r, dir := &workspace.Repo{Store: m}, t.TempDir()
	var index *workspace.Index
	for i := range 200 {
		write(t, dir, map[string]string{"changing": fmt.Sprint(i), fmt.Sprint("kept", i%10): fmt.Sprint("k", i/50), "always": "the same"})
		index = push(t, r, dir, index).Index
		if i%20 != 19 {
			continue
		}
		done, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 7}, Grace: time.Hour})
		if err != nil || len(done.Kept) != 7 {
			t.Fatalf("kept %d, %v", len(done.Kept), err)
		}
		m.ago += 2 * time.Hour
		v, err := r.Verify(t.Context())
		if err != nil || v.Versions != 7 || len(v.Problems) > 0 {
			t.Fatalf("after %d pushes: %+v, %v", i+1, v, err)
		}
	}
	packs := 0
	for range m.List(t.Context(), "packs/", blob.ListOptions{}) {
		packs++
	}
	if packs > 60 {
		t.Errorf("%d packs are left of 200 pushes", packs)
	}
	for v, err := range r.Versions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		pull(t, r, t.TempDir(), nil, workspace.PullOptions{Version: v.ID})
	}
}

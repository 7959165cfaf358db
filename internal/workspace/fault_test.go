package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

var errBroken = errors.New("the store is broken")

// many makes a tree that takes several packs.
func many(t testing.TB, dir string) {
	t.Helper()
	files := map[string]string{"large": strings.Repeat("l", 5<<20)}
	for i := range 12 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = strings.Repeat(fmt.Sprintf("%08d", i), 100<<10)
	}
	write(t, dir, files)
}

// A send that fails ends the push with the store's error, whoever waits for it, and nothing goes on.
func TestFailedSendEndsThePush(t *testing.T) {
	testkit.Proves(t, "S13")
	a := t.TempDir()
	many(t, a)
	for _, kind := range []string{"packs/", workspace.StateFile, "HEAD"} {
		m := newMemory()
		m.hook = func(op, key string) error {
			if op == "put" && strings.Contains(key, kind) {
				return fault.Errorf("put", api.CodeBlobDenied, "%w", errBroken)
			}
			return nil
		}
		r := &workspace.Repo{Store: m}
		before := runtime.NumGoroutine()
		_, err := r.Push(t.Context(), open(t, a), nil, workspace.PushOptions{})
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", kind, err)
		}
		wantCode(t, err, api.CodeBlobDenied)
		testkit.Eventually(t, 30*time.Second, func() error {
			if n := runtime.NumGoroutine(); n > before+2 {
				return fmt.Errorf("%d goroutines go on", n-before)
			}
			return nil
		})
		if empty, err := r.Empty(t.Context()); !empty || err != nil {
			t.Errorf("%s: there is a version: %v", kind, err)
		}
		m.hook = nil
		push(t, r, a, nil)
		b := t.TempDir()
		pull(t, r, b, nil, workspace.PullOptions{})
		same(t, a, b)
	}
}

// A caller that goes away ends a push and a pull.
func TestCallerGoesAway(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	many(t, a)
	m := newMemory()
	r := &workspace.Repo{Store: m}
	for _, op := range []string{"push", "pull"} {
		if op == "pull" {
			push(t, r, a, nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		m.mu.Lock()
		m.hook = func(_, key string) error {
			if strings.HasPrefix(key, "packs/") {
				cancel()
			}
			return nil
		}
		m.mu.Unlock()
		var err error
		if op == "push" {
			_, err = r.Push(ctx, open(t, a), nil, workspace.PushOptions{})
		} else {
			_, err = r.Pull(ctx, open(t, b), nil, workspace.PullOptions{})
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", op, err)
		}
		m.mu.Lock()
		m.hook = nil
		m.mu.Unlock()
		cancel()
		if _, err := workspace.Scan(ctx, open(t, a), workspace.ScanOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("scan: %v", err)
		}
	}
	pull(t, r, b, nil, workspace.PullOptions{})
	same(t, a, b)
}

// The nth request fails, for every n: the version that was there can be restored, and trying again ends
// well.
func TestEveryRequestMayFail(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		for _, lost := range []bool{false, true} { // lost: it was done, and the answer did not come
			for n := 1; ; n++ {
				m := newMemory()
				r, a, b := &workspace.Repo{Store: m, Layout: layout}, t.TempDir(), t.TempDir()
				write(t, a, map[string]string{"f": "1", "g": "2", "d/h": "3"})
				first := push(t, r, a, nil)
				was := tree(t, a)
				write(t, a, map[string]string{"f": "one", "d/new": "4"})
				remove(t, a, "g")
				var calls atomic.Int64
				fail := func(string, string) error {
					if calls.Add(1) == int64(n) {
						return errBroken
					}
					return nil
				}
				if lost {
					m.after = fail
				} else {
					m.hook = fail
				}
				res, err := r.Push(t.Context(), open(t, a), first.Index, workspace.PushOptions{})
				m.hook, m.after = nil, nil
				base := first.Index
				if err == nil {
					base = res.Index
				}
				old := t.TempDir()
				pull(t, r, old, nil, workspace.PullOptions{Version: first.Version})
				if got := tree(t, old); len(got) != len(was) || got["f"] != was["f"] {
					t.Fatalf("call %d: the old version is %v", n, got)
				}
				if v, err := r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
					t.Fatalf("call %d: %+v, %v", n, v, err)
				}
				if _, err := r.Sync(t.Context(), open(t, a), base, workspace.PushOptions{}); err != nil {
					t.Fatalf("call %d, again: %v", n, err)
				}
				pull(t, r, b, nil, workspace.PullOptions{})
				same(t, a, b)
				if calls.Load() < int64(n) {
					break
				}
			}
		}
	}
}

// HEAD never leads to something that is not stored yet, however long that takes.
func TestHeadMovesLast(t *testing.T) {
	testkit.Proves(t, "S7")
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	many(t, a)
	var stored, early atomic.Int64
	m.after = func(op, key string) error {
		if op == "put" && strings.HasPrefix(key, "packs/") {
			runtime.Gosched()
			stored.Add(1)
		}
		return nil
	}
	headAt := int64(-1)
	m.hook = func(op, key string) error {
		switch {
		case op == "put" && key == "HEAD":
			headAt = stored.Load()
		case op == "put" && strings.HasPrefix(key, "packs/"):
			for range 2000 {
				runtime.Gosched()
			}
		}
		return nil
	}
	res := push(t, r, a, nil)
	if packs := int64(len(res.Index.Packs)); headAt != packs {
		t.Errorf("HEAD was written when %d of %d packs were stored (%d)", headAt, packs, early.Load())
	}
}

// A version may have a name. One that a push left unfinished can be used; one that is there cannot.
func TestNamedVersions(t *testing.T) {
	testkit.Proves(t, "S7")
	eachLayout(t, func(t *testing.T, r *workspace.Repo) {
		a := t.TempDir()
		write(t, a, map[string]string{"f": "1"})
		named := func(base *workspace.Index, name string) (*workspace.Result, error) {
			return r.Push(t.Context(), open(t, a), base, workspace.PushOptions{Version: name, Note: strings.Repeat("\x01note ", 1000)})
		}
		first, err := named(nil, "release-1")
		must(t, err)
		write(t, a, map[string]string{"f": "2"})
		_, err = named(first.Index, "release-1")
		wantCode(t, err, api.CodeConflict)
		objects(t, r.Store, map[string]string{r.Prefix + "release-2/" + workspace.StateFile: "left behind", r.Prefix + "names/release-2": ""})
		second, err := named(first.Index, "release-2")
		if r.Layout == workspace.Plain {
			wantCode(t, err, api.CodeConflict)
			second, err = named(first.Index, "release-3")
		}
		must(t, err)
		for i := range 5 {
			write(t, a, map[string]string{"f": fmt.Sprint(i)})
			second, err = named(second.Index, fmt.Sprint("more-", i))
			must(t, err)
		}
		for v, err := range r.Versions(t.Context()) {
			must(t, err)
			if len(v.Note) > 600 {
				t.Errorf("a note of %d bytes", len(v.Note))
			}
			pull(t, r, t.TempDir(), nil, workspace.PullOptions{Version: v.ID})
		}
		_, err = named(second.Index, "../x")
		wantCode(t, err, api.CodeBadManifest)
		done, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 1}})
		must(t, err)
		if len(done.Kept) != 1 {
			t.Errorf("%+v", done)
		}
		_, _, err = r.Version(t.Context(), "release-2")
		wantCode(t, err, api.CodeUnknownVersion)
	})
}

// Two pushes in one instant, and a clock that goes backwards, make versions that sort as they came.
func TestVersionsSortWhateverTheClockSays(t *testing.T) {
	testkit.Proves(t, "S7")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	now := time.Now()
	r.Now = func() time.Time { return now }
	var ids []string
	var index *workspace.Index
	for i := range 6 {
		if i >= 3 {
			now = now.Add(-time.Hour)
		}
		write(t, a, map[string]string{"f": fmt.Sprint(i)})
		res := push(t, r, a, index)
		index, ids = res.Index, append(ids, res.Version)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != 6 {
		t.Errorf("%q", ids)
	}
	var listed []string
	for v, err := range r.Versions(t.Context()) {
		must(t, err)
		listed = append(listed, v.ID)
	}
	slices.Reverse(listed)
	if !slices.Equal(ids, listed) {
		t.Errorf("%q listed as %q", ids, listed)
	}
}

// Files that change while they are read never stop a push; they are read again at the next.
func TestFilesThatChangeWhileRead(t *testing.T) {
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"still": "1", "dir/x": "1"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(do func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
					runtime.Gosched()
				}
			}
		})
	}
	log, err := os.OpenFile(filepath.Join(a, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must(t, err)
	defer log.Close()
	loop(func(int) {
		if st, err := log.Stat(); err == nil && st.Size() > 16<<20 {
			_ = log.Truncate(0)
		}
		_, _ = log.Write(make([]byte, 100<<10))
	})
	loop(func(i int) { _ = os.WriteFile(filepath.Join(a, "small"), []byte(strings.Repeat("x", i%9000)), 0o644) })
	loop(func(i int) {
		_ = os.RemoveAll(filepath.Join(a, "dir"))
		_ = os.MkdirAll(filepath.Join(a, "dir/deep"), 0o755)
		_ = os.WriteFile(filepath.Join(a, "dir/deep/x"), nil, 0o644)
		_ = os.Remove(filepath.Join(a, "swap"))
		_ = os.Symlink("dir", filepath.Join(a, "swap"))
		_ = os.Remove(filepath.Join(a, "swap"))
		_ = os.Mkdir(filepath.Join(a, "swap"), 0o755)
		_ = os.Remove(filepath.Join(a, "swap"))
	})
	var index *workspace.Index
	for range 15 {
		index = push(t, r, a, index).Index
	}
	close(stop)
	wg.Wait()
	push(t, r, a, index)
	b := t.TempDir()
	pull(t, r, b, nil, workspace.PullOptions{})
	same(t, a, b)
	if v, err := r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// HEAD and the pages it leads to are checked, too.
func TestDamagedHistoryIsRefused(t *testing.T) {
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	var index *workspace.Index
	for i := range 140 {
		write(t, a, map[string]string{"f": fmt.Sprint(i)})
		index = push(t, r, a, index).Index
	}
	good := m.clone()
	for name, change := range map[string]func(){
		"no JSON":    func() { m.change("HEAD", func([]byte) []byte { return []byte("{") }) },
		"format":     func() { m.replace("HEAD", `"format":1`, `"format":2`) },
		"empty":      func() { m.change("HEAD", func([]byte) []byte { return []byte(`{"format":1,"lineage":"l"}`) }) },
		"id":         func() { m.replace("HEAD", `{"id":"2`, `{"id":"../2`) },
		"log":        func() { m.replace("HEAD", `"log":"log/`, `"log":"log/../`) },
		"manifest":   func() { m.replace("HEAD", `{"id":`, `{"manifest":"HEAD","id":`) },
		"page":       func() { m.change("log/", func([]byte) []byte { return []byte("{") }) },
		"page's id":  func() { m.replace("log/", `{"id":"2`, `{"id":"../2`) },
		"huge":       func() { m.change("HEAD", func(b []byte) []byte { return append(b, make([]byte, 2<<20)...) }) },
		"no page":    func() { m.drop("log/") },
		"in circles": func() { m.change("log/", func([]byte) []byte { return []byte(`{"log":"` + m.key("log/") + `"}`) }) },
	} {
		m.data = map[string]kept{}
		for k, v := range good {
			m.data[k] = v
		}
		change()
		var failed error
		for _, err := range r.Versions(t.Context()) {
			failed = errors.Join(failed, err)
		}
		if failed == nil {
			t.Errorf("%s: was taken", name)
		}
		if _, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 1}}); err == nil {
			t.Errorf("%s: pruned", name)
		}
		if len(m.data) < len(good)-1 {
			t.Errorf("%s: something was deleted", name)
		}
	}
}

// What a failed push left behind is collected after the grace, manifests too, and what others put there
// is not.
func TestCollectionOfWhatWasLeft(t *testing.T) {
	testkit.Proves(t, "S17")
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		m := newMemory()
		r, a := &workspace.Repo{Store: m, Layout: layout}, t.TempDir()
		write(t, a, map[string]string{"f": "1"})
		first := push(t, r, a, nil)
		kept := len(m.data)
		objects(t, m, map[string]string{"20240101/a": "another's", "notes.txt": "another's"})
		write(t, a, map[string]string{"f": "2", "new": "3", "odd\n": "4"})
		m.hook = func(op, key string) error {
			if op == "put" && key == "HEAD" {
				return errBroken
			}
			return nil
		}
		if _, err := r.Push(t.Context(), open(t, a), first.Index, workspace.PushOptions{}); err == nil {
			t.Fatal("it did not fail")
		}
		m.hook = nil
		if len(m.data) < kept+4 {
			t.Fatalf("nothing was left: %d", len(m.data))
		}
		dry, err := r.Prune(t.Context(), workspace.PruneOptions{DryRun: true})
		if err != nil || dry.Waiting == 0 || len(dry.Removed) > 0 {
			t.Errorf("%+v, %v", dry, err)
		}
		for i := range 2 {
			done, err := r.Prune(t.Context(), workspace.PruneOptions{})
			must(t, err)
			if i == 0 && done.Packs > 0 || i == 1 && done.Packs == 0 {
				t.Errorf("round %d: %+v", i, done)
			}
			m.ago += 25 * time.Hour
		}
		if want := kept + 3; len(m.data) != want { // two of another's, and the list
			t.Errorf("%s: %d objects are left, not %d: %v", layout, len(m.data), want, m.keys())
		}
		pull(t, r, t.TempDir(), nil, workspace.PullOptions{})
	}
}

// Verify tells a broken object from a store that cannot be asked.
func TestVerifyTellsWhatIsBroken(t *testing.T) {
	testkit.Proves(t, "S17")
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	write(t, a, map[string]string{"f": "one", "g": "two", "large": strings.Repeat("l", 5<<20)})
	first := push(t, r, a, nil)
	write(t, a, map[string]string{"g": "three"})
	second := push(t, r, a, first.Index)
	good := m.clone()
	for name, c := range map[string]struct {
		change func()
		want   int
	}{
		"nothing": {func() {}, 0},
		"a pack": {func() {
			m.drop("packs/" + strings.TrimPrefix(first.Index.Packs[first.Index.Entries[0].At.Pack].Key, "packs/"))
		}, 3},
		"cut":       {func() { m.change("packs/", func(b []byte) []byte { return b[:len(b)-1] }) }, 4},
		"manifest":  {func() { m.drop(second.Version + "/") }, 1},
		"one piece": {func() { m.change("packs/", func(b []byte) []byte { b[0] ^= 1; return b }) }, 5},
	} {
		m.data = map[string]kept{}
		for k, v := range good {
			m.data[k] = v
		}
		c.change()
		v, err := r.Verify(t.Context())
		if err != nil || (len(v.Problems) == 0) != (c.want == 0) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	m.data = good
	m.hook = func(op, key string) error {
		if strings.HasPrefix(key, "packs/") {
			return errBroken
		}
		return nil
	}
	if v, err := r.Verify(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("%+v, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

var _ blob.Store = (*memory)(nil)

package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// long pushes many versions.
func long(t *testing.T, r *workspace.Repo, versions int, name func(i int) string) {
	t.Helper()
	dir := t.TempDir()
	d := open(t, dir)
	var base *workspace.Index
	for i := range versions {
		write(t, dir, map[string]string{"f": fmt.Sprint(i)})
		res, err := r.Push(t.Context(), d, base, workspace.PushOptions{Version: name(i)})
		must(t, err)
		base = res.Index
	}
}

// wantHistory reads every version of a history that should have so many.
func wantHistory(t *testing.T, r *workspace.Repo, want int) {
	t.Helper()
	if v, err := r.Verify(t.Context()); err != nil || v.Versions != want || len(v.Problems) > 0 {
		t.Fatalf("%+v, %v; there should be %d versions", v, err, want)
	}
}

// Two prunes at once that keep different versions: what the one that comes to its end keeps is there.
func TestPrunesAtOnce(t *testing.T) {
	testkit.Proves(t, "S17")
	m := newMemory()
	r := &workspace.Repo{Store: m}
	long(t, r, 110, func(int) string { return "" })
	commits := 0
	m.hook = func(op, key string) error {
		if op != "put" || key != "HEAD" {
			return nil
		}
		commits++
		if commits == 1 { // the other has written all but HEAD when this one does
			_, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 70}})
			if !errors.Is(err, errBroken) {
				t.Errorf("the other: %v", err)
			}
			return nil
		}
		return errBroken
	}
	done, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 100}})
	must(t, err)
	m.hook = nil
	if len(done.Kept) != 100 {
		t.Errorf("kept %d", len(done.Kept))
	}
	wantHistory(t, r, 100)
}

// Names of versions may be as long as is allowed, wherever in the history they are.
func TestLongNamesOfVersions(t *testing.T) {
	r := &workspace.Repo{Store: newMemory()}
	long(t, r, 80, func(i int) string { return fmt.Sprintf("%0100d", i) })
	_, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 70}})
	must(t, err)
	wantHistory(t, r, 70)
}

// endless is a store with a history that is made while it is read.
type endless struct {
	*memory
	versions int
}

const endlessPage = 64

func (s *endless) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	at, isPage := strings.CutPrefix(key, "log/")
	if key != "HEAD" && !isPage {
		return s.memory.Get(ctx, key, o)
	}
	first, _ := strconv.Atoi(at)
	var page struct {
		Format   int                 `json:"format"`
		Lineage  string              `json:"lineage"`
		Versions []workspace.Version `json:"versions"`
		Log      string              `json:"log,omitempty"`
	}
	page.Format, page.Lineage = 1, "l"
	for i := first; i < min(first+endlessPage, s.versions); i++ {
		page.Versions = append(page.Versions, workspace.Version{ID: fmt.Sprintf("v%08d", s.versions-i), SHA256: strings.Repeat("a", 64), At: time.Unix(0, 0), Note: strings.Repeat("n", 100)})
	}
	if first+endlessPage < s.versions {
		page.Log = fmt.Sprint("log/", first+endlessPage)
	}
	text, err := json.Marshal(page)
	return &blob.Object{Body: io.NopCloser(bytes.NewReader(text)), Size: int64(len(text)), Tag: "t"}, err
}

// A history of very many versions is listed in little memory.
func TestListOfVeryManyVersions(t *testing.T) {
	testkit.Proves(t, "S17")
	want := testkit.Size(t, "workspace.listed")
	r := &workspace.Repo{Store: &endless{newMemory(), want}}
	before, most, got := heap(), uint64(0), 0
	for v, err := range r.Versions(t.Context()) {
		must(t, err)
		if got++; v.ID != fmt.Sprintf("v%08d", want+1-got) {
			t.Fatalf("version %d is %s", got, v.ID)
		}
		if got%(want/4) == 0 {
			most = max(most, heap())
		}
	}
	if grew := int64(most) - int64(before); got != want || grew > 8<<20 {
		t.Errorf("%d of %d versions; they take %d bytes", got, want, grew)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A folder of very many files is saved, listed and restored.
func TestVeryManyFilesInOneFolder(t *testing.T) {
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	files := map[string]string{}
	for i := range testkit.Size(t, "workspace.folder") {
		files[filepath.Join("d", fmt.Sprintf("%07d", i))] = fmt.Sprint(i % 100)
	}
	write(t, a, files)
	res := push(t, r, a, nil)
	if got := len(res.Index.Entries); got != len(files)+1 {
		t.Errorf("%d entries", got)
	}
	got := pull(t, r, b, nil, workspace.PullOptions{})
	if again := push(t, r, b, got.Index); again.New {
		t.Error("what was restored is not what was saved")
	}
}

// A prune that dies at any of its writes leaves every version that it keeps, and those that it removes
// whole or unlisted; the next one comes to its end.
func TestKilledPruneLosesNothing(t *testing.T) {
	testkit.Proves(t, "S17")
	for name, layout := range map[string]workspace.Layout{"packed": workspace.Packed, "plain": workspace.Plain} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			r := &workspace.Repo{Store: m, Layout: layout}
			long(t, r, 70, func(int) string { return "" })
			good := m.clone()
			o := workspace.PruneOptions{Policy: workspace.Policy{Last: 66}, Grace: time.Nanosecond}
			stride := 4
			if testkit.Torture() {
				stride = 1
			}
			for n := 1; ; n += stride {
				m.data = maps.Clone(good)
				ops := 0
				m.hook = func(op, _ string) error {
					if op != "get" {
						ops++
					}
					if ops >= n {
						return errBroken
					}
					return nil
				}
				_, err := r.Prune(t.Context(), o)
				m.hook = nil
				if err == nil {
					if n < 10 {
						t.Errorf("it has %d writes", n)
					}
					return
				}
				if v, err := r.Verify(t.Context()); err != nil || v.Versions != 66 && v.Versions != 70 || len(v.Problems) > 0 {
					t.Fatalf("dead at write %d: %+v, %v", n, v, err)
				}
				for range 2 {
					_, err = r.Prune(t.Context(), o)
					must(t, err)
				}
				wantHistory(t, r, 66)
			}
		})
	}
}

package workspace_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// sparseFile makes a file of holes with a few bytes at the given places.
func sparseFile(t testing.TB, path string, size int64, at ...int64) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, n := range at {
		_, err := f.WriteAt([]byte(fmt.Sprint("data at ", n)), n)
		must(t, err)
	}
}

func storedBytes(m *memory) (n int64) {
	for _, o := range m.data {
		n += int64(len(o.data))
	}
	return n
}

// Files of holes take no room in the store, and have their holes again when they come back.
func TestHolesTakeNoRoom(t *testing.T) {
	testkit.Proves(t, "S9", "S12")
	m := newMemory()
	r := &workspace.Repo{Store: m}
	a, b := t.TempDir(), t.TempDir()
	sparseFile(t, filepath.Join(a, "all"), 90<<20)
	sparseFile(t, filepath.Join(a, "ends"), 90<<20, 0, 90<<20-64)
	sparseFile(t, filepath.Join(a, "middle"), 40<<20+17, 13<<20+5, 30<<20)
	for i := range 40 {
		sparseFile(t, filepath.Join(a, fmt.Sprint("small", i)), 3<<20, int64(i)<<14)
	}
	must(t, os.WriteFile(filepath.Join(a, "full"), []byte(strings.Repeat("0123456789abcdef", 5<<16)), 0o644))
	first := push(t, r, a, nil)
	if n := storedBytes(m); n > 8<<20 {
		t.Errorf("%d bytes are stored", n)
	}
	pull(t, r, b, nil, workspace.PullOptions{})
	same(t, a, b)
	for _, name := range []string{"all", "ends", "middle", "small7"} {
		st, err := os.Stat(filepath.Join(b, name))
		must(t, err)
		if blocks := sys(st).Blocks; blocks > 4096 {
			t.Errorf("%s takes %d blocks", name, blocks)
		}
	}
	report, err := r.Verify(t.Context())
	must(t, err)
	if len(report.Problems) > 0 {
		t.Errorf("%+v", report)
	}
	again := push(t, r, a, first.Index)
	if again.New {
		t.Error("nothing changed")
	}
	// One more byte in each adds little.
	before := storedBytes(m)
	sparseFile(t, filepath.Join(a, "ends"), 90<<20, 0, 45<<20, 90<<20-64)
	push(t, r, a, again.Index)
	if n := storedBytes(m) - before; n > 1<<20 {
		t.Errorf("a changed byte adds %d bytes", n)
	}
	pull(t, r, b, first.Index, workspace.PullOptions{})
	same(t, a, b)
}

// Any part of a file of holes can be read from a version by itself.
func TestPartsOfSparseFiles(t *testing.T) {
	m := newMemory()
	r := &workspace.Repo{Store: m}
	a := t.TempDir()
	const size = 6<<20 + 123
	path := filepath.Join(a, "f")
	sparseFile(t, path, size, 0, 1<<20+7, 3<<20, 3<<20+4000, 6<<20)
	push(t, r, a, nil)
	want, err := os.ReadFile(path)
	must(t, err)
	v, err := r.Newest(t.Context())
	must(t, err)
	manifest, err := r.ManifestOf(t.Context(), v)
	must(t, err)
	s := r.SnapshotOf(v, manifest)
	for range 200 {
		offset := rand.Int64N(size)
		body, err := s.Stream(t.Context(), &manifest.Entries[0], offset)
		must(t, err)
		got, err := io.ReadAll(body)
		must(t, err, body.Close())
		if string(got) != string(want[offset:]) {
			t.Fatalf("from %d: other bytes, %d of %d", offset, len(got), size-offset)
		}
	}
}

// A version that would take too much is refused with the names of the largest files.
func TestTooMuchIsNamed(t *testing.T) {
	testkit.Proves(t, "S12")
	a := t.TempDir()
	for name, size := range map[string]int{"small": 1 << 10, "large": 3 << 20, "d/largest": 6 << 20} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(a, name)), 0o755), os.WriteFile(filepath.Join(a, name), data, 0o644))
	}
	for _, limits := range []workspace.Limits{{Stored: 8 << 20}, {Bytes: 8 << 20}} {
		r := &workspace.Repo{Store: newMemory(), Limits: limits}
		_, err := r.Push(t.Context(), open(t, a), nil, workspace.PushOptions{})
		wantCode(t, err, api.CodeWorkspaceTooLarge)
		if !strings.Contains(err.Error(), "d/largest (6291456 bytes)") {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}

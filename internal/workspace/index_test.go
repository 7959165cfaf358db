package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/internal/testkit"
)

// A file that changed at about the time of the scan may have changed again in the same tick of the file
// system's clock: its stamp proves nothing.
func TestRacilyCleanFileIsRead(t *testing.T) {
	testkit.Proves(t, "S8")
	scanned := time.Now().UnixNano()
	second := int64(time.Second)
	for name, c := range map[string]struct {
		changed, modified int64
		clean             bool
	}{
		"long before":           {scanned - second, scanned - second, true},
		"just before":           {scanned - 1000, scanned - 1000, false},
		"after":                 {scanned + 1000, scanned + 1000, false},
		"its time was set back": {scanned + 1000, scanned - second, false},
	} {
		e := Entry{Path: "f", Kind: File, Size: 3, ModTime: c.modified, Mode: 0o644}
		x := &Index{Manifest: Manifest{Entries: []Entry{e}}, Stamps: []Stamp{{c.changed, 7}}, Scanned: scanned}
		seen := Seen{Path: "f", Kind: File, Size: 3, ModTime: c.modified, Mode: 0o644, Stamp: Stamp{c.changed, 7}}
		if x.clean(0, &seen) != c.clean {
			t.Errorf("%s: clean is %v", name, !c.clean)
		}
		seen.Stamp.Inode++
		if x.clean(0, &seen) {
			t.Errorf("%s: another file is clean", name)
		}
	}
}

// An index is read as it was written, and one bit of it that differs makes it worthless.
func TestIndexIsWholeOrNothing(t *testing.T) {
	x := &Index{
		Manifest: Manifest{
			ID: "v1", Lineage: "l", Parent: "v0", Sequence: 3, At: time.Unix(0, 12345).UTC(),
			Packs: []Pack{{"packs/a", 10}},
			Entries: []Entry{
				{Path: "d", Kind: Folder, Mode: 0o755, ModTime: 5},
				{Path: "d/f", Kind: File, Mode: 0o644, ModTime: 6, Size: 4, At: PackOffset{0, 6}, Sum: Sum{SHA256: [32]byte{1}, MD5: [16]byte{2}}},
				{Path: "l", Kind: Link, Mode: 0o777, ModTime: 7, Target: "d"},
			},
		},
		HeadTag: "t", Digest: [32]byte{9}, Stamps: []Stamp{{1, 2}, {3, 4}, {5, 6}}, Scanned: 99,
	}
	path := filepath.Join(t.TempDir(), "sub", "index")
	if err := x.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := LoadIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x, got, cmpopts.IgnoreUnexported(Index{})); diff != "" {
		t.Errorf("read back:\n%s", diff)
	}
	text := x.encode()
	rapid.Check(t, func(t *rapid.T) {
		broken := append([]byte(nil), text...)
		broken[rapid.IntRange(0, len(broken)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if _, err := decodeIndex(broken); err == nil {
			t.Fatal("a broken index was read")
		}
	})
	for n := range text {
		if _, err := decodeIndex(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read as an index", n, len(text))
		}
	}
	if err := os.WriteFile(path, text[:40], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadIndex(path); got != nil || err != nil {
		t.Errorf("a torn index: %v, %v", got, err)
	}
	if got, err := LoadIndex(path + "none"); got != nil || err != nil {
		t.Errorf("no index: %v, %v", got, err)
	}
}

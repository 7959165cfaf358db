package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/guest/wire"
)

// ended is a spool with two segments.
func ended(t *testing.T) (dir string, second string) {
	t.Helper()
	w, dir := create(t, 1<<20)
	for range 4 {
		write(t, w, 1, strings.Repeat("x", MaxFrame))
	}
	starts := w.starts
	finish(t, w, wire.Exit{})
	if len(starts) != 2 {
		t.Fatalf("segments %v", starts)
	}
	return dir, filepath.Join(dir, segmentName(starts[1]))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir, second string)
		want   error
	}{
		"cut short":   {func(t *testing.T, _, second string) { must(t, os.Truncate(second, 100)) }, ErrDamaged},
		"emptied":     {func(t *testing.T, _, second string) { must(t, os.Truncate(second, 0)) }, ErrDamaged},
		"overwritten": {func(t *testing.T, _, second string) { must(t, os.WriteFile(second, make([]byte, 4096), 0o600)) }, ErrDamaged},
		"a frame too long": {func(t *testing.T, _, second string) {
			must(t, os.WriteFile(second, []byte{1, 255, 255, 255, 0}, 0o600))
		}, ErrDamaged},
		"gone": {func(t *testing.T, _, second string) { must(t, os.Remove(second)) }, ErrDamaged},
		"all gone": {func(t *testing.T, dir, second string) {
			must(t, os.Remove(second))
			must(t, os.Remove(filepath.Join(dir, segmentName(0))))
		}, ErrDamaged},
		"the first gone": {func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, segmentName(0)))) }, ErrTrimmed},
		"another end": {func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, exitFile), []byte("nonsense!!"), 0o600))
		}, ErrDamaged},
		"an end too short": {func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, exitFile), []byte{1}, 0o600))
		}, ErrDamaged},
		"an end too long":     {func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, exitFile), 1<<40)) }, ErrDamaged},
		"no such spool":       {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(dir)) }, ErrNone},
		"files of other kind": {func(t *testing.T, dir, _ string) { must(t, os.WriteFile(filepath.Join(dir, "0000"), nil, 0o600)) }, nil},
	} {
		dir, second := ended(t)
		c.damage(t, dir, second)
		if _, _, err := read(t, dir, 0); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A link in the place of a segment leads nowhere.
func TestLinksAreNotFollowed(t *testing.T) {
	dir, second := ended(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, append([]byte{1, 0, 0, 6}, "secret"...), 0o600))
	must(t, os.Remove(second))
	must(t, os.Symlink(secret, second))
	if text, _, err := read(t, dir, 0); err == nil || strings.Contains(text, "secret") {
		t.Errorf("a segment: error %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, exitFile)))
	must(t, os.Symlink(secret, filepath.Join(dir, exitFile)))
	if _, _, err := read(t, dir, 0); err == nil {
		t.Error("an end was read through a link")
	}
	if err := Close(filepath.Dir(dir), wire.Exit{Lost: true}); err == nil {
		t.Error("an end was written through a link")
	}
	if b, err := os.ReadFile(secret); err != nil || len(b) != 10 {
		t.Errorf("the link's target is %q, %v", b, err)
	}
}

func TestCloseEndsWhatWasLost(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir, newest string)
		want   string
	}{
		"as it was":        {func(*testing.T, string, string) {}, "onetwo"},
		"half a frame":     {func(t *testing.T, _, newest string) { must(t, os.Truncate(newest, 9)) }, "one"},
		"half a header":    {func(t *testing.T, _, newest string) { must(t, os.Truncate(newest, 8)) }, "one"},
		"zeros at the end": {func(t *testing.T, _, newest string) { must(t, os.Truncate(newest, 100)) }, "onetwo"},
		"no output":        {func(t *testing.T, _, newest string) { must(t, os.Remove(newest)) }, ""},
		"no end":           {func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, exitFile))) }, "onetwo"},
		"half an end": {func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, exitFile), []byte{1, 0, 0}, 0o600))
		}, "onetwo"},
	} {
		w, dir := create(t, 1<<20)
		write(t, w, 1, "one")
		write(t, w, 2, "two")
		c.damage(t, dir, filepath.Join(dir, segmentName(0)))
		for range 2 { // the second time there is nothing to do
			if err := Close(filepath.Dir(dir), wire.Exit{Lost: true, At: 5}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if text, exit, err := read(t, dir, 0); err != nil || text != c.want || exit == nil || !exit.Lost || exit.At != 5 {
			t.Errorf("%s: %q, exit %+v, error %v", name, text, exit, err)
		}
	}
}

func TestCloseLeavesWhatHasEnded(t *testing.T) {
	w, dir := create(t, 1<<20)
	write(t, w, 1, "text")
	finish(t, w, wire.Exit{Code: 7})
	if err := Close(filepath.Dir(dir), wire.Exit{Lost: true}); err != nil {
		t.Fatal(err)
	}
	if text, exit, err := read(t, dir, 0); err != nil || text != "text" || exit.Lost || exit.Code != 7 {
		t.Errorf("%q, exit %+v, error %v", text, exit, err)
	}
	if err := Close(filepath.Join(dir, "nowhere"), wire.Exit{}); err != nil {
		t.Errorf("where there are none: %v", err)
	}
}

func TestSegmentNames(t *testing.T) {
	for _, start := range []int64{0, 1, 255, 1 << 40, 1<<63 - 1} {
		if got, ok := segmentStart(segmentName(start)); !ok || got != start {
			t.Errorf("%d is named %s, which means %d", start, segmentName(start), got)
		}
	}
	for _, name := range []string{"", "0", "exit", "000000000000000g", "00000000000000AB", "ffffffffffffffff", "-000000000000001", "0x00000000000001"} {
		if start, ok := segmentStart(name); ok {
			t.Errorf("%q is a segment, at %d", name, start)
		}
	}
}

// Whatever is in a file, reading it ends.
func FuzzParse(f *testing.F) {
	f.Add([]byte{1, 0, 0, 3, 'a', 'b', 'c', 2, 0, 0, 1, 'd'})
	f.Add([]byte{1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, used, err := parse(b, 10)
		at, size := int64(10), 0
		for _, fr := range frames {
			at += int64(len(fr.Data))
			size += header + len(fr.Data)
			if fr.Next != at || len(fr.Data) == 0 || len(fr.Data) > MaxFrame {
				t.Fatalf("a frame of %d bytes leads to %d, not to %d", len(fr.Data), fr.Next, at)
			}
		}
		if size != used || used > len(b) || err != nil && err != ErrDamaged {
			t.Fatalf("%d bytes of %d used, %d in frames, error %v", used, len(b), size, err)
		}
		if end, x, err := decodeEnd(b); err == nil {
			if again, _, err := decodeEnd(encodeEnd(end, x)); err != nil || again != end {
				t.Fatalf("end %d is read as %d, error %v", end, again, err)
			}
		}
	})
}

package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/workspace"
)

// meadow is a tree of 10,000 files of 4 KiB in 2,401 folders.
func meadow(b *testing.B, dir string) {
	b.Helper()
	n := 0
	for i := range 49 {
		for j := range 48 {
			sub := filepath.Join(dir, fmt.Sprintf("dir%02d/sub%02d", i, j))
			must(b, os.MkdirAll(sub, 0o755))
			for range 5 {
				if n++; n > 10_000 {
					return
				}
				must(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%05d.txt", n)), []byte(strings.Repeat(fmt.Sprintf("%08d", n), 512)), 0o644))
			}
		}
	}
}

func shm(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "workspace")
	must(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func BenchmarkTree(b *testing.B) {
	dir := shm(b)
	meadow(b, dir)
	r := &workspace.Repo{Store: newMemory()}
	first := push(b, r, dir, nil)
	text := first.State
	index := workspace.EncodeIndex(first.Index)
	b.Run("push", func(b *testing.B) {
		for b.Loop() {
			push(b, &workspace.Repo{Store: newMemory()}, dir, nil)
		}
	})
	b.Run("nochange", func(b *testing.B) {
		for b.Loop() {
			push(b, r, dir, first.Index)
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			to := shm(b)
			pull(b, r, to, nil, workspace.PullOptions{})
			b.StopTimer()
			_ = os.RemoveAll(to)
			b.StartTimer()
		}
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			first.Index.Encode()
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := workspace.Decode(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			if _, err := workspace.DecodeIndex(index); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("percent", func(b *testing.B) {
		last, n := first.Index, 0
		for b.Loop() {
			b.StopTimer()
			n++
			for i := range 40 {
				for j := range 2 {
					matches, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("dir%02d/sub%02d/*", i, j)))
					must(b, os.WriteFile(matches[0], []byte(strings.Repeat(fmt.Sprintf("%08d", n), 512)), 0o644))
				}
			}
			b.StartTimer()
			last = push(b, r, dir, last).Index
		}
	})
}

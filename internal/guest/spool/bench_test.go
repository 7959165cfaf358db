package spool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// BenchmarkFollow is one small write and the wake-up of the reader that follows it, one after the other.
// The processor's time is of both.
func BenchmarkFollow(b *testing.B) {
	w, dir := create(b, 64<<20)
	seen := make(chan int64, 1)
	var wg sync.WaitGroup
	wg.Go(func() { follow(b.Context(), dir, seen) })
	line := []byte(strings.Repeat("x", 200))
	used := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(1, line); err != nil {
			b.Fatal(err)
		}
		<-seen
	}
	b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
	if err := w.Finish(wire.Exit{}); err != nil {
		b.Fatal(err)
	}
	wg.Wait()
}

// BenchmarkFollowMany is the same of a hundred spools that are written at once.
func BenchmarkFollowMany(b *testing.B) {
	const many = 100
	root, err := os.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	seen := make(chan int64, many)
	var ws [many]*Writer
	var wg sync.WaitGroup
	for i := range ws {
		id := segmentName(int64(i))
		if ws[i], err = Create(int(root.Fd()), id, 64<<20); err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { follow(b.Context(), filepath.Join(root.Name(), id), seen) })
	}
	line := []byte(strings.Repeat("x", 200))
	used := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, w := range ws {
			if err := w.Write(1, line); err != nil {
				b.Fatal(err)
			}
		}
		for range ws {
			<-seen
		}
	}
	b.ReportMetric(float64(processorTime(b)-used)/float64(b.N)/many, "cpu-ns/event")
	for _, w := range ws {
		if err := w.Finish(wire.Exit{}); err != nil {
			b.Fatal(err)
		}
		_ = w.Sync()
	}
	wg.Wait()
}

// follow tells of every frame with data.
func follow(ctx context.Context, dir string, seen chan<- int64) {
	for f, err := range Read(ctx, dir, 0) {
		if err == nil && f.Exit == nil {
			seen <- f.Next
		}
	}
}

// processorTime is what this process had of the processors.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

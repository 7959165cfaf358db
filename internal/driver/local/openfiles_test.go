package local

import (
	"math"
	"strings"
	"testing"
)

func TestOpenFilesOfAnInstance(t *testing.T) {
	for _, tt := range []struct {
		processes, machine int64
		want               uint64
	}{
		{1024, math.MaxInt64, mostOpenFiles},
		{1024, 4 << 20, 2048},
		{64, 1 << 20, 8192},
		{1024, 1 << 20, leastOpenFiles},
		{0, 1 << 20, mostOpenFiles},
	} {
		if got := noFile(tt.processes, tt.machine); got != tt.want {
			t.Errorf("%d processes on a machine with %d files: %d each, want %d", tt.processes, tt.machine, got, tt.want)
		}
	}
}

func TestNoteOnOpenFiles(t *testing.T) {
	for _, tt := range []struct {
		processes, machine, enough int64
		canRaise                   bool
		want                       string
	}{
		{64, 1 << 30, 1 << 28, false, "limits of memory before fs.file-max"},
		{64, 1 << 20, 1 << 28, true, "raises it to 268435456"},
		{64, 1 << 20, 1 << 28, false, "queues of sockets; raise it: sysctl -w fs.file-max=268435456"},
		{1024, 1 << 20, 1 << 28, false, "1048576 files open; raise it: sysctl -w fs.file-max=268435456"},
		{64, 1 << 20, 0, true, "cgroup.memory=nokmem"},
	} {
		if got := fileNotes(tt.processes, tt.machine, tt.enough, tt.canRaise); !strings.Contains(got, tt.want) {
			t.Errorf("%d of %d files, raised %v: %q", tt.machine, tt.enough, tt.canRaise, got)
		}
	}
}

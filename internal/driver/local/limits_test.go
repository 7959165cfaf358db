package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

func limited(l driver.Limits) driver.Spec {
	s := spec()
	s.Limits = l
	return s
}

// A fork bomb uses up its own processes and nobody else's: the helper still runs commands afterwards.
func TestForkBombIsBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, limited(driver.Limits{Processes: 64})).ID
	r := run(t, d, id, sh("i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done; echo all"))
	if strings.Contains(r.Out, "all") || !strings.Contains(strings.ToLower(r.Err), "fork") {
		t.Errorf("300 processes under a limit of 64: %d %s%s", r.Code, r.Out, r.Err)
	}
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := run(t, d, id, sh("echo on")); r.Out != "on\n" {
			return fmt.Errorf("after a fork bomb: %+v", r)
		}
		return nil
	})
}

// Who takes too much memory is ended; the instance is not.
func TestMemoryIsBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, limited(driver.Limits{MemoryBytes: 64 << 20})).ID
	r := run(t, d, id, sh("head -c 400m /dev/zero | tail >/dev/null; echo ended with $?"))
	if !strings.Contains(r.Out, "ended with 137") {
		t.Errorf("400 MiB under a limit of 64: %+v", r)
	}
	if got := output(t, d, id, sh("echo on")); got != "on\n" {
		t.Errorf("got %q", got)
	}
}

// Who takes more than its part of a processor is held back.
func TestProcessorsAreBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	// The limit is below what the machine gives to all sandboxes together when it is busy.
	id := create(t, d, limited(driver.Limits{CPU: 0.05})).ID
	r := run(t, d, id, sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"))
	if r.Code != 0 || r.CPU < 50*time.Millisecond {
		t.Fatalf("too little work to be held back: %+v", r)
	}
	if throttled := cgroupFile(t, id, "cpu.stat"); !strings.Contains(throttled, "nr_throttled") || strings.Contains(throttled, "nr_throttled 0\n") {
		t.Errorf("it was never held back:\n%s", throttled)
	}
}

// cgroupFile reads a file of the instance's cgroup for processors.
func cgroupFile(t *testing.T, id driver.ID, name string) string {
	t.Helper()
	data, err := os.ReadFile(cgroupPath(t, id, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func cgroupPath(t *testing.T, id driver.ID, name string) string {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/cpu/berth/", "/sys/fs/cgroup/cpu/*/berth/", "/sys/fs/cgroup/berth/", "/sys/fs/cgroup/*/berth/", "/sys/fs/cgroup/*/*/berth/"} {
		found, err := filepath.Glob(pattern + string(id) + ".*/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("there is no cgroup of %s with %s", id, name)
	return ""
}

func TestTemporaryFilesAreBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, limited(driver.Limits{MemoryBytes: 64 << 20})).ID
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		r := run(t, d, id, sh("head -c 60m /dev/zero >"+dir+"/big"))
		if !strings.Contains(r.Err, "No space left") {
			t.Errorf("60 MiB in %s: %+v", dir, r)
		}
		output(t, d, id, sh("rm "+dir+"/big"))
	}
}

func TestFilesAreBoundedInSize(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, limited(driver.Limits{DiskBytes: 8 << 20, DiskSoft: true})).ID
	r := run(t, d, id, sh("head -c 16m /dev/zero >big"))
	if r.Code == 0 {
		t.Error("a file is larger than the disk")
	}
	if got := strings.TrimSpace(output(t, d, id, sh("stat -c %s big"))); got != "8388608" {
		t.Errorf("the file has %s bytes", got)
	}
}

// Who writes more than the disk's limit is ended, with a reason that stays until there is room again.
func TestDiskIsWatched(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir(), func(o *local.Options) { o.DiskEvery = 20 * time.Millisecond })
	id := create(t, d, limited(driver.Limits{DiskBytes: 8 << 20, DiskSoft: true})).ID
	r := run(t, d, id, sh("for i in 1 2 3 4; do head -c 4m /dev/zero >file$i; done; sleep 600"))
	if r.Code != 137 {
		t.Errorf("16 MiB on a disk of 8: %+v", r)
	}
	reason := func() string {
		st, err := d.Inspect(t.Context(), id)
		if err != nil || st.Phase != driver.PhaseRunning {
			t.Fatalf("%+v, %v", st, err)
		}
		return st.Reason
	}
	if got := reason(); !strings.Contains(got, "8 MiB") {
		t.Errorf("the reason is %q", got)
	}
	fs, err := d.Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	for i := 1; i <= 4; i++ {
		if err := fs.Remove(t.Context(), fmt.Sprintf("file%d", i), false); err != nil && fault.CodeOf(err) != api.CodeFileNotFound {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if got := reason(); got != "" {
			return fmt.Errorf("with room again the reason is %q", got)
		}
		return nil
	})
}

// What is too deep to be measured is not a place to hide.
func TestDeepTreesAreNoHidingPlace(t *testing.T) {
	d := open(t, t.TempDir(), func(o *local.Options) { o.DiskEvery = 20 * time.Millisecond })
	id := create(t, d, limited(driver.Limits{DiskBytes: 64 << 20, DiskSoft: true})).ID
	r := run(t, d, id, sh("i=0; while [ $i -lt 1200 ]; do mkdir d && cd d || break; i=$((i+1)); done; sleep 600"))
	if r.Code != 137 {
		t.Errorf("1,200 levels deep: %+v", r)
	}
	st, err := d.Inspect(t.Context(), id)
	if err != nil || !strings.Contains(st.Reason, "deep") {
		t.Errorf("%+v, %v", st, err)
	}
}

// A hard limit is the end of the disk, and the disk lives and goes with the instance.
func TestHardDisk(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, limited(driver.Limits{DiskBytes: 32 << 20, DiskHard: true})).ID
	r := run(t, d, id, sh("for i in 1 2 3 4; do head -c 10m /dev/zero >file$i; done; echo kept >mark"))
	if !strings.Contains(r.Err, "No space left") {
		t.Errorf("40 MiB on a disk of 32: %+v", r)
	}
	output(t, d, id, sh("rm file*; echo kept >mark"))
	if strings.Contains(output(t, d, id, sh("cat /proc/self/mountinfo")), "loop") {
		t.Error("the disk's device is shown")
	}
	for _, step := range []func() error{
		func() error { return d.Stop(t.Context(), id) },
		func() error { return readMark(t, d, id) },
		func() error { _, err := d.Start(t.Context(), id); return err },
		func() error { return readMark(t, d, id) },
		func() error { return d.Destroy(t.Context(), id) },
		func() error { return d.WaitIdle(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 30*time.Second, func() error { return noLoop(string(id)) })
	for _, l := range []driver.Limits{{DiskBytes: 1 << 20, DiskHard: true}} {
		if _, err := d.Create(t.Context(), limited(l)); driver.Classify(err) != "invalid" {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func readMark(t *testing.T, d *local.Driver, id driver.ID) error {
	fs, err := d.Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		return err
	}
	defer fs.Close()
	f, err := fs.Open(t.Context(), "mark")
	if err != nil {
		return err
	}
	defer f.Close()
	var text [5]byte
	if _, err := f.ReadAt(text[:], 0); err != nil || string(text[:]) != "kept\n" {
		return fmt.Errorf("the mark is %q: %w", text, err)
	}
	return nil
}

// noLoop is an error while a device holds a file with the name in its path.
func noLoop(name string) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), name) {
			return fmt.Errorf("%s is %s", file, data)
		}
	}
	return err
}

// What an instance writes to its disk in a second is bounded, by the kernel and for its own device, until it ends.
func TestWritesToTheDiskAreBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, limited(driver.Limits{DiskBytes: 1 << 30, DiskHard: true})).ID
	number := loopOf(t, filepath.Join(dir, string(id)))
	if got := writeBound(t, number); got != "209715200" {
		t.Errorf("device %s is bound to %q bytes in a second", number, got)
	}
	began := time.Now()
	r := run(t, d, id, sh("head -c 700m /dev/zero >big && sync big"))
	if took := time.Since(began); r.Code != 0 || took < 2*time.Second {
		t.Errorf("700 MiB at 200 in a second took %v: %+v", took, r)
	}
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	got := writeBound(t, number)
	_, free := os.Stat("/sys/dev/block/" + number + "/loop") // another test may have the device by now
	if got != "" && free != nil {
		t.Errorf("after the end device %s is bound to %q bytes in a second", number, got)
	}
}

// loopOf is the number of the device that holds a file below dir.
func loopOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), dir) {
			number, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "dev"))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(number))
		}
	}
	t.Fatalf("no device holds a file below %s", dir)
	return ""
}

// writeBound is how many bytes may be written to a device in a second, in cgroups of either version; empty: no bound.
func writeBound(t *testing.T, number string) string {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device", "/sys/fs/cgroup/berth/*/io.max", "/sys/fs/cgroup/*/*/berth/*/io.max"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, _ := os.ReadFile(file)
			for line := range strings.Lines(string(data)) {
				if fields := strings.Fields(line); fields[0] == number {
					_, value, _ := strings.Cut(line, "wbps=")
					return strings.Fields(value + " " + fields[1])[0]
				}
			}
		}
	}
	return ""
}

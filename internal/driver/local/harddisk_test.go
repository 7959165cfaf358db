package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// hoard takes disk space that no name in the tree shows.
const hoard = `exec 8>a 9>b; rm a b; head -c 20m /dev/zero >&8; head -c 20m /dev/zero >&9; sleep 600`

// A hard limit counts files without a name, and files without content.
func TestHardDiskCountsEverything(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	d := open(t, dir, func(o *local.Options) { o.DiskEvery = 50 * time.Millisecond })
	id := create(t, d, limited(driver.Limits{DiskBytes: 32 << 20})).ID
	r := run(t, d, id, sh(`exec 8>a 9>b; rm a b; head -c 30m /dev/zero >&8; head -c 30m /dev/zero >&9; true`))
	if !strings.Contains(r.Err, "No space left") {
		t.Errorf("60 MiB without a name on a disk of 32: %+v", r)
	}
	r = run(t, d, id, sh(`mkdir many; cd many; i=0; while [ $i -lt 12000 ]; do : >f$i || exit 3; i=$((i+1)); done`))
	if r.Code != 3 && !strings.Contains(r.Err, "No space left") {
		t.Errorf("12,000 files on a disk of 32 MiB: %+v", r)
	}
	waitReason(t, d, id, "its disk is full")
	// It can be entered, and emptied.
	output(t, d, id, sh(`rm -r many; echo kept >mark`))
	waitReason(t, d, id, "")
	if err := readMark(t, d, id); err != nil {
		t.Error(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, string(id), "disk.img"), &st); err != nil || st.Blocks*512 > 48<<20 {
		t.Errorf("the image takes %d bytes: %v", st.Blocks*512, err)
	}
}

// The status of an instance shows a full disk at once, and forgets it at once, without a measurement in between.
func TestStatusShowsAFullDiskAtOnce(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir(), func(o *local.Options) { o.DiskEvery = -1 })
	id := create(t, d, limited(driver.Limits{DiskBytes: 32 << 20})).ID
	reason := func() string {
		st, err := d.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return st.Reason
	}
	for _, fill := range []string{"head -c 30m /dev/zero >big; head -c 30m /dev/zero >more", "mkdir many; cd many; seq 1 12000 | xargs touch"} {
		if r := run(t, d, id, sh(fill)); !strings.Contains(r.Err, "No space left") {
			t.Fatalf("%s: %+v", fill, r)
		}
		if got := reason(); !strings.Contains(got, "its disk is full") {
			t.Errorf("%s: the reason is %q", fill, got)
		}
		output(t, d, id, sh("rm -rf big more many"))
		if got := reason(); got != "" {
			t.Errorf("after its files were deleted the reason is %q", got)
		}
	}
}

func waitReason(t *testing.T, d *local.Driver, id driver.ID, want string) {
	t.Helper()
	testkit.Eventually(t, 3*time.Minute, func() error {
		st, err := d.Inspect(t.Context(), id)
		if err != nil {
			return err
		}
		if want == "" && st.Reason != "" || !strings.Contains(st.Reason, want) {
			return fmt.Errorf("the reason is %q, not %q", st.Reason, want)
		}
		return nil
	})
}

// An instance with a disk that is full to the last block, or the last file, can be stopped, read, started and emptied.
func TestFullHardDiskStarts(t *testing.T) {
	for name, fill := range map[string]string{
		"bytes": `cat /dev/zero >/home/agent/big; cat /dev/zero >/workspace/big; true`,
		"files": `cd /home/agent; i=0; while : >f$i; do i=$((i+1)); done; true`,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir())
			id := create(t, d, limited(driver.Limits{DiskBytes: 16 << 20})).ID
			output(t, d, id, sh(`echo kept >mark; sync`))
			run(t, d, id, asRoot(sh(fill)))
			if err := d.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if err := readMark(t, d, id); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			output(t, d, id, asRoot(sh(`rm -rf /workspace/big /home/agent/*; echo again >/workspace/more`)))
			if err := readMark(t, d, id); err != nil {
				t.Error(err)
			}
		})
	}
}

// Deleted files give their space back to the machine.
func TestHardDiskShrinks(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, limited(driver.Limits{DiskBytes: 256 << 20})).ID
	taken := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, string(id), "disk.img"), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	output(t, d, id, sh(`head -c 100m /dev/zero >big; sync`))
	if n := taken(); n < 100<<20 {
		t.Fatalf("the image takes %d bytes", n)
	}
	output(t, d, id, sh(`rm big; sync`))
	testkit.Eventually(t, time.Minute, func() error {
		if n := taken(); n > 40<<20 {
			return fmt.Errorf("with the file deleted the image takes %d bytes", n)
		}
		return nil
	})
}

// The watched limit counts files without a name, too, and how many files there are.
func TestWatchedDiskCountsEverything(t *testing.T) {
	testkit.Proves(t, "E3")
	for name, script := range map[string]string{
		"open":   hoard,
		"inodes": `i=0; while [ $i -lt 12000 ]; do : >f$i; i=$((i+1)); done; sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), func(o *local.Options) { o.DiskEvery = 50 * time.Millisecond })
			id := create(t, d, limited(driver.Limits{DiskBytes: 32 << 20, DiskSoft: true})).ID
			conn, err := d.Guest(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.Start(t.Context(), "hog", sh(script)); err != nil {
				t.Fatal(err)
			}
			waitReason(t, d, id, "its processes were ended")
		})
	}
}

// One instance with many files does not delay the check of another.
func TestLargeTreeDelaysNoOther(t *testing.T) {
	testkit.Proves(t, "E3")
	measured := make(chan driver.ID, 1000)
	d := open(t, t.TempDir(), func(o *local.Options) {
		o.DiskEvery = 50 * time.Millisecond
		o.At = func(point string, id driver.ID) {
			if point == "measured" {
				select {
				case measured <- id:
				default:
				}
			}
		}
	})
	var large []driver.ID
	for range 5 { // more than are measured at the same moment
		id := create(t, d, limited(driver.Limits{DiskBytes: 10 << 30, DiskSoft: true})).ID
		output(t, d, id, sh(`mkdir d; cd d; seq 1 1500 | xargs touch; for i in 1 2 3; do cp -r . ../e$i; done`))
		large = append(large, id)
	}
	small := create(t, d, limited(driver.Limits{DiskBytes: 8 << 20, DiskSoft: true})).ID
	for len(measured) > 0 {
		<-measured
	}
	// While the large ones are measured once or twice, the small one is measured again and again.
	turns := map[driver.ID]int{}
	for turns[small] < 10 {
		turns[<-measured]++
	}
	for _, id := range large {
		if turns[id] > 8 {
			t.Errorf("a large tree was measured %d times, the small one %d times", turns[id], turns[small])
		}
	}
}

// Files that were kept in a directory move into a disk when the instance starts again.
func TestWatchedInstanceMovesToHardDisk(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, limited(driver.Limits{DiskBytes: 64 << 20, DiskSoft: true})).ID
	output(t, d, id, asRoot(sh(`cd /workspace; echo kept >mark; chown agent mark; chmod 640 mark; ln mark hard; ln -s mark soft; mkfifo pipe
		truncate -s 1G sparse; touch -d 2001-02-03 old; rm -f /etc/hosts.none; rm -r /etc/profile.d 2>/dev/null; mkdir -p deep/er; setfattr -n user.mine -v 7 mark 2>/dev/null; true`)))
	look := func() string {
		return output(t, d, id, sh(`cd /workspace; stat -c '%n %U %a %h %s %Y %F' mark hard soft pipe sparse old deep/er; ls -d /etc/profile.d 2>&1; cat mark`))
	}
	before := look()
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	unmark(t, dir, id)
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if after := look(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := os.Stat(filepath.Join(dir, string(id), "disk.img")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, string(id), "fs")); err == nil {
		t.Error("the directory is still there")
	}
	if r := run(t, d, id, sh("head -c 90m /dev/zero >big")); !strings.Contains(r.Err, "No space left") && !strings.Contains(r.Err, "too large") {
		t.Errorf("90 MiB on a disk of 64: %+v", r)
	}
}

// unmark makes the record that of an instance whose template did not choose a kind of limit.
func unmark(t *testing.T, dir string, id driver.ID) {
	t.Helper()
	path := filepath.Join(dir, string(id), "record.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), `"DiskSoft":true`, `"DiskSoft":false`)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Files that do not fit stay where they are, and the status says so.
func TestTooLargeInstanceStaysWatched(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, func(o *local.Options) { o.DiskEvery = -1 })
	id := create(t, d, limited(driver.Limits{DiskBytes: 16 << 20, DiskSoft: true})).ID
	output(t, d, id, sh(`echo kept >mark; for i in 1 2 3; do head -c 10m /dev/zero >f$i; done`))
	for _, want := range []string{"they take more than the limit", ""} {
		if err := d.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		unmark(t, dir, id)
		if want == "" {
			removeFile(t, d, id, "f1", "f2")
		}
		if _, err := d.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := readMark(t, d, id); err != nil {
			t.Error(err)
		}
		waitReason(t, d, id, want)
	}
	if err := noFile(filepath.Join(dir, string(id), "fs")); err != nil {
		t.Error(err)
	}
}

func removeFile(t *testing.T, d *local.Driver, id driver.ID, names ...string) {
	t.Helper()
	root, err := d.Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range names {
		if err := root.Remove(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
}

func noFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("there is %s", path)
	}
	return nil
}

// A move that is cut off anywhere is done again by the next start, and loses nothing.
func TestInterruptedMoveIsRepeated(t *testing.T) {
	for _, point := range []string{"moving", "moved"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			stop := make(chan struct{})
			d := open(t, dir, func(o *local.Options) {
				o.At = func(at string, _ driver.ID) {
					if at == point {
						select {
						case <-stop:
						default:
							close(stop)
							panic("cut off")
						}
					}
				}
			})
			id := create(t, d, limited(driver.Limits{DiskBytes: 32 << 20, DiskSoft: true})).ID
			output(t, d, id, sh("echo kept >mark"))
			if err := d.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			unmark(t, dir, id)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the start went through")
					}
				}()
				d.Start(t.Context(), id)
			}()
			if _, err := d.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if err := readMark(t, d, id); err != nil {
				t.Error(err)
			}
			if got := output(t, d, id, guest.Cmd{Argv: []string{"cat", "mark"}}); got != "kept\n" {
				t.Errorf("got %q", got)
			}
			if err := noFile(filepath.Join(dir, string(id), "fs")); err != nil {
				t.Error(err)
			}
		})
	}
}

// When the machine's disk is full below an image, a program that asks for its data to be written learns of it. What
// was written before is kept, the status says what happened, and the instance works again once there is room.
func TestFullMachineBelowAHardDisk(t *testing.T) {
	top := smallDisk(t, "size=64m")
	dir := filepath.Join(top, "local")
	d := open(t, dir, func(o *local.Options) { o.DiskEvery = 50 * time.Millisecond })
	id := create(t, d, limited(driver.Limits{DiskBytes: 1 << 30})).ID
	output(t, d, id, sh("echo kept >mark; sync mark"))
	r := run(t, d, id, sh("dd if=/dev/zero of=big bs=1M count=200 conv=fsync"))
	if r.Code == 0 {
		t.Error("200 MiB were written on a machine with 64")
	}
	t.Logf("inside: %s", r.Err)
	if err := unix.Mount("tmpfs", top, "tmpfs", unix.MS_REMOUNT, "size=512m"); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := readMark(t, d, id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, id, sh("rm -f big; cat mark; dd if=/dev/zero of=more bs=1M count=20 conv=fsync 2>/dev/null && echo again")); got != "kept\nagain\n" {
		t.Errorf("got %q", got)
	}
	waitReason(t, d, id, "")
}

package local_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// left lists what there is on this machine of instances whose directory is dir, or whose ID is given:
// cgroups, processes, mounts and files.
func left(dir string, id driver.ID) []string {
	var found []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(path, "berth/"+string(id)) {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	processes, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range processes {
		if data, _ := os.ReadFile(path); bytes.Contains(data, []byte("/berth/"+string(id))) {
			found = append(found, "process "+path)
		}
	}
	if data, _ := os.ReadFile("/proc/self/mountinfo"); bytes.Contains(data, []byte(dir)) {
		found = append(found, "mount of "+dir)
	}
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		if strings.Contains(path, string(id)) {
			found = append(found, "file "+path)
		}
		return nil
	})
	return found
}

// firstUID is where the uids of an instance begin.
func firstUID(t *testing.T, d *local.Driver, id driver.ID) int {
	t.Helper()
	fields := strings.Fields(output(t, d, id, sh("cat /proc/self/uid_map")))
	first, err := strconv.Atoi(fields[1])
	if err != nil || len(fields) != 3 || fields[0] != "0" || fields[2] != "65536" {
		t.Fatalf("the uids are %q", fields)
	}
	return first
}

// held counts what holds a range of uids: its lock and its socket.
func held(t *testing.T, first int) (n int) {
	t.Helper()
	number := int64(first-0x10000000) >> 16
	if data, _ := os.ReadFile("/proc/net/unix"); strings.Contains(string(data), fmt.Sprintf("@berth-uid-%d\n", number)) {
		n++
	}
	f, err := os.OpenFile("/run/berth/uids.lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: number, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if lock.Type != unix.F_UNLCK {
		n++
	}
	return n
}

// After destroying it nothing is left of an instance, whatever it did before.
func TestNothingIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	for name, live := range map[string]func(id driver.ID) error{
		"running": func(id driver.ID) error { return nil },
		"stopped": func(id driver.ID) error { return d.Stop(t.Context(), id) },
		"frozen":  func(id driver.ID) error { return d.Freeze(t.Context(), id) },
		"started again": func(id driver.ID) error {
			if err := d.Stop(t.Context(), id); err != nil {
				return err
			}
			_, err := d.Start(t.Context(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := create(t, d, spec()).ID
			first := firstUID(t, d, id)
			if held(t, first) != 2 {
				t.Error("nobody holds the uids")
			}
			conn, err := d.Guest(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.Start(t.Context(), "job", sh("trap '' TERM; sleep 600 & sleep 600")); err != nil {
				t.Fatal(err)
			}
			if len(left(dir, id)) < 5 {
				t.Errorf("of a live instance only %q is found", left(dir, id))
			}
			if err := live(id); err != nil {
				t.Fatal(err)
			}
			if err := d.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if err := d.WaitIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 30*time.Second, func() error {
				if found := left(dir, id); len(found) > 0 || held(t, first) > 0 {
					return fmt.Errorf("left behind: %q, uids held: %d", found, held(t, first))
				}
				return nil
			})
		})
	}
}

// A stopped instance is files and nothing else.
func TestStoppedInstanceIsOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, spec()).ID
	first := firstUID(t, d, id)
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, what := range left(dir, id) {
		if !strings.HasPrefix(what, "file ") {
			t.Errorf("a stopped instance has a %s", what)
		}
	}
	if held(t, first) > 0 {
		t.Error("a stopped instance holds its uids")
	}
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/testkit"
)

// held locks a directory as another process would, signed or not.
func held(t testing.TB, dir, signature string) (release func()) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(signature)
	}
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = file.Close() }
}

func TestWorkspaceOneSyncAtATime(t *testing.T) {
	testkit.Proves(t, "S11")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	d.does("push", here)
	for signature, who := range map[string]string{"process 42 on elsewhere\n": "process 42 on elsewhere", "": "another process", "evil\x1b[2J\n": `evil\x1b[2J`} {
		release := held(t, here, signature)
		for _, verb := range []string{"push", "pull", "sync", "restore"} {
			d.refuses(api.CodeBusy, []string{here + " is being synced by " + who, "wait for it with --wait"}, verb, here)
		}
		d.does("diff", here) // to look is free
		d.does("versions", here)
		release()
		if err := os.Truncate(filepath.Join(here, lockName), 0); err != nil {
			t.Fatal(err)
		}
	}
	d.does("push", here)
	if text, err := os.ReadFile(filepath.Join(here, lockName)); err != nil || len(text) > 0 {
		t.Errorf("after a sync the lock says %q, %v", text, err)
	}
}

func TestWorkspaceWaitsWhenToldTo(t *testing.T) {
	testkit.Proves(t, "S11")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	release := held(t, here, "process 42 on elsewhere\n")
	m := newTerminal(t)
	ended := make(chan result, 1)
	go func() { ended <- d.at(m).berth("workspace", "push", "--wait", here) }()
	m.Wait("waiting for process 42 on elsewhere")
	release()
	if r := <-ended; r.code != 0 {
		t.Errorf("%+v", r)
	}
	m.Wait("saved version ")
}

func TestWorkspaceWaitCanBeInterrupted(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	defer held(t, here, "")()
	m := newTerminal(t)
	ended := make(chan result, 1)
	go func() { ended <- d.at(m).berth("workspace", "push", "--wait", here) }()
	m.Wait("waiting for another process")
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.code != ui.ExitInterrupted {
		t.Errorf("%+v", r)
	}
}

// TestWorkspaceFilesOfOurOwnAreNotFollowed: a user who can write into the directory cannot make us read or
// overwrite files outside it.
func TestWorkspaceFilesOfOurOwnAreNotFollowed(t *testing.T) {
	testkit.Proves(t, "S12")
	for _, name := range []string{".sandbox-state", ".sandbox-state.lock", ".sandbox-state.idx", ".sandbox-state.idx.tmp"} {
		for _, kind := range []string{"link", "pipe"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				d := newDesk(t)
				here := d.tree("here", map[string]string{"a": "1"})
				d.does("push", here)
				fill(t, here, map[string]string{"a": "2"})
				outside := filepath.Join(t.TempDir(), "outside")
				at := filepath.Join(here, name)
				err := os.WriteFile(outside, []byte("precious"), 0o600)
				_ = os.Remove(at)
				switch {
				case err != nil:
				case kind == "link":
					err = os.Symlink(outside, at)
				default:
					err = syscall.Mkfifo(at, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				if r := d.berth("workspace", "sync", here); r.code != 0 && !strings.Contains(r.err, "hint: ") {
					t.Errorf("%+v", r)
				}
				if text, err := os.ReadFile(outside); err != nil || string(text) != "precious" {
					t.Errorf("it was overwritten: %q, %v", text, err)
				}
				if text, err := os.ReadFile(filepath.Join(here, "a")); err != nil || string(text) != "2" {
					t.Errorf("a is %q, %v", text, err)
				}
			})
		}
	}
}

func mkfifo(dir string, n int) error {
	return syscall.Mkfifo(filepath.Join(dir, fmt.Sprint("pipe", n)), 0o600)
}

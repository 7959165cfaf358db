package app_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// privileged are programs that give who runs them another identity or capabilities, by what is done to them.
var privileged = map[string]string{
	"setuid": "chmod 4755 %", "setgid": "chmod 2755 %", "blessed": "{attacker} bless %",
}

// Root inside can mark a program so that it makes its user root. On the machine the mark does nothing, not even for
// a process that got the open file; and no copy that leaves the sandbox has it.
func TestPrivilegedProgramsAreInertOutside(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	a.marksGainNothing(filepath.Join("/proc", a.guest("box"), "root", "workspace"))
	a.unmarked()
	a.unmarkedArchive()
	if _, err := a.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sandboxes.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	a.unmarked()
	if _, err := a.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if got := a.sh("box", "root", "ls /workspace; find /workspace -perm /6000"); !strings.Contains(got, "setuid\n") || strings.Contains(got, "/workspace/") {
		t.Errorf("restored: %q", got)
	}
}

// marksGainNothing makes the privileged programs in the sandbox and runs them on the machine, where its workspace is dir.
func (a *arena) marksGainNothing(dir string) {
	a.Helper()
	for name, how := range privileged {
		line := func(dir string) string {
			path := filepath.Join(dir, name)
			return "cp " + dir + "/attacker " + path + " && chown 0:0 " + path + " && " +
				strings.NewReplacer("%", path, "{attacker}", dir+"/attacker").Replace(how)
		}
		if out, err := exec.Command("sh", "-c", line(a.public)).CombinedOutput(); err != nil {
			a.Fatalf("%s: %v %s", name, err, out)
		}
		if code, out := a.gains(filepath.Join(a.public, name)); code != 0 {
			a.Errorf("%s of this machine gains nothing, so this proves nothing: %s", name, out)
		}
		a.sh("box", "root", line("/workspace"))
		a.gainsNothing(filepath.Join(dir, name))
	}
}

func (a *arena) gainsNothing(path string) {
	a.Helper()
	if code, out := a.gains(path); code != 1 || !strings.Contains(out, "nothing gained") {
		a.Errorf("%s: %d, %s", path, code, out)
	}
}

// With a watched disk limit the programs lie in a directory of the machine. They do nothing there either, while the
// sandbox runs and when it is stopped, also after the server was killed, and nothing is left mounted.
func TestPrivilegedProgramsAreInertInDirectories(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "\n[templates.watched]\nextends = \"default\"\ndisk = \"soft\"\n")
	box := a.box("box", "watched")
	workspace := filepath.Join(a.instanceDir(box.ID), "fs", "upper", "workspace")
	a.marksGainNothing(workspace)
	if err := unix.Mknod(filepath.Join(workspace, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(filepath.Join(workspace, "null")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the device was opened: %v, %v", f, err)
	}
	a.restart(t)
	for name := range privileged {
		a.gainsNothing(filepath.Join(workspace, name))
	}
	if _, err := a.Sandboxes.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	a.restart(t)
	for name := range privileged {
		a.gainsNothing(filepath.Join(workspace, name))
	}
	a.clear()
	if err := leftOf(a.data, []string{box.ID}); err != nil {
		t.Error(err)
	}
}

// restart kills the server and starts another one.
func (a *arena) restart(t *testing.T) {
	a.Helper()
	_ = a.server.cmd.Process.Kill()
	_ = a.server.cmd.Wait()
	a.server = start(t, a.env)
	a.Client = a.server.client(t)
	t.Cleanup(a.clear)
}

// gains runs a program as a user without any rights, who gets it as an open file.
func (a *arena) gains(path string) (code int, out string) {
	a.Helper()
	f, err := os.Open(path)
	if err != nil {
		a.Fatal(err)
	}
	defer f.Close()
	cmd := exec.CommandContext(a.Context(), "/proc/self/fd/3", "become")
	cmd.Dir, cmd.Env, cmd.ExtraFiles, cmd.SysProcAttr = "/", []string{}, []*os.File{f}, &syscall.SysProcAttr{Credential: nobody()}
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(data)
}

// unmarked checks that no file of the server is setuid or setgid, or has capabilities.
func (a *arena) unmarked() {
	a.Helper()
	seen := 0
	err := filepath.WalkDir(a.data, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || e != nil && !e.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		seen++
		info, err := e.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			a.Errorf("%s has mode %v", path, info.Mode())
		}
		if n, err := unix.Lgetxattr(path, "security.capability", nil); err == nil && n > 0 {
			a.Errorf("%s has capabilities", path)
		}
		return nil
	})
	if err != nil || seen < 5 {
		a.Errorf("%d files were looked at, %v", seen, err)
	}
}

func (a *arena) unmarkedArchive() {
	a.Helper()
	d, err := a.Sandboxes.DownloadArchive(a.Context(), "box", "", "", false)
	if err != nil {
		a.Fatal(err)
	}
	defer d.Close()
	found := 0
	for r := tar.NewReader(d); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			a.Fatal(err)
		}
		if privileged[filepath.Base(h.Name)] != "" {
			found++
		}
		if h.Mode&0o7000 != 0 || len(h.PAXRecords) > 0 && strings.Contains(strings.Join(slices.Collect(maps.Keys(h.PAXRecords)), " "), "xattr") {
			a.Errorf("%s is archived with mode %o and %v", h.Name, h.Mode, h.PAXRecords)
		}
	}
	if found != len(privileged) {
		a.Errorf("%d of the programs are archived", found)
	}
}

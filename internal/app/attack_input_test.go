package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// A command that cannot be run, or takes too long, answers with the code that a shell would give it, and
// with a reason.
func TestCommandsThatCannotRunSaySo(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	a.sh("box", "agent", "echo text > /workspace/text; printf '#!/no/such/interpreter\\n' > /workspace/script; chmod +x /workspace/script; printf 'not a program' > /workspace/noise; chmod +x /workspace/noise; mkdir /workspace/dir; ln -s loop /workspace/loop")
	for _, c := range []struct {
		command api.Command
		more    api.Exec
		code    int
	}{
		{api.Command{"no-such-command"}, api.Exec{}, 127},
		{api.Command{"/no/such/program"}, api.Exec{}, 127},
		{api.Command{"./text/below"}, api.Exec{}, 127},
		{api.Command{"/workspace/script"}, api.Exec{}, 127},
		{api.Command{"/workspace/text"}, api.Exec{}, 126},
		{api.Command{"/workspace/noise"}, api.Exec{}, 126},
		{api.Command{"/workspace/dir"}, api.Exec{}, 126},
		{api.Command{"/workspace/loop"}, api.Exec{}, 126},
		{api.Command{"true"}, api.Exec{Cwd: "/no/such/place"}, 126},
		{api.Command{"true"}, api.Exec{Cwd: "text"}, 126},
		{api.Command{"sleep", "1000"}, api.Exec{TimeoutSeconds: 0.3}, 124},
		{api.Shell("trap '' TERM INT HUP; while :; do sleep 1000; done"), api.Exec{TimeoutSeconds: 0.3}, 124},
		{api.Shell("kill -9 $$"), api.Exec{}, 137},
		{api.Shell("exit 3"), api.Exec{}, 3},
	} {
		c.more.Command = c.command
		res := a.run("box", c.more)
		if res.ExitCode != c.code || (c.code >= 124 && c.code <= 127) && res.Reason == "" {
			t.Errorf("%q %+v: %+v, want %d", c.command, c.more, res.ExecExit, c.code)
		}
	}
	for _, c := range []api.Exec{{}, {Command: api.Command{""}}, {Command: api.Command{"a\x00b"}}, {Command: api.Command{"true"}, Env: map[string]string{"A=B": "x"}}, {Command: api.Command{"true"}, Env: map[string]string{"A": "x\x00"}}, {Command: api.Command{"true"}, User: "nobody"}, {Command: api.Command{"true"}, Cwd: "a\x00"}} {
		if _, err := a.Sandboxes.Exec(t.Context(), "box", c); problem(err).Status < 400 || problem(err).Status >= 500 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	a.works("box", 1)
}

// A name that is taken is refused, and who has it keeps it.
func TestANameIsTakenOnce(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	first := a.box("box", "")
	const other = "0190f3a4-0000-7000-8000-000000000001"
	if _, _, err := a.Sandboxes.Create(t.Context(), api.CreateSandbox{ID: other, Name: "box"}); problem(err).Code != api.CodeNameTaken {
		t.Errorf("%v", err)
	}
	if again, made, err := a.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil || made || again.ID != first.ID {
		t.Errorf("%+v, %v, %v", again, made, err)
	}
	if _, _, err := a.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box", Template: "none"}); problem(err).Code != api.CodeSpecMismatch {
		t.Errorf("%v", err)
	}
	a.works("box", 1)
}

// A template whose base is not there keeps the server from starting, and a base that goes away later is
// said by name.
func TestUnknownBaseIsNamed(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	file := filepath.Join(dir, "berth.toml")
	if err := os.WriteFile(file, []byte("[templates.odd]\nextends = \"default\"\nbase = \"nosuch\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := refused(t, append(local(t), "BERTH_CONFIG="+file))
	if !strings.Contains(said, "nosuch") || !strings.Contains(said, "build-base") {
		t.Errorf("it said %q", said)
	}
	image := filepath.Join(dir, "image")
	for _, sub := range []string{"bin", "usr", "etc", "dev", "proc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(image, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(image, "bin", "sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	a := newArena(t, "[templates.odd]\nextends = \"default\"\nbase = \""+image+"\"\n")
	if err := os.RemoveAll(image); err != nil {
		t.Fatal(err)
	}
	_, _, err := a.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "odd", Template: "odd"})
	if p := problem(err); p.Status < 400 || !strings.Contains(p.Detail, image) {
		t.Errorf("%v", err)
	}
	a.box("even", "")
}

// A full disk is an error to whoever needs more of it, in words that say so. When there is room again,
// everything goes on.
func TestFullDiskIsAnErrorAndPasses(t *testing.T) {
	t.Parallel()
	data := filepath.Join(publicDir(t), "data")
	local := filepath.Join(data, "local") // the disk of sandboxes alone: the database is on another
	smallDisk(t, local)
	a := newArenaAt(t, data, "")
	a.box("box", "")
	room := a.fillUp(local)
	a.sayable("exec", func(ctx context.Context, boxes client.Sandboxes) error {
		res, err := boxes.Exec(ctx, "box", api.Exec{Command: []string{"/workspace/attacker", "fill", "/workspace/file", "1"}})
		if err == nil && (res.ExitCode != 1 || !strings.Contains(res.Stderr, "no space left")) {
			t.Errorf("%+v", res)
		}
		return err
	})
	_, _, err := a.Sandboxes.WriteFile(t.Context(), "box", "", "file", strings.NewReader(strings.Repeat("x", 1<<20)), client.WriteOptions{})
	if problem(err).Code != api.CodeDiskFull {
		t.Errorf("%v", err)
	}
	a.sayable("create", func(ctx context.Context, boxes client.Sandboxes) error {
		_, _, err := boxes.Create(ctx, api.CreateSandbox{Name: "late"})
		return err
	})
	room()
	a.works("box", 1)
	a.box("later", "")
	a.works("later", 1)
}

// When the database's disk is full, too, nothing is lost and no answer is a riddle.
func TestFullDataDirectoryIsAnErrorAndPasses(t *testing.T) {
	t.Parallel()
	data := filepath.Join(publicDir(t), "data")
	smallDisk(t, data)
	a := newArenaAt(t, data, "")
	a.box("box", "")
	room := a.fillUp(data)
	a.sayable("create", func(ctx context.Context, boxes client.Sandboxes) error {
		_, _, err := boxes.Create(ctx, api.CreateSandbox{Name: "late"})
		return err
	})
	a.sayable("exec", func(ctx context.Context, boxes client.Sandboxes) error {
		_, err := boxes.Exec(ctx, "box", api.Exec{Command: api.Command{"true"}})
		return err
	})
	if _, err := a.Sandboxes.Get(t.Context(), "box"); err != nil {
		t.Errorf("it cannot even be looked at: %v", err)
	}
	room()
	a.works("box", 1)
	a.box("later", "")
	a.works("later", 1)
}

// smallDisk mounts a file system that is soon full.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=96m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// fillUp leaves no byte on a disk. It returns what makes room again.
func (a *arena) fillUp(dir string) (room func()) {
	a.Helper()
	ballast := filepath.Join(dir, "ballast")
	room = func() { _ = os.Remove(ballast) }
	a.Cleanup(room)
	if code, out := a.plain(nil, "", "fill", ballast, "200"); code != 1 || !strings.Contains(out, "no space left") {
		a.Fatalf("exit code %d, %q", code, out)
	}
	return room
}

// sayable does something that may fail for want of room: soon, and with a code that is not just
// "internal".
func (a *arena) sayable(what string, do func(context.Context, client.Sandboxes) error) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	once := a.server.client(a.T, client.WithAttempts(1)) // it does not get better by asking again
	err := do(ctx, once.Sandboxes)
	if p := problem(err); err != nil && (p.Status < 500 || p.Code == api.CodeInternal || p.Hint == "") {
		a.Errorf("%s on a full disk: %v", what, err)
	}
}

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// crashEnv tells another process of this test binary where to die, with which directory and which sandbox.
const crashEnv = "BERTH_LOCAL_TEST_CRASH"

// crash is the process that dies: it makes and destroys an instance, and kills itself at a point.
func crash(t *testing.T, order string) {
	parts := strings.SplitN(order, " ", 3)
	d, err := local.New(t.Context(), local.Options{
		Dir: parts[2], Exe: helper, Tier: local.TierRoot, DiskEvery: -1,
		At: func(point string, _ driver.ID) {
			if point == parts[0] {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	st, err := d.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: parts[1], Incarnation: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(d.Destroy(t.Context(), st.ID))
}

// Wherever a process is killed, the next one finds an instance that runs, or none.
func TestKilledAnywhere(t *testing.T) {
	if order := os.Getenv(crashEnv); order != "" {
		crash(t, order)
	}
	for point, want := range map[string]string{
		"after-claim": "gone", "after-cgroup": "gone", "after-clone": "gone", "mid-mount": "gone or running",
		"after-ready": "running", "mid-destroy": "gone or running",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := driver.Spec{Key: driver.Key{Sandbox: uuid.NewString(), Incarnation: 1}}
			id := driver.ID(s.Key.Sandbox + "-1")
			killedAt(t, point, s.Key.Sandbox, dir)
			d := open(t, dir)
			outcome := settled(t, d, id)
			if !strings.Contains(want, outcome) {
				t.Errorf("killed at %s, it is %s, not %s", point, outcome, want)
			}
			if outcome == "gone" {
				noneLeft(t, d, dir, id)
				create(t, d, s)
			} else if _, err := d.Create(t.Context(), s); driver.Classify(err) != "exists" {
				t.Errorf("Create of what runs: %v", err)
			}
			output(t, d, id, sh("echo alive"))
			if err := d.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			noneLeft(t, d, dir, id)
		})
	}
}

// killedAt runs a process on dir that is killed at a point while it makes, or destroys, the first instance
// of a sandbox.
func killedAt(t *testing.T, point, sandbox, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilledAnywhere$")
	cmd.Env = append(os.Environ(), crashEnv+"="+point+" "+sandbox+" "+dir, helperEnv+"="+helper)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process was not killed at %s: %v\n%s", point, err, out)
	}
}

// A driver that is open already takes over what another one left unfinished.
func TestUnfinishedCreateIsTakenOver(t *testing.T) {
	for point, phase := range map[string]driver.Phase{"after-clone": driver.PhaseFailed, "after-ready": driver.PhaseRunning} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir)
			s := spec()
			id := driver.ID(s.Key.Sandbox + "-1")
			killedAt(t, point, s.Key.Sandbox, dir)
			testkit.Eventually(t, 30*time.Second, func() error {
				if st, err := d.Inspect(t.Context(), id); err != nil || st.Phase != phase {
					return fmt.Errorf("%+v, %v", st, err)
				}
				return nil
			})
			_, err := d.Create(t.Context(), s)
			if phase == driver.PhaseFailed && err != nil || phase == driver.PhaseRunning && driver.Classify(err) != "exists" {
				t.Errorf("Create: %v", err)
			}
			for range 2 {
				output(t, d, id, sh("echo alive"))
				if err := d.Stop(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Start(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			noneLeft(t, d, dir, id)
		})
	}
}

// What a probe leaves that is killed is removed by the next driver.
func TestKilledProbe(t *testing.T) {
	dir := t.TempDir()
	probe := dir + "/.probe-1"
	if err := os.Mkdir(probe, 0o700); err != nil {
		t.Fatal(err)
	}
	sandbox := uuid.NewString()
	killedAt(t, "after-ready", sandbox, probe+"/local")
	if len(left(probe, driver.ID(sandbox+"-1"))) < 5 {
		t.Fatal("the probe left nothing to be removed")
	}
	noneLeft(t, open(t, dir), dir, driver.ID(sandbox+"-1"))
	if _, err := os.Stat(probe); !os.IsNotExist(err) {
		t.Errorf("the probe's directory is still there: %v", err)
	}
}

// settled waits until an instance is gone or runs.
func settled(t *testing.T, d *local.Driver, id driver.ID) (outcome string) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		st, err := d.Inspect(t.Context(), id)
		switch {
		case errors.Is(err, driver.ErrNotFound):
			outcome = "gone"
		case err == nil && st.Phase == driver.PhaseRunning:
			outcome = "running"
		default:
			return fmt.Errorf("%+v, %v", st, err)
		}
		return nil
	})
	return outcome
}

func noneLeft(t *testing.T, d *local.Driver, dir string, id driver.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if found := left(dir, id); len(found) > 0 {
			return fmt.Errorf("left behind: %q", found)
		}
		return nil
	})
}

// An instance, its processes and what they write outlive the driver; the next one goes on with them.
func TestAdoption(t *testing.T) {
	dir := t.TempDir()
	first, err := local.New(t.Context(), local.Options{Dir: dir, Exe: helper, Tier: local.TierRoot})
	if err != nil {
		t.Fatal(err)
	}
	s := spec()
	st, err := first.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := first.Guest(t.Context(), st.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Start(t.Context(), "job", sh("echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 7")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	t.Cleanup(func() { d.Destroy(context.Background(), st.ID) })
	output(t, d, st.ID, sh("touch go"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var text string
	code := -1
	for chunk, err := range d.Output(ctx, st.ID, "job", 0) {
		if err != nil {
			t.Fatal(err)
		}
		text += string(chunk.Data)
		if chunk.Exit != nil {
			code = chunk.Exit.Code
		}
	}
	if text != "before\nafter\n" || code != 7 {
		t.Errorf("the process wrote %q and ended with %d", text, code)
	}
}

// The output of a process that a stop ended stays, and says that its end was not its own.
func TestStopEndsSpools(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "job", sh("trap '' TERM; echo begun; sleep 600")); err != nil {
		t.Fatal(err)
	}
	for chunk, err := range d.Output(t.Context(), id, "job", 0) {
		if err != nil || string(chunk.Data) != "begun\n" {
			t.Fatalf("%+v, %v", chunk, err)
		}
		break
	}
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	lost := false
	for chunk, err := range d.Output(t.Context(), id, "job", 0) {
		if err != nil {
			t.Fatal(err)
		}
		lost = chunk.Exit != nil && chunk.Exit.Lost
	}
	if !lost {
		t.Error("the output of an ended process does not say that it was lost")
	}
}

// Processes that end when they are asked to are waited for, and no longer.
func TestStopIsGraceful(t *testing.T) {
	d := open(t, t.TempDir(), func(o *local.Options) { o.Grace = time.Minute })
	id := create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "job", sh("trap 'echo asked >asked; exit' TERM; echo ready; while :; do sleep 0.05; done")); err != nil {
		t.Fatal(err)
	}
	for _, err := range d.Output(t.Context(), id, "job", 0) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // less than the grace
	defer cancel()
	if err := d.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, id, sh("cat asked")); got != "asked\n" {
		t.Errorf("got %q", got)
	}
}

// firstProcess is the first process of an instance.
func firstProcess(t testing.TB, d driver.Guester, id driver.ID) (pid int) {
	t.Helper()
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pid, err = conn.(interface {
		PeerPID(context.Context) (int, error)
	}).PeerPID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// An instance whose first process is gone is stopped, and starts again.
func TestInstanceThatDied(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	id := create(t, d, spec()).ID
	output(t, d, id, sh("echo kept >mark"))
	if err := syscall.Kill(firstProcess(t, d, id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		st, err := d.Inspect(t.Context(), id)
		if err != nil || st.Phase != driver.PhaseStopped {
			return fmt.Errorf("%+v, %v", st, err)
		}
		return nil
	})
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, id, sh("cat mark")); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}

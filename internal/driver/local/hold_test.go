package local

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// space starts a process tree in a process namespace of its own.
func space(t *testing.T, script string) *running {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r, err := childOf(cmd.Process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.kill(); err != nil {
			t.Error(err)
		}
		if err := r.wait(t.Context()); err == nil && r.alive() {
			t.Error("what is gone is alive")
		}
		r.file.Close()
	})
	return r
}

// Without cgroups, every process of an instance is stopped, and goes on.
func TestHoldWithoutCgroups(t *testing.T) {
	r := space(t, "sleep 600 & sleep 600 & while :; do sleep 0.01; done")
	testkit.Eventually(t, 30*time.Second, func() error {
		if pids, err := namespaceProcesses(r.pid); err != nil || len(pids) < 3 {
			return os.ErrNotExist
		}
		return nil
	})
	if err := hold(t.Context(), r, true); err != nil {
		t.Fatal(err)
	}
	pids, err := namespaceProcesses(r.pid)
	if err != nil || len(pids) < 3 || !allStopped(pids) {
		t.Errorf("held are %v, %v", pids, err)
	}
	d := assemble(&Driver{})
	if others, err := d.others(nil, r); err != nil || len(others) != len(pids)-1 {
		t.Errorf("but for the first there are %v, %v", others, err)
	}
	if err := hold(t.Context(), r, false); err != nil {
		t.Errorf("not let go: %v", err)
	}
}

// This process's own namespace is no instance's.
func TestHoldsNobodyElse(t *testing.T) {
	if pids, err := namespaceProcesses(os.Getpid()); err == nil {
		t.Errorf("%d processes would be held", len(pids))
	}
}

func TestStoppedProcesses(t *testing.T) {
	if stopped(os.Getpid()) {
		t.Error("this process is stopped")
	}
	if !stopped(1 << 30) {
		t.Error("a process that is not there does something")
	}
}

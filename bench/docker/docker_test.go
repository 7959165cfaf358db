//go:build docker

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/bench/docker"
	"github.com/berthdev/berth/internal/testkit"
)

// A Docker is brought up, used in every way that the benchmarks use one, and leaves nothing.
func TestADockerOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	before := mounts(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	d, err := docker.Start(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	useDocker(ctx, t, d)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in its directory: %v, %v", left, err)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/berth-bench-*"); err != nil || len(left) > 0 {
		t.Errorf("left cgroups: %v, %v", left, err)
	}
}

func useDocker(ctx context.Context, t *testing.T, d *docker.Daemon) {
	image, err := docker.Image("/bin/true", "/bin/false", "/bin/sleep")
	if err != nil {
		t.Error(err)
		return
	}
	if err := d.Import(ctx, "bench", image); err != nil {
		t.Error(err)
		return
	}
	id, err := d.Create(ctx, "bench", "/bin/sleep", "infinity")
	if err != nil {
		t.Error(err)
		return
	}
	for _, step := range []func(context.Context, string) error{d.Start, d.Pause, d.Unpause} {
		if err := step(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if pid, err := d.Pid(ctx, id); err != nil || pid < 2 {
		t.Errorf("pid %d, %v", pid, err)
	}
	for program, want := range map[string]int{"/bin/true": 0, "/bin/false": 1} {
		if code, err := d.Exec(ctx, id, program); err != nil || code != want {
			t.Errorf("%s: exit code %d, %v", program, code, err)
		}
	}
	if err := d.Start(ctx, "nobody"); err == nil || !strings.Contains(err.Error(), "No such container") {
		t.Errorf("start of an unknown container: %v", err)
	}
}

// sleeping starts a container and returns its process.
func sleeping(ctx context.Context, t *testing.T, d *docker.Daemon) (pid int) {
	image, err := docker.Image("/bin/sleep")
	if err == nil {
		err = d.Import(ctx, "bench", image)
	}
	var id string
	if err == nil {
		id, err = d.Create(ctx, "bench", "/bin/sleep", "infinity")
	}
	if err == nil {
		err = d.Start(ctx, id)
	}
	if err == nil {
		pid, err = d.Pid(ctx, id)
	}
	if err != nil || pid < 2 {
		t.Errorf("start a container: pid %d, %v", pid, err)
	}
	return pid
}

func TestOnlyProgramsArePacked(t *testing.T) {
	if _, err := docker.Image("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "pack /etc/passwd") {
		t.Errorf("%v", err)
	}
}

func mounts(t *testing.T) string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A daemon that is killed leaves containers; they are ended all the same.
func TestAKilledDockerLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	dir := t.TempDir()
	d, err := docker.Start(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	pid := sleeping(ctx, t, d)
	if err := d.Kill(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if _, err := os.Stat(fmt.Sprint("/proc/", pid)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("process %d of the container runs on", pid)
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in its directory: %v, %v", left, err)
	}
}

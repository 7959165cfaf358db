package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// besieged is a template with limits as an operator would set them.
const besieged = `
[templates.besieged]
extends = "default"
memory = "512MiB"
disk = "256MiB"
processes = 256
`

// Two sandboxes try to use up everything that the machine has, all at once: processes, processors, memory, disk,
// inodes, syncs, buffers, every counter of the kernel's, and output. During that the server and another
// sandbox work on; the two work again afterwards, and nothing is left of any. In make torture the 99th percentile of the
// other's commands stays within three times what it is without the attack. It runs alone, because it measures,
// and leaves other tests nothing of the machine.
func TestSandboxesStandASiege(t *testing.T) {
	testkit.Proves(t, "E3", "E9")
	seconds := testkit.Size(t, "siege.seconds")
	a := newArena(t, besieged)
	hogs := []string{"first", "second"}
	ids := []string{a.box("other", "").ID}
	for _, name := range hogs {
		ids = append(ids, a.box(name, "besieged").ID)
	}
	files := a.descriptors()
	quiet := a.uses("other", time.Duration(seconds)*time.Second/4)
	streams := map[string]*client.ExecStream{}
	for _, name := range hogs {
		streams[name] = a.spawn(name, api.Exec{
			ExecID: "siege", TimeoutSeconds: float64(seconds) + 120,
			Command: []string{"/workspace/attacker", "siege", "/workspace", strconv.Itoa(seconds)},
		})
		a.await(streams[name], "here")
		_ = streams[name].Close() // its output is not read
	}
	loud := a.uses("other", time.Duration(seconds)*time.Second)
	for _, name := range hogs {
		a.recovers(name)
	}
	quiet = append(quiet, a.uses("other", time.Duration(seconds)*time.Second/4)...) // the machine may have changed
	t.Logf("a command in another sandbox without, and with %d hogs: median %v, %v; 99th percentile %v, %v; %d and %d commands",
		len(hogs), percentile(quiet, 50), percentile(loud, 50), percentile(quiet, 99), percentile(loud, 99), len(quiet), len(loud))
	if testkit.Torture() && percentile(loud, 99) > 3*percentile(quiet, 99) {
		t.Errorf("the 99th percentile went from %v to %v", percentile(quiet, 99), percentile(loud, 99))
	}
	a.works("other", 1)
	a.clear()
	testkit.Eventually(t, patience, func() error { return leftOf(a.data, ids) })
	testkit.Eventually(t, patience, func() error {
		if now := a.descriptors(); now > files+16 {
			return fmt.Errorf("the server has %d open files, it had %d", now, files)
		}
		return nil
	})
}

// uses runs commands in a sandbox, one after the other, and has the server commit something after each. It returns
// how long the commands took.
func (a *arena) uses(name string, lasting time.Duration) (took []time.Duration) {
	a.Helper()
	talk, _, err := a.Conversations.Create(a.Context(), api.CreateConversation{})
	if err != nil {
		a.Fatal(err)
	}
	for end := time.Now().Add(lasting); time.Now().Before(end) || len(took) == 0; {
		began := time.Now()
		res, err := a.Sandboxes.Exec(a.Context(), name, api.Exec{Command: []string{"/bin/true"}, TimeoutSeconds: 60})
		if err != nil || res.ExitCode != 0 {
			a.Fatalf("%s: %+v, %v", name, res, err)
		}
		took = append(took, time.Since(began))
		title := strconv.Itoa(len(took))
		if _, err := a.Conversations.Patch(a.Context(), talk.ID, api.PatchConversation{Title: &title}); err != nil {
			a.Fatal(err)
		}
	}
	return took
}

func percentile(times []time.Duration, n int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)*n/100]
}

// recovers waits until the siege in a sandbox is over and the sandbox does its work again, in the same run.
func (a *arena) recovers(name string) {
	a.Helper()
	testkit.Eventually(a.T, 2*patience, func() error {
		st, err := a.Sandboxes.ExecStatus(a.Context(), name, "siege")
		if err != nil || st.Running {
			return fmt.Errorf("the siege of %s: %+v, %w", name, st, err)
		}
		res, err := a.Sandboxes.Exec(a.Context(), name, api.Exec{Command: api.Shell("echo ok > /workspace/ok && cat /workspace/ok"), TimeoutSeconds: 60})
		if err != nil || res.Stdout != "ok\n" {
			return fmt.Errorf("%s: %+v, %w", name, res, err)
		}
		return nil
	})
	a.works(name, 1)
}

// descriptors counts the open files of the server.
func (a *arena) descriptors() int {
	a.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.server.cmd.Process.Pid))
	if err != nil {
		a.Fatal(err)
	}
	return len(open)
}

// leftOf is an error while the machine has something of the sandboxes: a cgroup, with its processes, a mount or a device.
func leftOf(data string, ids []string) error {
	var left []string
	for _, id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/*/berth/", "/sys/fs/cgroup/*/*/berth/", "/sys/fs/cgroup/*/*/*/berth/", "/sys/fs/cgroup/berth/"} {
			found, err := filepath.Glob(pattern + id + "-*")
			if err != nil {
				return err
			}
			left = append(left, found...)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), data) {
		left = append(left, "a mount below "+data)
	}
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, file := range backing {
		text, _ := os.ReadFile(file)
		for _, id := range ids {
			if strings.Contains(string(text), id) {
				left = append(left, file)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %v", left)
	}
	return nil
}

package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// small is a template whose limits are soon reached.
const small = `
[templates.small]
extends = "default"
memory = "128MiB"
processes = 64

[templates.narrow]
extends = "default"
disk = "32MiB"
`

// pair is a sandbox that takes all it gets, and its neighbour.
func pair(t *testing.T) *arena {
	t.Helper()
	a := newArena(t, small)
	a.box("hog", "small")
	a.box("neighbour", "")
	return a
}

// witness starts a process in the hog that must still run when the hog is done.
func (a *arena) witness() {
	a.Helper()
	a.await(a.spawn("hog", api.Exec{ExecID: "witness", Command: api.Shell("echo here; exec sleep 1000")}), "here")
}

// goesOn checks that the neighbour and the server work, and that the hog does, in the same run.
func (a *arena) goesOn() {
	a.Helper()
	a.works("neighbour", 1)
	a.works("hog", 1)
	if st, err := a.Sandboxes.ExecStatus(a.Context(), "hog", "witness"); err != nil || !st.Running {
		a.Errorf("what ran in the hog is gone: %+v, %v", st, err)
	}
}

// What a process may use without a sandbox, it may not use in one: each of these gets all it asks for as a
// plain process. Neither the neighbour nor the sandbox itself suffers. It runs alone, because the plain processes take the
// machine's memory.
func TestHogsAreHeldToTheirLimits(t *testing.T) {
	testkit.Proves(t, "E3")
	a := pair(t)
	a.box("narrow", "narrow")
	a.witness()
	for _, hog := range []struct {
		name, box string
		words     []string
	}{
		{"processes", "hog", []string{"fork", "200"}},
		{"memory", "hog", []string{"memory", "300"}},
		{"memory in /tmp", "hog", []string{"fill", "{dir}/tmp/file", "200"}},
		{"memory of connections", "hog", []string{"buffers", "tcp", "300"}},
		{"memory of datagrams", "hog", []string{"buffers", "udp", "300"}},
		{"a large file", "narrow", []string{"fill", "{dir}/file", "80"}},
		{"a file without a name", "narrow", []string{"unlinked", "{dir}", "80"}},
		{"many files", "narrow", []string{"inodes", "{dir}", "20000"}},
		{"a large file without blocks", "narrow", []string{"sparse", "{dir}", "1"}},
	} {
		t.Run(hog.name, func(t *testing.T) {
			sub := *a
			sub.T = t
			if err := os.MkdirAll(filepath.Join(a.public, "tmp"), 0o755); err != nil {
				t.Fatal(err)
			}
			if code, out := sub.plain(nil, "", dirs(hog.words, a.public, a.public)...); code != 0 {
				t.Errorf("a plain process does not get it, so this proves nothing: %q", out)
			}
			for _, user := range []string{"agent", "root"} {
				words := append([]string{"/workspace/attacker"}, dirs(hog.words, "/workspace", "")...)
				if res := sub.run(hog.box, api.Exec{Command: words, User: user}); res.ExitCode == 0 || res.ExitCode > 2 && res.Signal == "" {
					t.Errorf("as %s: %+v", user, res)
				}
				sub.goesOn()
				sub.sh(hog.box, "root", "rm -rf /workspace/file /tmp/file")
			}
		})
	}
}

// Memory of sockets that the kernel does not bound ends the processes of its sandbox: one segment for each of many
// connections, data of connections that were reset before they were accepted, connections without data, and errors of
// datagrams. Times of sent messages are refused. It runs alone, because the plain processes take the machine's memory.
func TestConnectionsHoldLittleMemory(t *testing.T) {
	testkit.Proves(t, "E3")
	a := pair(t)
	for _, words := range [][]string{{"segments", "300"}, {"reset", "300"}, {"empty", "40"}, {"errors", "60"}, {"timestamps", "60"}} {
		words = append([]string{"connections"}, words...)
		if code, out := a.plain(nil, "", append(words, "0")...); code != 0 {
			t.Errorf("a plain process does not get it, so this proves nothing: %q: %q", words, out)
		}
		for _, user := range []string{"agent", "root"} {
			command := append([]string{"/workspace/attacker"}, words...)
			res := a.run("hog", api.Exec{Command: append(command, "10"), User: user}) // until its memory has been counted
			if res.Signal == "" && res.ExitCode != 1 {
				t.Errorf("%q as %s: %+v", words, user, res)
			}
			a.works("neighbour", 1)
			a.works("hog", 1)
		}
	}
}

// dirs fills in where to work, and what stands before /tmp.
func dirs(words []string, dir, tmp string) []string {
	filled := make([]string, len(words))
	for i, word := range words {
		filled[i] = strings.NewReplacer("{dir}/tmp", tmp+"/tmp", "{dir}", dir).Replace(word)
	}
	return filled
}

// Whoever fills every place in memory that there is ends in an error, not in the end of the sandbox.
func TestFullMemoryFileSystemsDoNotEndASandbox(t *testing.T) {
	t.Parallel()
	a := pair(t)
	a.witness()
	for _, path := range []string{"/tmp/file", "/dev/shm/file", "/run/file"} {
		res := a.run("hog", api.Exec{Command: []string{"/workspace/attacker", "fill", path, "300"}, User: "root"})
		if res.ExitCode != 1 || !strings.Contains(res.Stderr, "no space left") {
			t.Errorf("%s: %+v", path, res)
		}
	}
	a.goesOn()
	a.sh("hog", "root", "rm /tmp/file /dev/shm/file /run/file")
	a.goesOn()
}

// A fork bomb keeps its own sandbox busy, nobody else's. To stop and start it ends the bomb. That of root
// also changes its user again and again, because the number of processes is limited for each. It runs alone, because the
// bomb takes the processors.
func TestForkBombStaysInItsSandbox(t *testing.T) {
	testkit.Proves(t, "E3")
	const fuse = `echo here; bomb() { while :; do (setsid sh -c 'while :; do (sleep 100 &) ; done' &) ; done; }; bomb 2>/dev/null`
	const fuses = `echo here; while :; do for id in $(seq 2000 2040); do
		setpriv --reuid $id --clear-groups sh -c 'while :; do (sleep 100 &) ; done' 2>/dev/null & done; done 2>/dev/null`
	for user, bomb := range map[string]string{"agent": fuse, "root": fuses} {
		t.Run(user, func(t *testing.T) {
			a := pair(t)
			a.await(a.spawn("hog", api.Exec{Command: api.Shell(bomb), User: user}), "here")
			a.full("hog")
			for range 5 {
				a.works("neighbour", 1)
			}
			if err := os.WriteFile(filepath.Join(a.public, "host"), nil, 0o600); err != nil {
				t.Errorf("the machine: %v", err)
			}
			if _, err := a.Sandboxes.Stop(t.Context(), "hog"); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Sandboxes.Start(t.Context(), "hog"); err != nil {
				t.Fatal(err)
			}
			a.works("hog", 1)
		})
	}
}

// full waits until a sandbox has as many processes as it may have, or nearly.
func (a *arena) full(name string) {
	a.Helper()
	pid := a.guest(name)
	space, err := os.Readlink("/proc/" + pid + "/ns/pid")
	if err != nil {
		a.Fatal(err)
	}
	testkit.Eventually(a.T, patience, func() error {
		paths, err := filepath.Glob("/proc/[0-9]*/ns/pid")
		if err != nil {
			return err
		}
		n := 0
		for _, path := range paths {
			if in, _ := os.Readlink(path); in == space {
				n++
			}
		}
		if n < 50 {
			return fmt.Errorf("only %d processes", n)
		}
		return nil
	})
}

// Open files are a process's own: one that has as many as it may have does not keep others from opening theirs. It runs
// alone, because the machine's limit for open files counts them all.
func TestDescriptorHogStaysAlone(t *testing.T) {
	testkit.Proves(t, "E3")
	a := pair(t)
	a.witness()
	for range 4 {
		a.await(a.spawn("hog", api.Exec{Command: []string{"/workspace/attacker", "descriptors", "0"}}), "are open")
	}
	a.goesOn()
	if _, err := os.ReadDir("/"); err != nil {
		t.Errorf("the machine: %v", err)
	}
}

// Root of a sandbox opens files and leaves them in the queues of sockets, where no limit of a process or a user bounds
// them. Its memory is full before the machine's limit for open files is reached, which is low on many machines: others
// still open files. It runs alone, because it changes that limit.
func TestFilesInQueuesTakeTheSandboxesMemory(t *testing.T) {
	testkit.Proves(t, "E3", "E9")
	lowerOpenFiles(t, 700_000)
	a := newArena(t, "\n[templates.hog]\nextends = \"default\"\nmemory = \"384MiB\"\nprocesses = 64\n")
	a.box("hog", "hog")
	a.box("neighbour", "")
	if code, out := a.plain(nil, "", "inflight", "100000"); code != 0 {
		t.Fatalf("a plain process sends none, so this proves nothing: %s", out)
	}
	a.witness()
	stream := a.spawn("hog", api.Exec{Command: []string{"/workspace/attacker", "inflight", "0"}, User: "root"})
	var out strings.Builder
	for !strings.Contains(out.String(), "are open") {
		ev, err := stream.Next()
		if err != nil {
			break // the kernel has ended it, because its memory is full
		}
		out.Write(ev.Data())
	}
	t.Logf("it took all: %q", out.String())
	if code, out := a.plain(&syscall.SysProcAttr{Credential: nobody()}, "", "descriptors", "500"); code != 0 {
		t.Errorf("another user of the machine: %s", out)
	}
	if res := a.run("neighbour", api.Exec{Command: []string{"/workspace/attacker", "descriptors", "500"}}); res.ExitCode != 0 {
		t.Errorf("the neighbour: %+v", res)
	}
	a.goesOn()
}

// lowerOpenFiles sets the machine's limit for open files to a low number, as it may be when a server starts. After the
// test the machine has at least what it had.
func lowerOpenFiles(t *testing.T, n int64) {
	t.Helper()
	const path = "/proc/sys/fs/file-max"
	limit := func() (n int64) {
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscan(string(data), &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	set := func(n int64) {
		if err := os.WriteFile(path, fmt.Append(nil, n), 0); err != nil {
			t.Error(err)
		}
	}
	before := limit()
	t.Cleanup(func() {
		if limit() < before {
			set(before)
		}
	})
	set(n)
}

// No signal from inside ends, stops or disturbs the first process, whoever sends it.
func TestTheFirstProcessCannotBeKilledFromInside(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := pair(t)
	v := a.victim(nil, "")
	if code, out := a.plain(nil, "", "kill", fmt.Sprint(v.cmd.Process.Pid), "9"); code != 0 {
		t.Fatal(out)
	}
	testkit.Eventually(t, patience, func() error {
		if v.alive() {
			return fmt.Errorf("a plain process cannot kill another, so this proves nothing")
		}
		return nil
	})
	a.witness()
	for _, user := range []string{"agent", "root"} {
		a.sh("hog", user, `for s in $(seq 1 64); do /workspace/attacker kill 1 $s; done; true`)
		a.goesOn()
	}
	if code := a.run("hog", api.Exec{Command: []string{"/workspace/attacker", "kill", "1", "9"}, User: "root"}).ExitCode; code != 0 {
		t.Errorf("root could not even try: %d", code)
	}
	a.goesOn()
	// Everything else may be killed, by root, and the sandbox can be used again at once.
	a.run("hog", api.Exec{Command: []string{"/workspace/attacker", "everyone", "999999"}, User: "root"})
	a.works("hog", 1)
	a.works("neighbour", 1)
}

package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/client"
)

// replica is one place for a server in the fleet, with the server that runs there now, if any.
type replica struct {
	name string
	env  []string
	log  tail

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil while no server runs
	done chan struct{} // closed when cmd has ended
	sys  *system       // the server in this process, instead of cmd, with Options.Here
	addr string        // host:port of the server; empty while none runs
}

func (f *Fleet) newReplica(i int) *replica {
	r := &replica{name: fmt.Sprintf("replica %d", i), env: append(slices.Clone(f.settings), "BERTH_DATA_DIR="+f.data(i))}
	f.t.Cleanup(func() {
		f.Kill(i)
		if f.t.Failed() {
			f.t.Logf("the log of %s:\n%s", r.name, r.log.String())
		}
	})
	return r
}

// Start starts a server in the i-th place and waits until it is ready. The server gets a new address at each start,
// because another program may have taken the old port.
func (f *Fleet) Start(i int) error {
	r := f.replicas[i]
	if err := r.start(f, f.Client(i, client.WithAttempts(1))); err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	return nil
}

func (r *replica) start(f *Fleet, c *client.Client) error {
	if r.runs() {
		return errors.New("one runs there")
	}
	if f.inProcess {
		return r.startHere()
	}
	out, err := r.launch(f.exe)
	if err == nil {
		err = r.readAddress(out)
	}
	if err == nil {
		err = r.ready(c)
	}
	if err != nil {
		_ = r.end(syscall.SIGKILL)
	}
	return err
}

func (r *replica) runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd != nil || r.sys != nil
}

func (r *replica) startHere() error {
	sys, err := startSystem(r.env, &r.log)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sys, r.addr = sys, "127.0.0.1"
	return nil
}

// Upgrade sets the program of servers that are started from now on.
func (f *Fleet) Upgrade(exe string) { f.exe = exe }

// Await waits until the i-th server ends by itself. It returns the server's exit code and the end of its log.
func (f *Fleet) Await(i int) (code int, log string, err error) {
	r := f.replicas[i]
	r.mu.Lock()
	cmd, done := r.cmd, r.done
	r.mu.Unlock()
	select {
	case <-done:
	case <-time.After(patience):
		return 0, r.log.String(), fmt.Errorf("%s still runs", r.name)
	}
	r.clear()
	return cmd.ProcessState.ExitCode(), r.log.String(), nil
}

// Address returns the host:port on which the i-th server listens, or "" if no server runs there.
func (f *Fleet) Address(i int) string {
	addr, _ := f.replicas[i].reach(nil)
	return addr
}

// PID returns the process id of the i-th server, zero if none runs or it runs in this process.
func (f *Fleet) PID(i int) int {
	r := f.replicas[i]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// Kill ends the i-th server with SIGKILL. It does nothing if no server runs there.
func (f *Fleet) Kill(i int) { _ = f.replicas[i].end(syscall.SIGKILL) }

// Stop ends the i-th server with SIGTERM, so that it drains. It returns an error if the server's exit code is not 0.
func (f *Fleet) Stop(i int) error { return f.replicas[i].end(syscall.SIGTERM) }

func (r *replica) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd, r.sys, r.addr = nil, nil, ""
}

// Roll restarts the servers one after the other, as a deployment does. It waits until each is ready again.
func (f *Fleet) Roll() error {
	for i := range f.replicas {
		if err := f.Stop(i); err != nil {
			return err
		}
		if err := f.Start(i); err != nil {
			return err
		}
	}
	return nil
}

// Pause stops the i-th server's process with SIGSTOP, as an overcommitted machine may. It waits until all threads of
// the process are stopped.
func (f *Fleet) Pause(i int) {
	r := f.replicas[i]
	r.signal(syscall.SIGSTOP)
	for began := time.Now(); f.PID(i) > 0 && !stopped(f.PID(i)) && time.Since(began) < patience; {
		<-time.After(time.Millisecond)
	}
}

// stopped reports whether all threads of the process are stopped.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(path string) bool {
		stat, err := os.ReadFile(path)
		return err == nil && !bytes.Contains(stat, []byte(") T "))
	})
}

// Resume continues a paused server.
func (f *Fleet) Resume(i int) { f.replicas[i].signal(syscall.SIGCONT) }

func (r *replica) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(s) // the process may have ended already
	}
}

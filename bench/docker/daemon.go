package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// ErrMissing says how to come by a Docker to measure against.
var ErrMissing = errors.New("no Docker is installed to compare with: run scripts/setup bench, or: sudo apt-get install -y docker.io")

const (
	patience = 60 * time.Second // for a daemon to come up or to go
	glance   = 20 * time.Millisecond
)

// socket is where the daemon listens, in its own /run. No other Docker listens there.
const socket = "/run/berth-bench.sock"

// enclose covers the host's directories that the daemon and its containerd write to with empty ones, then
// becomes the daemon. It runs in a mount namespace of its own.
const enclose = `
for dir in /run /etc/docker /opt; do
	[ ! -d $dir ] || mount -t tmpfs -o mode=755 tmpfs $dir || exit 1
done
exec "$@"`

// Daemon is a running dockerd.
type Daemon struct {
	Client
	Storage string // the storage driver it works with

	dir    string
	cgroup string // what the containers' cgroups lie below
	mounts string // the mount namespace that the daemon and its helpers are in
	cmd    *exec.Cmd
	said   bytes.Buffer  // by the daemon; read it only when it is gone
	gone   chan struct{} // closed when the process has ended
}

// Start runs a dockerd that keeps its images and containers in dir, and returns once it answers. It takes the storage
// driver that Docker is known for, or the one that works anywhere.
func Start(ctx context.Context, dir string) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("starting a Docker to compare with takes root: use sudo")
	}
	var failed error
	for _, storage := range []string{"overlay2", "vfs"} {
		d, err := start(ctx, filepath.Join(dir, storage), storage)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrMissing) {
			return d, err
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func start(ctx context.Context, dir, storage string) (*Daemon, error) {
	program, err := lookPath("dockerd")
	if err != nil {
		return nil, ErrMissing
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &Daemon{Storage: storage, dir: dir, gone: make(chan struct{}), cgroup: fmt.Sprintf("berth-bench-%d", os.Getpid())}
	d.cmd = exec.Command("/bin/sh", "-c", enclose, "sh", program,
		"--host", "unix://"+socket, "--data-root", dir, "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid",
		"--storage-driver", storage, "--cgroup-parent", "/"+d.cgroup,
		"--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
	d.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir}
	d.cmd.Stdout, d.cmd.Stderr = &d.said, &d.said
	// Ctrl-C is for this process, which then ends the daemon in order; should this process be killed,
	// the kernel does.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Setsid:       true,
		Pdeathsig:    syscall.SIGTERM,
	}
	if err := d.run(); err != nil {
		return nil, fmt.Errorf("start dockerd: %w", err)
	}
	if err := d.find(); err != nil {
		return nil, errors.Join(fmt.Errorf("find dockerd's namespace: %w", err), d.Close())
	}
	if err := d.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for dockerd on %s: %w", storage, err), d.Close())
	}
	return d, nil
}

func lookPath(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// run starts the process and waits for its end beside the caller. Both happen on one thread that does
// nothing else, because the signal on a parent's death is about the thread that started the child.
func (d *Daemon) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_ = d.cmd.Wait() // how it ended is in what it said
			close(d.gone)
		}
	}()
	return <-started
}

// find notes the namespace that the daemon is in. All that is in it will be ended with the daemon, so it
// had better not be our own.
func (d *Daemon) find() error {
	inside := fmt.Sprintf("/proc/%d", d.cmd.Process.Pid)
	d.Client = Connect(inside + "/root" + socket)
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	theirs, err := os.Readlink(inside + "/ns/mnt")
	if err != nil {
		return err
	}
	if theirs == own {
		return errors.New("it is the same as this program's")
	}
	d.mounts = theirs
	return nil
}

func (d *Daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if d.Ping(ctx) == nil {
			return nil
		}
		select {
		case <-d.gone:
			return fmt.Errorf("it ended: %s", tail(d.said.Bytes()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(glance):
		}
	}
}

// tail is the end of a log, where the reason is.
func tail(said []byte) []byte { return said[max(0, len(said)-2000):] }

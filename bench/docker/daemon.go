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

// ErrMissing is the error on a machine without Docker.
var ErrMissing = errors.New("no Docker is installed to compare with: run scripts/setup bench, or: sudo apt-get install -y docker.io")

const (
	patience = 60 * time.Second      // maximum time for a start or an end of the daemon
	glance   = 20 * time.Millisecond // interval of polls
)

// socket is the path of the daemon's socket, in the daemon's private /run. No other Docker uses this path.
const socket = "/run/berth-bench.sock"

// enclose is a shell script that runs in a new mount namespace. It mounts empty directories over those of the host that
// dockerd and containerd write to, and then executes the daemon.
const enclose = `
for dir in /run /etc/docker /opt; do
	[ ! -d $dir ] || mount -t tmpfs -o mode=755 tmpfs $dir || exit 1
done
exec "$@"`

// Daemon is a running dockerd.
type Daemon struct {
	Client
	Storage string // name of the storage driver

	dir    string
	cgroup string // parent of the containers' cgroups
	mounts string // mount namespace of the daemon and the processes that it starts
	cmd    *exec.Cmd
	said   bytes.Buffer  // the daemon's output; read it only after the daemon has ended
	gone   chan struct{} // closed when the process has ended
}

// Start runs a dockerd that keeps its images and containers in dir, and returns when it answers. It uses the storage
// driver overlay2, which is usual for Docker, or else vfs, which works on every file system.
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
	// Ctrl-C in the terminal reaches only this process, which then ends the daemon in order. If this process is killed,
	// the kernel ends the daemon.
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

// run starts the process and waits for its end in the background. A locked thread does both, because the kernel sends
// Pdeathsig when the thread that started the child ends.
func (d *Daemon) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_ = d.cmd.Wait() // the reason of the end is in the output
			close(d.gone)
		}
	}()
	return <-started
}

// find records the daemon's mount namespace. Close kills all processes in it, so find returns an error if this program
// is in the same namespace.
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

// tail returns the end of the output, where the reason of a failure is.
func tail(said []byte) []byte { return said[max(0, len(said)-2000):] }

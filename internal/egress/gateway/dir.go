package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// dir is the directory of the sockets. The file stays open: the sockets are named by its descriptor, because the full
// path can be too long for a socket address.
type dir struct {
	path string
	file *os.File
}

// openDir opens the directory and makes it if needed. Only the server's user can reach it.
func openDir(path string) (*dir, error) {
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = os.Chmod(path, 0o700)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory of the egress process: %w", err)
	}
	return &dir{path, f}, nil
}

func (d *dir) close() error { return d.file.Close() }

func (d *dir) address(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.file.Fd(), name), Net: "unix"}
}

// sockets lists the names of the sockets.
func (d *dir) sockets() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	var names []string
	for _, e := range entries {
		if ok, _ := filepath.Match("v*.sock", e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// errGone is the error of a request to a process that does not exist, or that ended before it answered.
var errGone = errors.New("the egress process has ended")

// ask sends a request to the process behind a socket and returns its reply.
func (d *dir) ask(ctx context.Context, name string, r *request, files []*os.File) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := net.DialUnix("unix", nil, d.address(name))
	if err != nil {
		return reply{}, wrapGone(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if err := send(c, r, files); err != nil {
		return reply{}, wrapGone(err)
	}
	var answer reply
	unwanted, err := receive(c, &answer)
	closeFiles(unwanted)
	switch {
	case ctx.Err() != nil && err != nil:
		return reply{}, fmt.Errorf("ask the egress process: %w", ctx.Err())
	case err != nil:
		return reply{}, wrapGone(err)
	case answer.Error != "":
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

func wrapGone(err error) error {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.ECONNRESET, syscall.EPIPE, io.EOF} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	return err
}

// start starts a process behind a socket if there is none. Servers that share the directory start one together.
func (d *dir) start(program, name string) error {
	lock, err := d.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	c, err := net.DialUnix("unix", nil, d.address(name))
	if err == nil {
		return c.Close()
	}
	if !errors.Is(wrapGone(err), errGone) {
		return err
	}
	l, err := d.listen(name)
	if err != nil {
		return err
	}
	defer l.Close()
	return d.exec(program, l)
}

// listen makes a socket in place of the one that a dead process left.
func (d *dir) listen(name string) (*net.UnixListener, error) {
	if err := d.remove(name); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", d.address(name))
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(d.path, name), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (d *dir) remove(name string) error {
	if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeDead removes the socket of a process that has ended, unless a server has just started another.
func (d *dir) removeDead(name string) error {
	lock, err := d.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if c, err := net.DialUnix("unix", nil, d.address(name)); err == nil {
		return c.Close()
	}
	return d.remove(name)
}

// lock locks the directory until the file is closed. Its holder may make and remove sockets.
func (d *dir) lock() (*os.File, error) {
	lock, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", d.path, err), lock.Close())
	}
	return lock, nil
}

// lastWords is the file for the output of the process, which only writes when it fails.
const lastWords = "stderr"

// exec starts the process in a new session, with the socket and nothing else of the server.
func (d *dir) exec(program string, l *net.UnixListener) error {
	socket, err := l.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	out, err := os.OpenFile(filepath.Join(d.path, lastWords), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{Name, d.path}, Env: environ(os.Environ()), Dir: "/",
		Stderr: out, ExtraFiles: []*os.File{socket}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	started := make(chan error, 1)
	// A goroutine of a new thread: this one's may have the priority of an instance.
	go func() { started <- cmd.Start() }()
	if err := <-started; err != nil {
		return fmt.Errorf("start the egress process: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// environ keeps the variables that decide how names are resolved and certificates are checked. The others may hold
// secrets.
func environ(all []string) (kept []string) {
	for _, v := range all {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "SSL_CERT_FILE", "SSL_CERT_DIR", "RES_OPTIONS", "LOCALDOMAIN", "GODEBUG", "TZ":
			kept = append(kept, v)
		}
	}
	return kept
}

// takeLastWords returns the end of the output of a process that has ended, and empties it.
func (d *dir) takeLastWords() string {
	path := filepath.Join(d.path, lastWords)
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	_ = os.Truncate(path, 0)
	return strings.TrimSpace(string(text[max(0, len(text)-4096):]))
}

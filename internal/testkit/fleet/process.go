package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/client"
)

// launch starts the program without waiting for it, and returns its standard output.
func (r *replica) launch(exe string) (io.ReadCloser, error) {
	cmd := exec.Command(exe, "serve")
	cmd.Env = r.environ()
	cmd.Stderr = &r.log
	// The kernel kills the server when this process ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	cmd.Stdout = w
	if err := start(cmd); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the result is in cmd.ProcessState
		close(done)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd, r.done = cmd, done
	return out, nil
}

func (r *replica) environ() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "BERTH_LOG_FORMAT=text"}, r.env...)
}

// start starts the command from a thread that lives as long as this process. The kernel sends Pdeathsig when the
// thread that started the command ends, not when the process ends.
func start(cmd *exec.Cmd) error {
	answer := make(chan error)
	starts() <- func() { answer <- cmd.Start() }
	return <-answer
}

var starts = sync.OnceValue(func() chan func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range todo {
			do()
		}
	}()
	return todo
})

var readyLine = regexp.MustCompile(`is ready: http://(\S+)/docs`)

// readAddress reads the server's address from its output.
func (r *replica) readAddress(out io.ReadCloser) error {
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := readyLine.FindStringSubmatch(in.Text()); m != nil {
			r.mu.Lock()
			r.addr = m[1]
			r.mu.Unlock()
			go func() {
				_, _ = io.Copy(io.Discard, out)
				_ = out.Close()
			}()
			return nil
		}
	}
	_ = out.Close()
	return errors.New("the server ended before it was ready")
}

// ready waits until the server reports that it is ready or degraded.
func (r *replica) ready(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		ready, err := c.Ready(ctx)
		if err == nil && (ready.Status == "ready" || ready.Status == "degraded") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %+v, %w", ready, err)
		case <-r.done:
			return errors.New("it ended before it was ready")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end sends the signal and waits until the server has ended. Until then clients may still send requests to it.
func (r *replica) end(how syscall.Signal) error {
	r.mu.Lock()
	cmd, done, sys := r.cmd, r.done, r.sys
	r.mu.Unlock()
	if sys != nil {
		sys.end()
		r.clear()
		return nil
	}
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(how) // the process may have ended already
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-done
	r.clear()
	if how == syscall.SIGTERM && !cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended with %v", r.name, cmd.ProcessState)
	}
	return nil
}

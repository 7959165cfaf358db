package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// maxLine is the length in bytes of the longest line of an agent that is read. Longer lines are left out.
	maxLine = 8 << 20
	// maxWaiting limits the messages that wait until the agent reads them.
	maxWaiting = 1024
)

// process is the running agent.
type process struct {
	cmd   *exec.Cmd
	lines chan []byte   // what the agent prints; closed at its end
	out   chan []byte   // messages for the agent
	gone  chan struct{} // closed when the agent has ended
	err   error         // valid after gone
}

// environment returns the environment of the agent.
func environment(t Turn, mark string) []string {
	env := append(os.Environ(), t.Env...)
	env = append(env, defaults(t.Defaults)...)
	if t.Bin != "" {
		env = append(env, "PATH="+t.Bin+":"+os.Getenv("PATH"))
	}
	return append(env, "BERTH_TURN="+mark)
}

// defaults returns the variables of the first key that is set, without those that are set.
func defaults(all []Default) (env []string) {
	for _, d := range all {
		if first, _, _ := strings.Cut(d.Env[0], "="); os.Getenv(first) != "" {
			return nil
		}
		if os.Getenv(d.Key) == "" {
			continue
		}
		for _, v := range d.Env {
			if name, _, _ := strings.Cut(v, "="); os.Getenv(name) == "" {
				env = append(env, v)
			}
		}
		return env
	}
	return nil
}

// findProgram returns the path of a program, or an empty string. It reads the listing of a directory before it looks up
// a name: the kernel may remember that a name did not exist under a mount for as long as the sandbox runs.
func findProgram(name string, env []string) string {
	if strings.Contains(name, "/") {
		return executable(name)
	}
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if found := executable(filepath.Join(dir, name)); found != "" {
			return found
		}
	}
	return ""
}

func executable(path string) string {
	if _, err := os.Stat(path); err != nil {
		names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		for _, name := range names {
			_, _ = os.Stat(name)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

// start starts the agent in its own process group, so that an interrupt of the turn reaches the client alone. The
// kernel kills the agent if the client dies.
func start(path string, argv, env []string) (*process, error) {
	p := &process{lines: make(chan []byte, 64), out: make(chan []byte, maxWaiting), gone: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: path, Args: argv, Env: env, Stderr: os.Stderr}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	w.Close()
	go p.write(stdin)
	go p.read(r)
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// write sends the messages to the agent, and closes its input after the last.
func (p *process) write(stdin io.WriteCloser) {
	defer stdin.Close()
	for m := range p.out {
		if _, err := stdin.Write(m); err != nil {
			break
		}
	}
	for range p.out { // the agent reads no more
	}
}

// read reads the lines of the agent.
func (p *process) read(r io.Reader) {
	defer close(p.lines)
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(b)
		if len(line) > 0 {
			p.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// readLine reads one line. It returns nothing for a line that is too long.
func readLine(b *bufio.Reader) ([]byte, error) {
	var line []byte
	skip := false
	for {
		part, err := b.ReadSlice('\n')
		if skip = skip || len(line)+len(part) > maxLine; skip {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSpace(line), err
	}
}

// send passes a message to the agent. An agent that reads nothing is killed.
func (p *process) send(message []byte) {
	select {
	case p.out <- message:
	default:
		p.signal(syscall.SIGKILL)
	}
}

func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

// The times that an agent has to end.
const (
	endOnEOF  = 500 * time.Millisecond
	endOnTERM = 1500 * time.Millisecond
)

// end ends the agent: by the end of its input if it listens to that, then by SIGTERM, then by SIGKILL.
func (p *process) end(onEOF bool) {
	close(p.out)
	go func() {
		for range p.lines { // the agent must not wait for a reader
		}
	}()
	if onEOF && p.ended(endOnEOF) {
		return
	}
	p.signal(syscall.SIGTERM)
	if !p.ended(endOnTERM) {
		p.signal(syscall.SIGKILL)
		p.ended(endOnTERM)
	}
}

func (p *process) ended(within time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(within):
		return false
	}
}

// code returns the exit code for an agent that ended by itself. An agent that closed its output and goes on is ended.
func (p *process) code() int {
	if !p.ended(endOnEOF) {
		p.end(false)
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return exitOK
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}

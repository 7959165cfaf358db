package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errPortTaken = errors.New("port is taken")

// server is one run of the postgres program.
type server struct {
	process *os.Process
	done    chan struct{} // closed when the process has ended
}

// Start starts the server and waits until it accepts connections. It does nothing if the server runs.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil && !c.server.ended() {
		return nil
	}
	s, err := c.launch()
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	if err := c.awaitReady(ctx, s); err != nil {
		return errors.Join(err, s.end(syscall.SIGQUIT))
	}
	c.server = s
	return nil
}

func (c *Cluster) launch() (*server, error) {
	// The log holds one run only, because startFailure searches it for a taken port.
	log, err := os.Create(c.logFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := c.as(exec.Command(filepath.Join(c.bin, "postgres"), "-D", c.dataDir(), "-p", strconv.Itoa(c.port)))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{process: cmd.Process, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = cmd.Wait() // how it ended is in the log
	}()
	return s, nil
}

// awaitReady polls postmaster.pid until its status line is "ready": the server then accepts connections.
func (c *Cluster) awaitReady(ctx context.Context, s *server) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-s.done:
			return c.startFailure()
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres: %w\n%s", ctx.Err(), c.log())
		case <-poll.C:
			if c.ready(s.process.Pid) {
				return nil
			}
		}
	}
}

func (c *Cluster) ready(pid int) bool {
	text, err := os.ReadFile(filepath.Join(c.dataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}

func (c *Cluster) startFailure() error {
	log := c.log()
	if strings.Contains(log, "Address already in use") {
		return fmt.Errorf("start postgres: %w\n%s", errPortTaken, log)
	}
	return fmt.Errorf("start postgres: it ended at once\n%s", log)
}

func (c *Cluster) log() string {
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop shuts the server down in order: it disconnects the clients and writes the data. Start starts it again
// at the same address with the same data.
func (c *Cluster) Stop() error { return c.end(syscall.SIGINT) }

// Kill ends the server at once, as a crash would. The next Start recovers the data from the write-ahead log.
func (c *Cluster) Kill() error { return c.end(syscall.SIGQUIT) }

func (c *Cluster) end(how syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil
	}
	if err := c.server.end(how); err != nil {
		return err
	}
	c.server = nil
	return nil
}

// stopTimeout is much longer than a server without clients needs to stop.
const stopTimeout = 30 * time.Second

func (s *server) end(how syscall.Signal) error {
	if err := s.process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postgres: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("stop postgres: process %d still runs after %v", s.process.Pid, stopTimeout)
	}
}

func (s *server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

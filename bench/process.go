package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a Berth server in a separate process. By default it uses the fake driver.
type process struct {
	caller
	cmd *exec.Cmd
}

var readyLine = regexp.MustCompile(`is ready: (http://\S+)/docs`)

// serve starts the program on a data directory and waits until it is ready. If databaseURL is empty, the server uses
// SQLite. The values in env are additional settings.
func serve(ctx context.Context, program, dir, databaseURL string, env ...string) (*process, error) {
	if program == "" {
		return nil, errors.New("there is no program to serve; name one with -berth")
	}
	cmd := exec.CommandContext(ctx, program, "serve")
	cmd.Env = append(os.Environ(), "BERTH_DATA_DIR="+dir, "DATABASE_URL="+databaseURL,
		"BERTH_LISTEN=127.0.0.1:0", "BERTH_API_KEY="+key, "BERTH_DEFAULT_DRIVER=fake")
	cmd.Env = append(cmd.Env, env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// The log goes to a file, because reading it from a pipe would compete with the callers in this process.
	log, err := os.CreateTemp("", "berth-bench-log-")
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = log.Close(), os.Remove(log.Name()) }()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := readyLine.FindStringSubmatch(in.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &process{newCaller(m[1], callers), cmd}, nil
		}
	}
	failed := cmd.Wait()
	complaint, _ := io.ReadAll(io.NewSectionReader(log, 0, 4096))
	return nil, fmt.Errorf("%s did not come up: %w: %s", program, failed, complaint)
}

// prefixWriter passes the first n bytes on to w and discards the rest.
type prefixWriter struct {
	w io.Writer
	n int
}

func (u *prefixWriter) Write(p []byte) (int, error) {
	kept := min(u.n, len(p))
	u.n -= kept
	if _, err := u.w.Write(p[:kept]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cpu returns the CPU time of the process so far, user and system.
func (p *process) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return cpuOf(string(raw))
}

// ticks is the number of clock ticks per second in /proc on every architecture that Go supports.
const ticks = 100

// cpuOf returns the CPU time in a line of /proc/PID/stat. It skips the program's name, which may contain any character.
func cpuOf(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("not a line of /proc: %q", stat)
	}
	var sum int
	for _, field := range fields[11:13] { // utime and stime, the 14th and 15th
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("not a line of /proc: %q", stat)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// end stops the server with SIGTERM and waits until it has ended.
func (p *process) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

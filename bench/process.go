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

// process is a Berth in a process of its own, with the fake driver unless told otherwise.
type process struct {
	caller
	cmd *exec.Cmd
}

var readyLine = regexp.MustCompile(`is ready: (http://\S+)/docs`)

// serve starts the program on a data directory, with SQLite there or the PostgreSQL of the URL, and waits
// until it answers. Everything else is as it is by default, or as the environment says.
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
	// The log goes to a file: a pipe to this process would be read in competition with its callers.
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

// upTo keeps the first n bytes that are written to it, and takes the others.
type upTo struct {
	w io.Writer
	n int
}

func (u *upTo) Write(p []byte) (int, error) {
	kept := min(u.n, len(p))
	u.n -= kept
	if _, err := u.w.Write(p[:kept]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cpu is how long the process has computed so far, in the kernel and outside.
func (p *process) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return cpuOf(string(raw))
}

// ticks is how many times a second the kernel counts for /proc, on every machine Go runs on.
const ticks = 100

// cpuOf reads a line of /proc/PID/stat. The second field is the program's name, which may hold anything.
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

// end stops the server and waits until it is gone.
func (p *process) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

package base

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
)

// debootstrap fills the target. It runs in a mount and a pid namespace of its own: what it mounts
// below the target, and every process it starts, goes when it goes, however it ends.
func (o *Options) debootstrap(ctx context.Context, tool string, source Source, target string) error {
	cmd := exec.CommandContext(ctx, tool, o.arguments(source, target)...)
	cmd.Env = environment()
	cmd.Dir = "/"
	cmd.WaitDelay = 10 * time.Second
	// The signal comes when the thread ends that started the process, so it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags, cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWPID, syscall.CLONE_NEWNS
	}
	words := said{tell: o.Progress, verbs: map[string]bool{}}
	cmd.Stdout, cmd.Stderr = &words, &words
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("build base: %w", context.Cause(ctx))
	}
	if err == nil {
		return nil
	}
	return failed(api.CodeCreateFailed, "Check that the mirror has the release and can be reached from here; --mirror names another.",
		"debootstrap %s from %s: %w%s", o.Suite, source.URI, err, words.complaints(filepath.Join(target, "debootstrap", "debootstrap.log")))
}

func (o *Options) arguments(source Source, target string) []string {
	args := []string{"--variant=minbase"}
	if len(o.Include) > 0 {
		args = append(args, "--include="+strings.Join(o.Include, ","))
	}
	if _, err := os.Stat(source.Keyring); err == nil && source.Keyring != "" {
		args = append(args, "--keyring="+source.Keyring)
	}
	if source.Trusted {
		args = append(args, "--no-check-gpg")
	}
	return append(args, o.Suite, target, source.URI)
}

// environment is what debootstrap and the scripts of packages get to see: how to reach the network,
// and nothing else of the caller's.
func environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// said passes on what debootstrap says, line by line, and keeps what it complains about.
type said struct {
	tell  func(what string, first bool)
	rest  []byte
	verbs map[string]bool
	bad   []string
}

const (
	mostComplaints = 5
	longestLine    = 4 << 10
)

func (s *said) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found && len(s.rest) < longestLine {
			return len(p), nil
		}
		s.rest = rest
		s.line(string(line))
	}
}

func (s *said) line(line string) {
	if strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "W: ") {
		s.bad = append(s.bad, line)
		s.bad = s.bad[max(0, len(s.bad)-mostComplaints):]
	}
	if what, ok := strings.CutPrefix(line, "I: "); ok {
		verb, _, _ := strings.Cut(what, " ")
		s.tell(what, !s.verbs[verb])
		s.verbs[verb] = true
	}
}

// complaints is what went wrong in its own words: those it printed, else the end of its log.
func (s *said) complaints(log string) string {
	lines := s.bad
	if len(lines) == 0 {
		lines = tail(log, mostComplaints)
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n  " + strings.Join(lines, "\n  ")
}

func tail(path string, n int) (last []string) {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		last = append(last, in.Text())
		last = last[max(0, len(last)-n):]
	}
	return last
}

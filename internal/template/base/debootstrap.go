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

// debootstrap fills the target with a system. It runs in separate mount and pid namespaces, so its mounts and processes
// end with it.
func (o *Options) debootstrap(ctx context.Context, tool string, source Source, target string) error {
	cmd := exec.CommandContext(ctx, tool, o.arguments(source, target)...)
	cmd.Env = environment()
	cmd.Dir = "/"
	cmd.WaitDelay = 10 * time.Second
	// The kernel sends Pdeathsig when the thread that started the process ends, so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags, cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWPID, syscall.CLONE_NEWNS
	}
	words := outputParser{tell: o.Progress, verbs: map[string]bool{}}
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

// environment returns the environment of debootstrap and of the packages' scripts. It has the proxy variables of the
// caller and none of its other variables.
func environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// outputParser parses the output of debootstrap: it reports each step and keeps the last errors and warnings.
type outputParser struct {
	tell  func(what string, first bool)
	rest  []byte
	verbs map[string]bool
	bad   []string
}

const (
	maxComplaints = 5
	maxLine       = 4 << 10
)

func (s *outputParser) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found && len(s.rest) < maxLine {
			return len(p), nil
		}
		s.rest = rest
		s.line(string(line))
	}
}

func (s *outputParser) line(line string) {
	if strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "W: ") {
		s.bad = append(s.bad, line)
		s.bad = s.bad[max(0, len(s.bad)-maxComplaints):]
	}
	if what, ok := strings.CutPrefix(line, "I: "); ok {
		verb, _, _ := strings.Cut(what, " ")
		s.tell(what, !s.verbs[verb])
		s.verbs[verb] = true
	}
}

// complaints returns the errors and warnings that debootstrap printed, or the end of its log if it printed none.
func (s *outputParser) complaints(log string) string {
	lines := s.bad
	if len(lines) == 0 {
		lines = tail(log, maxComplaints)
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

package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Options select the program and its directory.
type Options struct {
	Program
	Dir     string // the result of [Dir]
	Version string // empty: the default version of the program. The npm registry resolves tags such as "latest"
	Force   bool   // install again even if this version is installed

	// Progress is called with each step and the downloaded bytes. It may be nil.
	Progress func(what string, bytes int64)
}

// Result describes the installed program.
type Result struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	Made    bool   `json:"made"` // false: it was installed before
}

var versionShape = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)

// Install installs the program unless it is installed. The program gets its name atomically, after it was downloaded
// and run once.
func Install(ctx context.Context, o Options) (Result, error) {
	o.Version = cmp.Or(o.Version, o.Program.Version)
	if o.Progress == nil {
		o.Progress = func(string, int64) {}
	}
	if !versionShape.MatchString(o.Version) {
		return Result{}, o.failed(api.CodeInvalidRequest, "Write a version such as "+o.Program.Version+", or latest.", "%q is no version", o.Version)
	}
	if r, ok := o.existing(); ok {
		return r, nil
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "bin"), 0o755); err != nil {
		return Result{}, fmt.Errorf("make directory for %s: %w", o.Name, err)
	}
	unlock, err := lock(filepath.Join(o.Dir, ".lock"))
	if err != nil {
		return Result{}, fmt.Errorf("lock %s: %w", o.Dir, err)
	}
	defer unlock()
	if r, ok := o.existing(); ok {
		return r, nil
	}
	return o.install(ctx)
}

func (o *Options) existing() (Result, bool) {
	version := o.Installed(o.Dir)
	return Result{Name: o.Name, Version: version, Path: o.path(o.Dir)}, version == o.Version && !o.Force
}

// lock waits for other installations of the same program.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func (o *Options) install(ctx context.Context) (Result, error) {
	left, _ := filepath.Glob(filepath.Join(o.Dir, ".new-*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
	tmp, err := os.MkdirTemp(o.Dir, ".new-")
	if err != nil {
		return Result{}, fmt.Errorf("make directory for %s: %w", o.Name, err)
	}
	defer os.RemoveAll(tmp)
	if err := o.npm(ctx, tmp); err != nil {
		return Result{}, err
	}
	o.Progress("Checking "+o.Title, 0)
	file, version, err := o.check(ctx, filepath.Join(tmp, "node_modules"))
	if err != nil {
		return Result{}, err
	}
	if err := o.activate(file, version); err != nil {
		return Result{}, fmt.Errorf("put %s in its place: %w", o.Command, err)
	}
	return Result{Name: o.Name, Version: version, Path: o.path(o.Dir), Made: true}, nil
}

// npm downloads the package without running its scripts: only the executable is needed.
func (o *Options) npm(ctx context.Context, tmp string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return o.failed(api.CodeUnsupported, "Install Node.js with npm (on Debian: apt-get install -y npm), then try again.", "npm is not installed")
	}
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", tmp, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save",
		"--no-package-lock", "--no-update-notifier", "--loglevel=error", "--fetch-retries=3", o.Package+"@"+o.Version)
	cmd.Dir = tmp
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	done, watched := make(chan struct{}), sync.WaitGroup{}
	watched.Go(func() { o.watch(tmp, done) })
	err = cmd.Run()
	close(done)
	watched.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return o.npmError(err, said.String())
	}
	return nil
}

// watch reports the downloaded bytes to Progress until done is closed.
func (o *Options) watch(dir string, done <-chan struct{}) {
	what := "Fetching " + o.Package + " " + o.Version
	o.Progress(what, 0)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			o.Progress(what, size(dir))
		}
	}
}

func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

var offline = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|network)\b`)

// npmError returns the error for a failure of npm, with a hint.
func (o *Options) npmError(err error, said string) error {
	words := errorLines(said)
	switch {
	case strings.Contains(said, "E404"), strings.Contains(said, "ETARGET"):
		return o.failed(api.CodeUnknownVersion, "Leave --version out to install "+o.Program.Version+".", "the registry has no %s@%s", o.Package, o.Version)
	case strings.Contains(said, "ENOSPC"):
		return o.failed(api.CodeDiskFull, "Make room in the data directory, or name another with --data-dir.", "no space is left for %s", o.Title)
	case offline.MatchString(said):
		return o.failed(api.CodeServerUnreachable, "Check the network, the proxy and 'npm config get registry', then try again; the installed version stays.", "npm's registry cannot be reached: %s", words)
	}
	return o.failed(api.CodeUnsupported, "These are npm's own words; correct what they name, then try again.", "npm: %w: %s", err, words)
}

// errorLines returns the first error lines of npm's output without stack traces.
func errorLines(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "npm error"))
		if line != "" && !strings.HasPrefix(line, "at ") && len(lines) < 5 {
			lines = append(lines, line[:min(len(line), 200)])
		}
	}
	return strings.Join(lines, "; ")
}

// check finds the executable and runs it once. It returns the path of the executable and the version.
func (o *Options) check(ctx context.Context, modules string) (file, version string, err error) {
	var pack struct {
		Version string `json:"version"`
	}
	text, err := os.ReadFile(filepath.Join(modules, o.Package, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &pack)
	}
	if err != nil || !versionShape.MatchString(pack.Version) {
		return "", "", o.failed(api.CodeUnsupported, "Try another --version.", "npm brought no package: %v", err)
	}
	found, _ := filepath.Glob(filepath.Join(modules, o.Native))
	if len(found) == 0 {
		return "", "", o.failed(api.CodeUnsupported, "Try another --version, or another machine.", "%s %s has no program for this machine", o.Title, pack.Version)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, found[0], "--version")
	cmd.Dir, cmd.Env = modules, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + modules, "DISABLE_AUTOUPDATER=1", "CLAUDE_CONFIG_DIR=" + modules}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(pack.Version)) {
		return "", "", o.failed(api.CodeUnsupported, "Try another --version.", "the program that came does not run here: %v: %.200s", errors.Join(err, ctx.Err()), out)
	}
	return found[0], pack.Version, nil
}

// activate makes file the current version of the program, atomically, and removes the other versions.
func (o *Options) activate(file, version string) error {
	bin, name := filepath.Join(o.Dir, "bin"), o.Command+"-"+version
	if err := os.Chmod(file, 0o755); err != nil {
		return err
	}
	if err := os.Rename(file, filepath.Join(bin, name)); err != nil {
		return err
	}
	link := filepath.Join(o.Dir, ".link")
	_ = os.Remove(link)
	if err := os.Symlink(name, link); err != nil {
		return err
	}
	if err := os.Rename(link, o.path(o.Dir)); err != nil {
		return err
	}
	old, _ := filepath.Glob(filepath.Join(bin, o.Command+"-*"))
	for _, path := range old {
		if filepath.Base(path) != name {
			_ = os.Remove(path)
		}
	}
	return nil
}

func (o *Options) failed(code api.Code, hint, format string, args ...any) error {
	e := fault.Errorf("install "+o.Name, code, format, args...)
	e.Hint = hint
	return e
}

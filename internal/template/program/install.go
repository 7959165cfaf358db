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
	"slices"
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
	Version string // empty: the version that Berth was tested with. The npm registry resolves tags such as "latest"
	Force   bool   // install again even if this version is installed

	// Progress is called with each step and the downloaded bytes. It may be nil.
	Progress func(what string, bytes int64)

	vendored string // path of a program that the vendor's installer put on this machine
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
	o.Version = cmp.Or(o.Version, o.Tested())
	if o.Progress == nil {
		o.Progress = func(string, int64) {}
	}
	if o.Vendor == "" && !versionShape.MatchString(o.Version) {
		return Result{}, o.failed(api.CodeInvalidRequest, "Write a version such as "+o.Tested()+", or latest.", "%q is no version", o.Version)
	}
	if o.Vendor != "" {
		if err := o.findVendored(); err != nil {
			return Result{}, err
		}
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
	version, err := o.fetch(ctx, tmp)
	if err != nil {
		return Result{}, err
	}
	o.Progress("Checking "+o.Title, 0)
	if err := o.check(ctx, tmp, version); err != nil {
		return Result{}, err
	}
	if err := o.activate(tmp, version); err != nil {
		return Result{}, fmt.Errorf("put %s in its place: %w", o.Command, err)
	}
	return Result{Name: o.Name, Version: version, Path: o.path(o.Dir), Made: true}, nil
}

// fetch puts the program into the directory and returns its version.
func (o *Options) fetch(ctx context.Context, dir string) (version string, err error) {
	if o.Vendor != "" {
		return o.Version, o.copyVendored(ctx, dir)
	}
	if err := o.npm(ctx, dir); err != nil {
		return "", err
	}
	var pack struct {
		Version string `json:"version"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", o.main(), "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &pack)
	}
	if err != nil || !versionShape.MatchString(pack.Version) {
		return "", o.failed(api.CodeUnsupported, "Try another --version.", "npm brought no package: %v", err)
	}
	return pack.Version, o.link(dir)
}

// npm downloads the packages without running their scripts.
func (o *Options) npm(ctx context.Context, tmp string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return o.failed(api.CodeUnsupported, "Install Node.js with npm (on Debian: apt-get install -y npm), then try again.", "npm is not installed")
	}
	if err := o.describe(tmp); err != nil {
		return fmt.Errorf("describe the packages of %s: %w", o.Title, err)
	}
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier",
		"--loglevel=error", "--fetch-retries=3")
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
	what := "Fetching " + o.main() + " " + o.Version
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
		return o.failed(api.CodeUnknownVersion, "Leave --version out to install "+o.Tested()+".", "the registry has no %s@%s", o.main(), o.Version)
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

// check lets sandboxes read the program and runs it once.
func (o *Options) check(ctx context.Context, dir, version string) error {
	if err := openTree(dir); err != nil {
		return fmt.Errorf("let sandboxes read %s: %w", o.Title, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, o.Command), "--version")
	home := filepath.Join(dir, ".home")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "DISABLE_AUTOUPDATER=1", "CLAUDE_CONFIG_DIR=" + home}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	_ = os.RemoveAll(home)
	if expected := o.reports(version); err != nil || !bytes.Contains(out, []byte(expected)) {
		return o.failed(api.CodeUnsupported, "Try another --version.", "the program that came does not run here: %v: %.200s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// reports returns the text that --version of the program must print.
func (o *Options) reports(version string) string {
	switch {
	case o.Vendor != "":
		return "" // vendors name directories as they like
	case o.Reports == "":
		return version
	case version == o.Tested():
		return o.Reports
	}
	return "" // another version of a program that has two numbers: any text will do
}

// openTree lets every user read the tree: the agent in a sandbox is another user than the server.
func openTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o111 != 0 {
			mode |= 0o111
		}
		if mode == info.Mode().Perm() {
			return nil
		}
		return os.Chmod(path, mode)
	})
}

// launcher runs a program in JavaScript. It is called through links and finds its own directory.
const launcher = `#!/bin/sh
dir=$(dirname "$(readlink -f "$0")")/node_modules
exec "$dir/%s/bin/node" "$dir/%s" "$@"
`

// link makes dir/COMMAND: a link to the executable, or a launcher.
func (o *Options) link(dir string) error {
	path := filepath.Join(dir, o.Command)
	if o.Script != "" {
		return os.WriteFile(path, fmt.Appendf(nil, launcher, Node.NPM(), o.Script), 0o755) //nolint:gosec // a program
	}
	found, _ := filepath.Glob(filepath.Join(dir, "node_modules", o.Native))
	if len(found) == 0 {
		return o.failed(api.CodeUnsupported, "Try another --version, or another machine.", "%s has no program for this machine", o.Title)
	}
	relative, err := filepath.Rel(dir, found[0])
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(found[0], 0o755), os.Symlink(relative, path)) //nolint:gosec // a program
}

// kept is how many versions stay besides the current one, for processes that still use them.
const kept = 2

// activate makes the tree in tmp the current version of the program, atomically, and removes old versions.
func (o *Options) activate(tmp, version string) error {
	dir := filepath.Join(o.Dir, version)
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // sandboxes read it
		return err
	}
	if _, err := os.Lstat(dir); err == nil { // installed again: the tree of before may be in use
		aside, err := os.MkdirTemp(o.Dir, version+".old-")
		if err == nil {
			err = os.Rename(dir, filepath.Join(aside, "tree"))
		}
		if err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	link := filepath.Join(o.Dir, ".link")
	_ = os.Remove(link)
	if err := os.Symlink(filepath.Join("..", version, o.Command), link); err != nil {
		return err
	}
	if err := os.Rename(link, o.path(o.Dir)); err != nil {
		return err
	}
	o.prune(version)
	return nil
}

// prune removes the oldest versions.
func (o *Options) prune(current string) {
	entries, _ := os.ReadDir(o.Dir)
	var old []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != current && e.Name() != "bin" {
			old = append(old, info)
		}
	}
	slices.SortFunc(old, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range old[min(kept, len(old)):] {
		_ = os.RemoveAll(filepath.Join(o.Dir, info.Name()))
	}
}

func (o *Options) failed(code api.Code, hint, format string, args ...any) error {
	e := fault.Errorf("install "+o.Name, code, format, args...)
	e.Hint = hint
	return e
}

package base

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Options is what a base is built of.
type Options struct {
	DataDir string
	Name    string
	Suite   string   // the release; empty: the host's own, else bookworm
	Mirror  string   // where packages come from; empty: where the host's apt fetches that release
	Include []string // further packages
	Force   bool     // build anew what is there

	// Progress is told what is being done, and whether it is the first step of its sort: some are
	// done for each of a hundred packages. Nil: nobody asks.
	Progress func(what string, first bool)

	etc  string // holds apt/ and os-release; empty: /etc
	euid func() int
}

var (
	suiteShape   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	packageShape = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{0,127}$`)
)

// Result is what Build found or made.
type Result struct {
	Base
	Made   bool   // false: it was there
	Former string // where the base that it replaced is kept; empty: there was none
}

// Build makes a base with debootstrap, or finds the one that was made before. It needs root. The base
// appears under its name all at once, when it is complete.
func Build(ctx context.Context, o Options) (Result, error) {
	o.etc = cmp.Or(o.etc, "/etc")
	if o.euid == nil {
		o.euid = os.Geteuid
	}
	if o.Progress == nil {
		o.Progress = func(string, bool) {}
	}
	if err := o.check(); err != nil {
		return Result{}, err
	}
	if r, ok, err := o.cached(); ok || err != nil {
		return r, err
	}
	tool, source, err := o.needs()
	if err != nil {
		return Result{}, err
	}
	if err := o.room(); err != nil {
		return Result{}, fmt.Errorf("make directory for bases: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(root(o.DataDir), "."+o.Name+".lock"))
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	// Whoever held the lock may have built it.
	if r, ok, err := o.cached(); ok || err != nil {
		return r, err
	}
	return o.build(ctx, tool, source)
}

func (o *Options) check() error {
	if err := CheckName(o.Name); err != nil {
		return failed(api.CodeInvalidName, "Names are up to 63 of a-z, 0-9, '-' and '_', and begin with a letter or digit.", "%w", err)
	}
	if o.Suite != "" && !suiteShape.MatchString(o.Suite) {
		return failed(api.CodeInvalidRequest, "Write the codename of a release, such as bookworm.", "%q is no release", o.Suite)
	}
	if o.Mirror != "" && !fetchable(o.Mirror) {
		return failed(api.CodeInvalidRequest, "Write http://host/path or https://host/path, without user and password: sandboxes see the address.", "the mirror is no address that packages can be fetched from")
	}
	for _, name := range o.Include {
		if !packageShape.MatchString(name) {
			return failed(api.CodeInvalidRequest, "Write names of packages, separated by commas.", "%q is no package", name)
		}
	}
	return nil
}

// cached finds the base that is there, unless it is to be built anew or is another than asked for.
func (o *Options) cached() (Result, bool, error) {
	if o.Force || Check(Dir(o.DataDir, o.Name)) != nil {
		return Result{}, false, nil
	}
	b := Describe(o.DataDir, o.Name)
	if o.Suite != "" && b.Suite != "" && o.Suite != b.Suite {
		return Result{}, false, failed(api.CodeConflict, "Choose another name, or build it anew with --force.", "there is a base %s already, of %s and not of %s", o.Name, b.Suite, o.Suite)
	}
	slices.Sort(o.Include)
	if len(o.Include) > 0 && !slices.Equal(o.Include, b.Include) {
		return Result{}, false, failed(api.CodeConflict, "Choose another name, or build it anew with --force.", "there is a base %s already, with other packages", o.Name)
	}
	return Result{Base: b}, true, nil
}

// needs finds the tool and where it is to fetch from, and fills in what was left open.
func (o *Options) needs() (tool string, source Source, err error) {
	if o.euid() != 0 {
		return "", source, failed(api.CodeUnsupported, "Run it as root: sudo berth template build-base "+o.Name+" --data-dir "+o.DataDir+".", "building a base needs root: its files belong to several users")
	}
	if tool, err = exec.LookPath("debootstrap"); err != nil {
		return "", source, failed(api.CodeUnsupported, "Install it: apt-get install -y debootstrap. Any directory that holds a whole system will do as a base, too: write its path.", "debootstrap is not installed")
	}
	host := release(filepath.Join(o.etc, "os-release"))
	o.Suite = cmp.Or(o.Suite, host, "bookworm")
	source, ok := find(Sources(filepath.Join(o.etc, "apt")), o.Suite, host)
	if o.Mirror != "" {
		return tool, Source{URI: o.Mirror, Keyring: source.Keyring}, nil
	}
	if !ok {
		return "", source, failed(api.CodeInvalidRequest, "Name a mirror with --mirror URL.", "the apt sources of this machine name none for %s", o.Suite)
	}
	return tool, source, nil
}

// room makes the directory of bases, for whoever the data directory belongs to: a server need not be
// root to use what root has built.
func (o *Options) room() error {
	dir := root(o.DataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(o.DataDir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Lchown(dir, int(owner.Uid), int(owner.Gid))
}

func (o *Options) build(ctx context.Context, tool string, source Source) (Result, error) {
	dir := root(o.DataDir)
	o.sweep()
	tmp, err := os.MkdirTemp(dir, o.unfinished())
	if err != nil {
		return Result{}, fmt.Errorf("make directory for base: %w", err)
	}
	defer os.RemoveAll(tmp)
	target := filepath.Join(tmp, "root")
	if err := os.Mkdir(target, 0o755); err != nil {
		return Result{}, fmt.Errorf("make directory for base: %w", err)
	}
	if err := o.debootstrap(ctx, tool, source, target); err != nil {
		return Result{}, err
	}
	o.Progress("Finishing", true)
	if err := finish(target); err != nil {
		return Result{}, fmt.Errorf("finish base: %w", err)
	}
	slices.Sort(o.Include)
	b := Base{Name: o.Name, Path: Dir(o.DataDir, o.Name), Suite: o.Suite, Mirror: source.URI, Include: o.Include, BuiltAt: time.Now().UTC().Truncate(time.Second)}
	former, err := o.install(target, b)
	return Result{Base: b, Made: err == nil, Former: former}, err
}

// unfinished is the pattern of directories that a base is built in.
func (o *Options) unfinished() string { return "." + o.Name + ".building-*" }

// sweep removes what builders left that were killed. Whoever calls it holds the lock.
func (o *Options) sweep() {
	left, _ := filepath.Glob(filepath.Join(root(o.DataDir), o.unfinished()))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// install puts the finished directory in its place. The base it replaces may be under sandboxes that
// run, so it is moved aside and not removed.
func (o *Options) install(target string, b Base) (former string, err error) {
	if err := syncBelow(target); err != nil {
		return "", fmt.Errorf("sync base: %w", err)
	}
	if _, err := os.Lstat(b.Path); err == nil {
		former = filepath.Join(root(o.DataDir), "."+o.Name+".former-"+b.BuiltAt.Format("20060102T150405.000000000Z"))
		former = unique(former)
		if err := os.Rename(b.Path, former); err != nil {
			return "", fmt.Errorf("move former base aside: %w", err)
		}
	}
	if err := os.Rename(target, b.Path); err != nil {
		return former, fmt.Errorf("put base in its place: %w", err)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err == nil {
		err = os.WriteFile(note(o.DataDir, o.Name), append(text, '\n'), 0o644)
	}
	if err != nil {
		return former, fmt.Errorf("note what the base is made of: %w", err)
	}
	return former, nil
}

// syncBelow makes all files of a base outlive a power loss, before sandboxes are made of it.
func syncBelow(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// unique is the path, or one with a number behind it if that is taken.
func unique(path string) string {
	free := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(free); errors.Is(err, os.ErrNotExist) {
			return free
		}
		free = fmt.Sprintf("%s-%d", path, n)
	}
}

// lock waits until no other process builds the base.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock base: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock base: %w", err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another build of the base: %w", context.Cause(ctx)), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func failed(code api.Code, hint, format string, args ...any) error {
	e := sandbox.Errorf("build base", code, format, args...)
	e.Hint = hint
	return e
}

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
	"github.com/berthdev/berth/internal/fault"
)

// Options configure the build of a base.
type Options struct {
	DataDir string
	Name    string
	Suite   string   // release; empty: the host's own, or bookworm if it has none
	Mirror  string   // URL of the packages; empty: the host's apt source of that release
	Include []string // further packages
	Force   bool     // build an existing base again

	// Progress is called with each step. first reports whether it is the first step with that verb: some steps are
	// repeated for each package. Progress may be nil.
	Progress func(what string, first bool)

	etc  string // directory with apt/ and os-release; empty: /etc
	euid func() int
}

var (
	suiteShape   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	packageShape = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{0,127}$`)
)

// Result describes the built or existing base.
type Result struct {
	Base
	Made   bool   // false: the base existed before
	Former string // path of the base that was replaced; empty: there was none
}

// Build builds a base with debootstrap, or returns the existing one. It needs root. The base gets its name atomically,
// after it is complete.
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
	tool, source, err := o.findTools()
	if err != nil {
		return Result{}, err
	}
	if err := o.makeRoot(); err != nil {
		return Result{}, fmt.Errorf("make directory for bases: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(root(o.DataDir), "."+o.Name+".lock"))
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	// Another process may have built the base before this one got the lock.
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

// cached returns the existing base. ok is false if there is none or Force is set. It returns an error if the existing
// base has another suite or other packages.
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

// findTools returns the path of debootstrap and the package source. It sets the default suite.
func (o *Options) findTools() (tool string, source Source, err error) {
	if o.euid() != 0 {
		return "", source, failed(api.CodeUnsupported, "Run it as root: sudo berth template build-base "+o.Name+" --data-dir "+o.DataDir+".", "building a base needs root: its files belong to several users")
	}
	if tool, err = exec.LookPath("debootstrap"); err != nil {
		return "", source, failed(api.CodeUnsupported, "Install it: apt-get install -y debootstrap. Any directory that holds a whole system will do as a base, too: write its path.", "debootstrap is not installed")
	}
	host := osCodename(filepath.Join(o.etc, "os-release"))
	o.Suite = cmp.Or(o.Suite, host, "bookworm")
	source, ok := findSource(Sources(filepath.Join(o.etc, "apt")), o.Suite, host)
	if o.Mirror != "" {
		return tool, Source{URI: o.Mirror, Keyring: source.Keyring}, nil
	}
	if !ok {
		return "", source, failed(api.CodeInvalidRequest, "Name a mirror with --mirror URL.", "the apt sources of this machine name none for %s", o.Suite)
	}
	return tool, source, nil
}

// makeRoot creates the directory of bases with the owner of the data directory, so that a server that is not root can
// use bases that root has built.
func (o *Options) makeRoot() error {
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

// unfinished returns the pattern of the directories of unfinished builds.
func (o *Options) unfinished() string { return "." + o.Name + ".building-*" }

// sweep removes the directories of builds that were killed. The caller holds the lock.
func (o *Options) sweep() {
	left, _ := filepath.Glob(filepath.Join(root(o.DataDir), o.unfinished()))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// install renames the finished directory to the base's path. It renames the replaced base instead of removing it,
// because running sandboxes may use it.
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
		err = os.WriteFile(notePath(o.DataDir, o.Name), append(text, '\n'), 0o644)
	}
	if err != nil {
		return former, fmt.Errorf("note what the base is made of: %w", err)
	}
	return former, nil
}

// syncBelow writes the file system of dir to disk, so that the base survives a power failure.
func syncBelow(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// unique returns path, or path with a number appended if it exists.
func unique(path string) string {
	free := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(free); errors.Is(err, os.ErrNotExist) {
			return free
		}
		free = fmt.Sprintf("%s-%d", path, n)
	}
}

// lock waits until no other process builds the same base.
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
	e := fault.Errorf("build base", code, format, args...)
	e.Hint = hint
	return e
}

package base

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// makes is a debootstrap that makes the least of a system, after doing what the test asks for. As the
// real one does, it takes the host's name along.
const makes = `#!/bin/sh
set -e
echo "$@" >> "$(dirname "$0")/calls"
for last; do :; done
mirror=$last
target=$(echo "$@" | tr ' ' '\n' | grep /root$)
DO
echo "I: Retrieving a"
echo "I: Retrieving b"
mkdir -p $target/bin $target/etc $target/debootstrap $target/var/cache/apt/archives $target/var/log
touch $target/bin/sh $target/var/cache/apt/archives/x.deb $target/var/log/bootstrap.log
printf 'root:x:0:0::/root:/bin/sh' > $target/etc/passwd
echo 'root:x:0:' > $target/etc/group
hostname > $target/etc/hostname
ln -s /etc/resolv.conf $target/etc/resolv.conf
echo "I: Configuring it"
`

// site is a machine with a stub of debootstrap and apt sources of its own.
type site struct {
	Options
	bin  string
	told []string
}

func newSite(t *testing.T, do string) *site {
	t.Helper()
	s := &site{bin: t.TempDir()}
	put(t, filepath.Join(s.bin, "debootstrap"), strings.Replace(makes, "DO", do, 1), 0o700)
	t.Setenv("PATH", s.bin+":"+os.Getenv("PATH"))
	etc := t.TempDir()
	put(t, filepath.Join(etc, "os-release"), "NAME=\"Some\"\nVERSION_CODENAME=\"sloth\"\n", 0o600)
	put(t, filepath.Join(etc, "apt", "sources.list"), "deb http://mirror.test/some sloth main\n", 0o600)
	s.Options = Options{DataDir: filepath.Join(t.TempDir(), "data"), Name: "debian", etc: etc, euid: func() int { return 0 }}
	s.Progress = func(what string, first bool) {
		if first {
			what = "first " + what
		}
		s.told = append(s.told, what)
	}
	return s
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *site) calls() []string {
	text, _ := os.ReadFile(filepath.Join(s.bin, "calls"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// left is what lies in the directory of bases, without locks.
func (s *site) left(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(root(s.DataDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			names = append(names, e.Name())
		}
	}
	return names
}

func (s *site) build(t *testing.T) Result {
	t.Helper()
	got, err := Build(t.Context(), s.Options)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestBaseIsBuiltOnce(t *testing.T) {
	s := newSite(t, "")
	s.Include = []string{"git", "curl"}
	first := s.build(t)
	if !first.Made || first.Path != Dir(s.DataDir, "debian") || first.Suite != "sloth" || first.Mirror != "http://mirror.test/some" {
		t.Errorf("%+v", first)
	}
	again := s.build(t)
	if again.Made || again.Suite != "sloth" || !again.BuiltAt.Equal(first.BuiltAt) || !slices.Equal(again.Include, []string{"curl", "git"}) {
		t.Errorf("%+v", again)
	}
	if calls := s.calls(); len(calls) != 1 || !strings.HasPrefix(calls[0], "--variant=minbase --include=git,curl sloth ") || !strings.HasSuffix(calls[0], " http://mirror.test/some") {
		t.Errorf("called %q", calls)
	}
	if got := strings.Join(s.told, "|"); got != "first Retrieving a|Retrieving b|first Configuring it|first Finishing" {
		t.Errorf("told %s", got)
	}
	if left := s.left(t); !slices.Equal(left, []string{".debian.json", "debian"}) {
		t.Errorf("left %q", left)
	}
	found, err := List(s.DataDir)
	if err != nil || len(found) != 1 || found[0].Name != "debian" || found[0].Suite != "sloth" {
		t.Errorf("%+v, %v", found, err)
	}
}

// The user agent is in a base, and the machine that built it is not.
func TestBaseIsFinished(t *testing.T) {
	dir := newSite(t, "").build(t).Path
	for file, want := range map[string]string{
		"etc/passwd":     "root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/bash\n",
		"etc/group":      "root:x:0:\nagent:x:1000:\n",
		"etc/shadow":     "agent:!:19000:0:99999:7:::\n",
		"etc/hostname":   "sandbox\n",
		"etc/machine-id": "",
	} {
		if got := read(t, filepath.Join(dir, file)); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "etc/resolv.conf")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("resolv.conf: %v, %v", info, err)
	}
	for _, home := range []string{"home/agent", "workspace"} {
		info, err := os.Lstat(filepath.Join(dir, home))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != 1000 {
			t.Errorf("%s: %v, %v", home, info, err)
		}
	}
	for _, gone := range []string{"debootstrap", "var/log/bootstrap.log", "var/cache/apt/archives/x.deb"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the root: %v, %v", info, err)
	}
	if err := finish(dir); err != nil || strings.Count(read(t, filepath.Join(dir, "etc/passwd")), "\nagent:") != 1 {
		t.Errorf("finished twice: %v", err)
	}
}

// Sandboxes may be running on the base that is replaced.
func TestForceKeepsTheFormerBase(t *testing.T) {
	s := newSite(t, "")
	first := s.build(t)
	put(t, filepath.Join(first.Path, "mark"), "old", 0o600)
	s.Force = true
	second, third := s.build(t), s.build(t)
	if !second.Made || read(t, filepath.Join(second.Former, "mark")) != "old" || third.Former == second.Former {
		t.Errorf("%+v, %+v", second, third)
	}
	if _, err := os.Stat(filepath.Join(third.Path, "mark")); err == nil {
		t.Error("the old base is still there")
	}
	if found, err := List(s.DataDir); err != nil || len(found) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAnotherBaseOfTheSameNameIsRefused(t *testing.T) {
	s := newSite(t, "")
	s.build(t)
	for _, change := range []func(*Options){
		func(o *Options) { o.Suite = "tiger" },
		func(o *Options) { o.Include = []string{"git"} },
	} {
		o := s.Options
		change(&o)
		if _, err := Build(t.Context(), o); fault.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "there is a base debian already") {
			t.Errorf("%v", err)
		}
	}
}

func TestBuildSaysWhatIsMissing(t *testing.T) {
	s := newSite(t, "")
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
		hint   string
	}{
		"root":        {func(o *Options) { o.euid = func() int { return 1000 } }, "needs root", "sudo berth template build-base debian --data-dir "},
		"debootstrap": {func(*Options) { t.Setenv("PATH", t.TempDir()) }, "debootstrap is not installed", "apt-get install -y debootstrap"},
		"mirror":      {func(o *Options) { o.etc = t.TempDir() }, "the apt sources of this machine name none for bookworm", "--mirror URL"},
		"name":        {func(o *Options) { o.Name = "../x" }, "is not a name", "a-z"},
		"host":        {func(o *Options) { o.Name = "host" }, "built-in base", "a-z"},
		"suite":       {func(o *Options) { o.Suite = "--help" }, `"--help" is no release`, "codename"},
		"secret":      {func(o *Options) { o.Mirror = "http://u:hunter2@m" }, "no address that packages can be fetched from", "without user and password"},
		"scheme":      {func(o *Options) { o.Mirror = "--foreign" }, "no address that packages can be fetched from", "http://"},
		"package":     {func(o *Options) { o.Include = []string{"a b"} }, `"a b" is no package`, "separated by commas"},
	} {
		path := os.Getenv("PATH")
		o := s.Options
		c.change(&o)
		_, err := Build(t.Context(), o)
		var e *fault.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) || strings.Contains(err.Error()+e.Hint, "hunter2") {
			t.Errorf("%s: %v, hint %+v", name, err, e)
		}
		t.Setenv("PATH", path)
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestMirrorAndKeysOfTheHostAreUsed(t *testing.T) {
	s := newSite(t, "")
	keys := filepath.Join(s.etc, "keys.gpg")
	put(t, keys, "", 0o600)
	put(t, filepath.Join(s.etc, "apt", "sources.list"), "deb [signed-by="+keys+" trusted=yes] https://mirror.test/some sloth main\n", 0o600)
	s.build(t)
	s.Name, s.Mirror, s.Suite = "other", "http://nearer.test/some", "tiger"
	s.build(t)
	if calls := s.calls(); !strings.HasPrefix(calls[0], "--variant=minbase --keyring="+keys+" --no-check-gpg sloth ") ||
		!strings.HasPrefix(calls[1], "--variant=minbase --keyring="+keys+" tiger ") || !strings.HasSuffix(calls[1], " http://nearer.test/some") {
		t.Errorf("called %q", calls)
	}
}

func TestFailureIsToldInItsOwnWords(t *testing.T) {
	for do, want := range map[string]string{
		`echo "W: old"; echo "E: Couldn't find it" >&2; exit 3`:                                                           "debootstrap sloth from http://mirror.test/some: exit status 3\n  W: old\n  E: Couldn't find it",
		`mkdir $target/debootstrap; echo the end of the log > $target/debootstrap/debootstrap.log; printf %9000s; exit 1`: "exit status 1\n  the end of the log",
		`exit 4`: "exit status 4",
	} {
		s := newSite(t, do)
		_, err := Build(t.Context(), s.Options)
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != api.CodeCreateFailed || !strings.Contains(err.Error(), want) || e.Hint == "" {
			t.Errorf("%v", err)
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
	// A system that cannot be finished is none.
	s := newSite(t, "mkdir -p $target/etc/passwd; exit 0")
	if _, err := Build(t.Context(), s.Options); err == nil || !strings.Contains(err.Error(), "finish base") || len(s.left(t)) > 0 {
		t.Errorf("%v, left %q", err, s.left(t))
	}
}

// Whoever interrupts a build leaves neither files nor processes nor mounts.
func TestInterruptedBuildLeavesNothing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "mkdir $target/mnt; mount -t tmpfs none $target/mnt; touch $target/mnt/x\nexec 3> "+fifo+"; sleep 1000 & echo begun >&3; wait")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Build(ctx, s.Options)
		ended <- err
	}()
	file, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	if !in.Scan() || in.Text() != "begun" {
		t.Fatalf("%q, %v", in.Text(), in.Err())
	}
	if mounts := read(t, "/proc/self/mountinfo"); strings.Contains(mounts, s.DataDir) {
		t.Errorf("mounts of the build are everybody's:\n%s", mounts)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if in.Scan() {
		t.Errorf("said %q", in.Text()) // the end comes once the last process with the fifo is gone
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// A server that is not root reads what root has built in its data directory.
func TestBasesBelongToTheDataDirectory(t *testing.T) {
	s := newSite(t, "")
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(s.DataDir, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	s.build(t)
	info, err := os.Stat(root(s.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 4711 || owner.Gid != 4712 || info.Mode().Perm() != 0o700 {
		t.Errorf("%d:%d %v", owner.Uid, owner.Gid, info.Mode())
	}
}

func TestOnlyOneBuilds(t *testing.T) {
	s := newSite(t, "")
	var wg sync.WaitGroup
	made := make([]bool, 4)
	for i := range made {
		o := s.Options
		o.Progress = nil
		wg.Go(func() {
			got, err := Build(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			made[i] = got.Made
		})
	}
	wg.Wait()
	if calls := s.calls(); len(calls) != 1 || !slices.Contains(made, true) {
		t.Errorf("called %q, made %v", calls, made)
	}
}

func TestWaitingForAnotherBuildEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another build") {
		t.Errorf("%v", err)
	}
	if _, err := lock(t.Context(), filepath.Join(path, "x")); err == nil {
		t.Error("locked what cannot be")
	}
}

func TestWhatKilledBuildersLeftIsSwept(t *testing.T) {
	s := newSite(t, "")
	put(t, filepath.Join(root(s.DataDir), ".debian.building-1", "root", "x"), "", 0o600)
	put(t, filepath.Join(root(s.DataDir), ".other.building-1", "root", "x"), "", 0o600)
	s.build(t)
	if left := s.left(t); !slices.Equal(left, []string{".debian.json", ".other.building-1", "debian"}) {
		t.Errorf("left %q", left)
	}
}

func TestBasesThatCannotBeMade(t *testing.T) {
	s := newSite(t, "")
	put(t, s.DataDir, "a file", 0o600)
	if _, err := Build(t.Context(), s.Options); err == nil || !strings.Contains(err.Error(), "make directory for bases") {
		t.Errorf("%v", err)
	}
	if _, err := List(s.DataDir); err == nil {
		t.Error("a file has bases")
	}
}

func TestWhatCanBeABase(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "merged/usr/bin/sh"), "", 0o600)
	put(t, filepath.Join(dir, "file"), "", 0o600)
	for path, want := range map[string]string{
		"merged": "", "nowhere": "it does not exist", "file": "it is not a directory", "file/x": "not a directory", "": "it holds no bin/sh",
	} {
		err := Check(filepath.Join(dir, path))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	put(t, filepath.Join(dir, "bases", "bare", "bin", "sh"), "", 0o600)
	put(t, filepath.Join(dir, "bases", ".bare.json"), "not JSON", 0o600)
	found, err := List(dir)
	if err != nil || len(found) != 1 || found[0].Name != "bare" || found[0].BuiltAt.IsZero() {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := List(filepath.Join(dir, "none")); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// The short run asks what the real run does with a stub; make torture fetches a whole system.
func TestBaseIsFitForSandboxes(t *testing.T) {
	s := newSite(t, "")
	dirs := []string{s.build(t).Path}
	for _, dir := range dirs {
		if !strings.Contains(read(t, filepath.Join(dir, "etc/passwd")), "\nagent:x:1000:1000:") || Check(dir) != nil {
			t.Errorf("%s is not fit for sandboxes", dir)
		}
		if read(t, filepath.Join(dir, "etc/hostname")) != "sandbox\n" || strings.Contains(read(t, filepath.Join(dir, "etc/resolv.conf")), "nameserver") {
			t.Errorf("%s has something of the host", dir)
		}
	}
}

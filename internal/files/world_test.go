package files_test

import (
	"bytes"
	"errors"
	"io"

	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

const canary = "the canary outside"

// world is a root with a neighbour that nothing may reach.
type world struct {
	t       *testing.T
	root    string
	outside string // holds secret, with the canary
	*files.Dir
}

func newWorld(t *testing.T) *world { return newWorldAs(t, files.Owner{}) }

// newWorldAs is a world whose root belongs to the owner.
func newWorldAs(t *testing.T, as files.Owner) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{t: t, root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, dir := range []string{w.root, w.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if as.Set {
		// The directories that the test's own are in are closed to others.
		if err := errors.Join(os.Chown(w.root, as.UID, as.GID), os.Chmod(base, 0o711), os.Chmod(filepath.Dir(base), 0o711)); err != nil {
			t.Fatal(err)
		}
	}
	w.put(filepath.Join(w.outside, "secret"), canary)
	dir, err := os.Open(w.root)
	if err != nil {
		t.Fatal(err)
	}
	if w.Dir, err = files.NewDir(dir, as); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func (w *world) at(path string) string { return filepath.Join(w.root, path) }

// put writes a file behind the FS's back.
func (w *world) put(path, content string) {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = w.at(path)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(target, path string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(w.at(path)), 0o755), os.Symlink(target, w.at(path))); err != nil {
		w.t.Fatal(err)
	}
}

// specials puts one of each special file into the root. The one outside with a second name inside is
// somebody else's.
func (w *world) specials() {
	w.t.Helper()
	if err := unix.Mkfifo(w.at("pipe"), 0o666); err != nil {
		w.t.Fatal(err)
	}
	// By a short path: a socket's address holds 108 bytes.
	dir, err := os.Open(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	defer dir.Close()
	short := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), "socket")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		w.t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	if err := unix.Mknod(w.at("device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil { // /dev/zero
		w.t.Fatal(err)
	}
	secret := filepath.Join(w.outside, "secret")
	if err := errors.Join(os.Chown(secret, 4242, 4242), os.Link(secret, w.at("hard"))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(path string) (string, error) {
	r, err := w.Open(w.t.Context(), path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func (w *world) write(path, content string) error {
	_, _, err := w.Write(w.t.Context(), path, strings.NewReader(content), files.WriteOptions{})
	return err
}

// want fails unless the file has the content.
func (w *world) want(path, content string) {
	w.t.Helper()
	if got, err := w.read(path); err != nil || got != content {
		w.t.Errorf("%s holds %q, %v; want %q", path, got, err, content)
	}
}

// names lists a directory behind the FS's back.
func (w *world) names(path string) string {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = w.at(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// untouched fails unless the neighbour is as it was.
func (w *world) untouched() {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.outside, "secret"))
	if err != nil || string(data) != canary || w.names(w.outside) != "secret" {
		w.t.Errorf("outside: %q, %q, %v", w.names(w.outside), data, err)
	}
}

func isCode(t *testing.T, what string, err error, code api.Code) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (%s), want %s", what, err, got, code)
	}
}

// failing is a reader that ends with an error after some bytes.
type failing struct {
	before io.Reader
	err    error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.before.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

var errSender = errors.New("the sender is gone")

func halfSent() io.Reader { return failing{bytes.NewReader(make([]byte, 300<<10)), errSender} }

func isOneOf(err error, codes ...api.Code) bool { return slices.Contains(codes, fault.CodeOf(err)) }

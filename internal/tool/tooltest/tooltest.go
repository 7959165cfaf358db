// Package tooltest provides [Box], a sandbox for tests of tools and of packages that call tools. It runs real commands
// on real files and needs no database.
package tooltest

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Box is a driver with one instance, whose helper isolates nothing.
type Box struct {
	driver.Driver // nil: only the methods below are implemented
	*guesttest.Helper
	Owner files.Owner // the user of file operations

	Of   string       // the name of the template
	Env  []string     // environment variables of every command
	Down error        // the error of Guest; nil: Guest succeeds
	Gone atomic.Bool  // Files fails until Guest was called
	Held atomic.Int64 // number of holds
}

// New returns a Box. Its helper ends with the test.
func New(t testing.TB) *Box {
	t.Helper()
	return &Box{Helper: guesttest.NewHelper(t)}
}

// Handle returns a handle on the instance.
func (b *Box) Handle() *engine.Handle {
	e := engine.New(engine.Options{Drivers: map[string]driver.Driver{"plain": b}, Store: Holds{N: &b.Held}, Templates: Env(b.Env)})
	s := sandbox.Sandbox{ID: b.Dir, State: sandbox.Running, Spec: sandbox.Spec{Driver: "plain", Template: b.Of}}
	return e.HandleAt(s, "plain-1")
}

// Workspace returns the path of the workspace on this machine.
func (b *Box) Workspace() string { return filepath.Join(b.Dir, "workspace") }

// Home returns the path of the home directory on this machine.
func (b *Box) Home() string { return filepath.Join(b.Dir, "home") }

// Guest connects to the helper.
func (b *Box) Guest(context.Context, driver.ID) (guest.Conn, error) {
	if b.Down != nil {
		return nil, b.Down
	}
	dir, err := os.Open(b.Dir)
	if err != nil {
		return nil, err
	}
	b.Gone.Store(false)
	return guest.Open(dir, guest.Options{Spools: filepath.Join(b.Dir, "spool"), Owner: -1, Root: -1}), nil
}

// Output reads the output of a process.
func (b *Box) Output(ctx context.Context, _ driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return guest.Output(ctx, filepath.Join(b.Dir, "spool"), process, after, 0)
}

// Files opens the workspace or the home.
func (b *Box) Files(_ context.Context, _ driver.ID, root string) (files.FS, error) {
	if b.Gone.Load() {
		return nil, driver.ErrNotFound
	}
	path := b.Workspace()
	if root == files.HomeDir {
		path = b.Home()
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, b.Owner)
}

// Holds is an engine.Store that counts holds. It implements no other method.
type Holds struct {
	engine.Store
	N *atomic.Int64
}

// Hold counts a hold.
func (h Holds) Hold(context.Context, string, string, string, time.Time) error {
	h.N.Add(1)
	return nil
}

// DropHold does nothing.
func (Holds) DropHold(context.Context, string, string, string) error { return nil }

// Env is an engine.Templates whose templates only have an environment.
type Env []string

// Names returns no names.
func (Env) Names() []string { return nil }

// Allows returns true.
func (Env) Allows(_, _ string) bool { return true }

// Spec returns an empty specification.
func (Env) Spec(string) sandbox.Spec { return sandbox.Spec{} }

// User returns "": commands run as the helper's default user.
func (Env) User(string) string { return "" }

// Prepare does nothing.
func (Env) Prepare(sandbox.Sandbox, *driver.Spec) error { return nil }

// Env returns the environment as a map.
func (e Env) Env(context.Context, string, string) (map[string]string, error) {
	env := map[string]string{}
	for _, v := range e {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env, nil
}

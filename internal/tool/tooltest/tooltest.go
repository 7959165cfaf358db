// Package tooltest has a sandbox for tests of what is built upon tools: [Box], with real commands and real
// files, and without a driver.
package tooltest

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Box is a tool.Box whose helper isolates nothing.
type Box struct {
	*guesttest.Helper
	Owner files.Owner // whom its files are worked on as

	Of   string       // its template
	Env  []string     // what every command in it has
	Down error        // what reaching the inside fails with
	Gone atomic.Bool  // it has no instance until somebody reaches the inside
	Held atomic.Int64 // how often it was held
}

// New starts a helper, which ends with the test.
func New(t testing.TB) *Box {
	t.Helper()
	return &Box{Helper: guesttest.NewHelper(t)}
}

// Workspace is where its files are, on this machine.
func (b *Box) Workspace() string { return filepath.Join(b.Dir, "workspace") }

// Home is where the files of its home are, on this machine.
func (b *Box) Home() string { return filepath.Join(b.Dir, "home") }

// Template names what Of says.
func (b *Box) Template(context.Context) (string, error) { return b.Of, nil }

// Sandbox returns a record, with little in it.
func (b *Box) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	return sandbox.Sandbox{ID: b.Dir, Spec: sandbox.Spec{Template: b.Of}}, b.Down
}

// Guest connects to the helper.
func (b *Box) Guest(ctx context.Context) (guest.Conn, error) {
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

// Command adds Env.
func (b *Box) Command(_ sandbox.Sandbox, cmd guest.Cmd) guest.Cmd {
	cmd.Env = append(cmd.Env, b.Env...)
	return cmd
}

// Files opens the workspace or the home.
func (b *Box) Files(ctx context.Context, root string) (files.FS, error) {
	if b.Gone.Load() {
		return nil, sandbox.Errorf("reach sandbox", "sandbox_not_running", "it has no instance")
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

// Hold counts.
func (b *Box) Hold(context.Context, string) (release func()) {
	b.Held.Add(1)
	return func() {}
}

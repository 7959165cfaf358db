// Package boxtest gives tests a real sandbox on this machine without a server: [New] makes one, as runtimes of
// agents see sandboxes.
package boxtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// Options are what a template would say.
type Options struct {
	Mounts   []driver.Mount
	Services map[string]string
	Env      []string
	Limits   driver.Limits
}

// Box is a sandbox. It is an agent.Box.
type Box struct {
	Driver *local.Driver
	ID     driver.ID
	Env    []string // what every command in it has
}

// New makes a sandbox that ends with the test.
func New(t testing.TB, o Options) *Box {
	t.Helper()
	exe, err := helper()
	must(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	d, err := local.New(t.Context(), local.Options{
		Dir: t.TempDir(), Exe: exe, Grace: 200 * time.Millisecond,
		Attach: func(ctx context.Context, _ driver.Status, s driver.Spec, conn guest.Conn) func() {
			detach, err := egress.Attach(ctx, conn, egress.Spec{Sandbox: s.Key.Sandbox, Services: o.Services, Log: log})
			if err != nil {
				t.Errorf("boxtest: %v", err)
				return func() {}
			}
			return detach
		},
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, errors.Join(d.WaitIdle(ctx), d.Close()))
	})
	b := &Box{Driver: d, Env: o.Env}
	key := driver.Key{Sandbox: uuid.NewString(), Incarnation: 1}
	st, err := d.Create(t.Context(), driver.Spec{Key: key, Tenant: "test", Mounts: o.Mounts, Limits: o.Limits})
	must(t, err)
	b.ID = st.ID
	t.Cleanup(func() { must(t, d.Destroy(context.Background(), b.ID)) })
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("boxtest: %v", err)
	}
}

// Guest connects to the helper, starting the sandbox if it is stopped.
func (b *Box) Guest(ctx context.Context) (guest.Conn, error) {
	if st, err := b.Driver.Inspect(ctx, b.ID); err == nil && st.Phase == driver.PhaseStopped {
		_, _ = b.Driver.Start(ctx, b.ID) // Guest says if it does not run
	}
	return b.Driver.Guest(ctx, b.ID)
}

// Command adds Env.
func (b *Box) Command(cmd guest.Cmd) guest.Cmd {
	cmd.Env = guest.LastOfEach(append(b.Env[:len(b.Env):len(b.Env)], cmd.Env...))
	return cmd
}

// Output reads what a process wrote.
func (b *Box) Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return b.Driver.Output(ctx, b.ID, process, after)
}

// Files opens the workspace or the home.
func (b *Box) Files(ctx context.Context, root string) (files.FS, error) {
	return b.Driver.Files(ctx, b.ID, root)
}

// Stop ends everything that runs in it; its files stay.
func (b *Box) Stop(ctx context.Context) error { return b.Driver.Stop(ctx, b.ID) }

// helper builds a program that can become the first process of a sandbox, once for a test's process. The file
// is gone at once: what remains is a descriptor, which ends with the process.
var helper = sync.OnceValues(func() (path string, err error) {
	built := filepath.Join(os.TempDir(), "berth-box-"+uuid.NewString())
	defer os.Remove(built)
	cmd := exec.Command("go", "build", "-o", built, "github.com/berthdev/berth/internal/driver/local/testdata/helper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	kept, err = os.Open(built)
	return fmt.Sprintf("/proc/self/fd/%d", kept.Fd()), err
})

var kept *os.File

// Package boxtest makes real sandboxes on this machine for tests, without a server. [New] makes a sandbox and returns
// a handle on it.
package boxtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Options sets the properties of a sandbox that otherwise come from a template.
type Options struct {
	Mounts   []driver.Mount
	Services map[string]string
	Env      []string
	Limits   driver.Limits
	Old      bool // the helper is that of an older Berth
}

// Box is a running sandbox and a handle on it.
type Box struct {
	*engine.Handle
	Driver *local.Driver
	ID     driver.ID
	Env    []string // environment of every command, as NAME=value
}

// New makes a sandbox and destroys it when the test ends.
func New(t testing.TB, o Options) *Box {
	t.Helper()
	build := helper
	if o.Old {
		build = oldHelper
	}
	exe, err := build()
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
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir(), Logger: log})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	b := &Box{Driver: d, Env: o.Env}
	e := engine.New(engine.Options{
		Store: engine.OnDB(db), Drivers: map[string]driver.Driver{"local": d}, Logger: log, Templates: templates{b, o},
		Defaults: sandbox.Spec{Template: "test", Driver: "local", Profile: "standard"},
	})
	id := uuid.NewString()
	s, _, err := e.Ensure(t.Context(), engine.Request{
		Owner: sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerSandbox, ID: id}, ID: id, Actor: "test",
	})
	must(t, err)
	b.Handle, b.ID = e.HandleOn(s, "test"), driver.ID(s.Instance)
	t.Cleanup(func() { must(t, d.Destroy(context.Background(), b.ID)) })
	return b
}

// templates provides the only template of a Box to the engine.
type templates struct {
	box *Box
	o   Options
}

func (templates) Names() []string            { return []string{"test"} }
func (templates) Allows(_, name string) bool { return name == "test" }
func (templates) Spec(string) sandbox.Spec   { return sandbox.Spec{} }
func (templates) User(string) string         { return "" }

func (t templates) Prepare(_ sandbox.Sandbox, spec *driver.Spec) error {
	spec.Mounts, spec.Limits = t.o.Mounts, t.o.Limits
	return nil
}

func (t templates) Env(context.Context, string, string) (map[string]string, error) {
	env := map[string]string{}
	for _, v := range t.box.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("boxtest: %v", err)
	}
}

// helper and oldHelper build the program that runs as pid 1 of a sandbox, once for each test process.
var helper, oldHelper = builder("helper"), builder("oldhelper")

// builder returns a function that builds a program. It removes the file at once and returns a path to an open descriptor
// of it, which is closed when the process ends.
func builder(name string) func() (path string, err error) {
	return sync.OnceValues(func() (path string, err error) {
		built := filepath.Join(os.TempDir(), "berth-box-"+uuid.NewString())
		defer os.Remove(built)
		cmd := exec.Command("go", "build", "-o", built, "github.com/berthdev/berth/internal/testkit/boxtest/testdata/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		f, err := os.Open(built)
		if err != nil {
			return "", err
		}
		kept = append(kept, f)
		return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
	})
}

// kept are the descriptors of the programs, which must not be collected.
var kept []*os.File

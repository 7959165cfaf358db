package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit/exposetest"
)

// procs is the smallest driver with every ability: the fake one, whose instances get a folder each in which
// commands run as plain processes of the host.
type procs struct {
	*fake.Driver
	dir      string
	provider *exposetest.Provider
}

func newProcs(t *testing.T, dir string) *procs {
	t.Helper()
	d, err := fake.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &procs{Driver: d, dir: dir, provider: exposetest.New(t)}
}

// files is where an instance's workspace is, and, with ~ behind it, its home.
func (p *procs) files(id driver.ID) string { return filepath.Join(p.dir, "files", string(id)) }

func (p *procs) Create(ctx context.Context, spec driver.Spec) (driver.Status, error) {
	st, err := p.Driver.Create(ctx, spec)
	if err != nil {
		return st, err
	}
	return st, errors.Join(os.MkdirAll(p.files(st.ID), 0o700), os.MkdirAll(p.files(st.ID)+"~", 0o700))
}

func (p *procs) Destroy(ctx context.Context, id driver.ID) error {
	if _, err := p.Inspect(ctx, id); errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	p.provider.Destroyed(id)
	return errors.Join(p.Driver.Destroy(ctx, id), os.RemoveAll(p.files(id)), os.RemoveAll(p.files(id)+"~"))
}

func (p *procs) Expose(ctx context.Context, id driver.ID, port uint16, lifetime time.Duration) (driver.Exposure, error) {
	return p.provider.For(p.Driver).Expose(ctx, id, port, lifetime)
}

func (p *procs) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	st, err := p.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	if st.Phase != driver.PhaseRunning {
		return nil, driver.ErrNotRunning
	}
	return p.connect(id), nil
}

func (p *procs) Output(ctx context.Context, id driver.ID, _ string, _ int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		_, err := p.Inspect(ctx, id)
		if err == nil {
			err = guest.ErrNoProcess
		}
		yield(guest.Chunk{}, err)
	}
}

func (p *procs) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	if _, err := p.Inspect(ctx, id); err != nil {
		return nil, err
	}
	path := map[string]string{files.WorkingDir: p.files(id), files.HomeDir: p.files(id) + "~"}[root]
	if path == "" {
		return nil, driver.ErrInvalid
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, files.Owner{})
}

// run is guest.Conn's, with the instance named.
type run func(context.Context, driver.ID, guest.Cmd, guest.Stdio) (guest.Exit, error)

// conn is a guest of which only Run is there.
type conn struct {
	guest.Conn
	id  driver.ID
	run run
}

func (c conn) Run(ctx context.Context, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
	return c.run(ctx, c.id, cmd, std)
}

func (c conn) Close() error { return nil }

// connect gives a guest whatever phase the instance is in.
func (p *procs) connect(id driver.ID) guest.Conn { return conn{id: id, run: p.run} }

func (p *procs) run(ctx context.Context, id driver.ID, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
	if len(cmd.Argv) == 0 {
		return guest.Exit{}, guest.ErrInvalid
	}
	c := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	c.Dir = p.files(id)
	if cmd.Dir != "" {
		c.Dir = cmd.Dir
	}
	c.Env = append(os.Environ(), cmd.Env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Stdin, c.Stdout, c.Stderr = std.Stdin, std.Stdout, std.Stderr
	err := c.Run()
	exit := guest.Exit{Code: c.ProcessState.ExitCode()}
	if errors.Is(err, exec.ErrNotFound) {
		exit.Code, err = guest.ExitNotFound, nil
	}
	if _, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		err = nil
	}
	return exit, err
}

// harness runs the suite on what bend makes of a procs.
func harness(bend func(*procs) driver.Driver) drivertest.Harness {
	var dir string
	return drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			dir = t.TempDir()
			return bend(newProcs(t, dir))
		},
		Reopen: func(t *testing.T, _ driver.Driver) driver.Driver { return bend(newProcs(t, dir)) },
		Serve:  serve,
	}
}

// serve runs a program on the host, whose loopback is that of all instances.
func serve(t *testing.T, _ driver.Driver, _ driver.ID, text string) (port uint16) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text, " ", r.URL.Path) }))
	t.Cleanup(program.Close)
	return netip.MustParseAddrPort(program.Listener.Addr().String()).Port()
}

func TestSuitePasses(t *testing.T) {
	drivertest.Run(t, harness(func(p *procs) driver.Driver { return p }))
}

// A provider whose URLs do not have the token in them, and that knows only the other name of the call.
func TestSuitePassesWithLinks(t *testing.T) {
	drivertest.Run(t, harness(func(p *procs) driver.Driver {
		p.provider.LinksOnly = true
		return struct {
			driver.Driver
			driver.Stopper
			driver.Exposer
		}{p, p, p}
	}))
}

// A slow driver that keeps its instances to itself and can do nothing more than it must.
func TestSuitePassesWithoutAbilities(t *testing.T) {
	h := harness(func(p *procs) driver.Driver { return struct{ driver.Driver }{p} })
	h.Reopen = nil
	h.Slow = true
	drivertest.Run(t, h)
}

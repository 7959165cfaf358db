package drivertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/fake"
)

// procs is the smallest driver with every ability: the fake one, whose instances get a folder each
// in which commands run as plain processes of the host.
type procs struct {
	*fake.Driver
	dir string

	mu  sync.Mutex
	env map[driver.ID]map[string]string
}

func newProcs(t *testing.T, dir string) *procs {
	t.Helper()
	d, err := fake.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &procs{Driver: d, dir: dir, env: map[driver.ID]map[string]string{}}
}

func (p *procs) files(id driver.ID) string { return filepath.Join(p.dir, "files", string(id)) }

func (p *procs) Create(ctx context.Context, spec driver.Spec) (driver.Status, error) {
	st, err := p.Driver.Create(ctx, spec)
	if err != nil {
		return st, err
	}
	p.mu.Lock()
	p.env[st.ID] = spec.Env
	p.mu.Unlock()
	return st, os.MkdirAll(p.files(st.ID), 0o700)
}

func (p *procs) Destroy(ctx context.Context, id driver.ID) error {
	if _, err := p.Inspect(ctx, id); errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return errors.Join(p.Driver.Destroy(ctx, id), os.RemoveAll(p.files(id)))
}

func (p *procs) Exec(ctx context.Context, id driver.ID, cmd driver.Cmd) (driver.Result, error) {
	st, err := p.Inspect(ctx, id)
	if err != nil {
		return driver.Result{}, err
	}
	if st.Phase != driver.PhaseRunning {
		return driver.Result{}, driver.ErrNotRunning
	}
	return p.exec(ctx, id, cmd)
}

// exec runs a command whatever phase the instance is in.
func (p *procs) exec(ctx context.Context, id driver.ID, cmd driver.Cmd) (driver.Result, error) {
	if len(cmd.Argv) == 0 {
		return driver.Result{}, driver.ErrInvalid
	}
	c := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	c.Dir = p.files(id)
	if cmd.Dir != "" {
		c.Dir = cmd.Dir
	}
	c.Env = append(os.Environ(), p.vars(id, cmd)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Stdin = bytes.NewReader(cmd.Stdin)
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	res := driver.Result{ExitCode: c.ProcessState.ExitCode(), Stdout: out.Bytes(), Stderr: errOut.Bytes()}
	if errors.Is(err, exec.ErrNotFound) {
		res.ExitCode, err = 127, nil
	}
	if _, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		err = nil
	}
	return res, err
}

func (p *procs) vars(id driver.ID, cmd driver.Cmd) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var vars []string
	for _, env := range []map[string]string{p.env[id], cmd.Env} {
		for name, value := range env {
			vars = append(vars, fmt.Sprintf("%s=%s", name, value))
		}
	}
	return vars
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
	}
}

func TestSuitePasses(t *testing.T) {
	drivertest.Run(t, harness(func(p *procs) driver.Driver { return p }))
}

// A slow driver that keeps its instances to itself and can do nothing more than it must.
func TestSuitePassesWithoutAbilities(t *testing.T) {
	h := harness(func(p *procs) driver.Driver { return struct{ driver.Driver }{p} })
	h.Reopen = nil
	h.Slow = true
	drivertest.Run(t, h)
}

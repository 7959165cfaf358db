package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestSandboxLifeOverHTTP(t *testing.T) {
	testkit.Proves(t, "O1", "X1", "X2")
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		c := start(t, env).client(t)
		ctx := t.Context()
		made, created, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "box", Metadata: map[string]string{"k": "v"}})
		if err != nil || !created || made.State != "running" || made.Owner.ID != "box" {
			t.Fatalf("%+v, created %v, %v", made, created, err)
		}
		again, created, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "box"})
		if err != nil || created || again.ID != made.ID {
			t.Fatalf("%+v, created %v, %v", again, created, err)
		}
		if got, err := c.Sandboxes.Get(ctx, made.ID); err != nil || got.Name != "box" {
			t.Fatalf("%+v, %v", got, err)
		}
		var events []string
		for h, err := range c.Sandboxes.History(ctx, "box") {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, h.Event)
		}
		if strings.Join(events, " ") != "ready begin want" {
			t.Errorf("history %v", events)
		}
		if err := c.Sandboxes.Delete(ctx, "box"); err != nil {
			t.Fatal(err)
		}
		_, err = c.Sandboxes.Get(ctx, made.ID)
		if p := problem(err); p.Code != api.CodeDeleted || p.Status != http.StatusGone {
			t.Errorf("a deleted one: %v", err)
		}
	})
}

func problem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return new(api.Problem)
}

func TestSandboxesOutliveTheServer(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		first := start(t, env)
		made, _, err := first.client(t).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"})
		if err != nil {
			t.Fatal(err)
		}
		if err := first.end(t); err != nil {
			t.Fatalf("drain: %v", err)
		}
		got, err := start(t, env).client(t).Sandboxes.Get(t.Context(), "box")
		if err != nil || got.State != "running" || got.Instance != made.Instance {
			t.Errorf("after a restart: %+v, %v", got, err)
		}
	})
}

// A request that runs when SIGTERM comes is answered; what it asked for is there.
func TestDrainFinishesRunningRequests(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	env := fresh(t)
	dir := filepath.Join(value(env, "BERTH_DATA_DIR"), "fake")
	p := start(t, env)
	if err := fake.SetFaults(dir, []fake.Fault{{Op: fake.Create, Slow: time.Second}}); err != nil {
		t.Fatal(err)
	}
	c := p.client(t, client.WithAttempts(1))
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "slow"})
		answered <- err
	}()
	testkit.Eventually(t, patience, func() error { return asked(dir) })
	if err := p.end(t); err != nil {
		t.Errorf("exit: %v", err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the running request: %v", err)
	}
}

// On SQLite the next server knows that the killed one is gone, and does not wait for its leases.
func TestKilledServerLeavesNothingToWaitFor(t *testing.T) {
	t.Parallel()
	env := append(fresh(t), "BERTH_LEASE_TTL=10m")
	dir := filepath.Join(value(env, "BERTH_DATA_DIR"), "fake")
	killed := start(t, env)
	if err := fake.SetFaults(dir, []fake.Fault{{Op: fake.Create, Slow: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	s := &sender{}
	lost := make(chan error, 1)
	go func() {
		_, _, err := s.once(t.Context(), killed.url, "key")
		lost <- err
	}()
	testkit.Eventually(t, patience, func() error { return asked(dir) })
	_ = killed.cmd.Process.Kill()
	_ = killed.cmd.Wait()
	if err := fake.SetFaults(dir, nil); err != nil || <-lost == nil {
		t.Fatalf("the killed server answered, or %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if status, body, err := s.once(ctx, start(t, env).url, "key"); err != nil || status != http.StatusCreated {
		t.Errorf("the same request again: %d %s, %v", status, body, err)
	}
}

// asked is nil once a create has reached the driver.
func asked(dir string) error {
	d, err := fake.New(dir)
	if err != nil {
		return err
	}
	calls, err := d.Log()
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Op == fake.Create {
			return nil
		}
	}
	return errors.New("no create yet")
}

func TestDatabaseGoesAwayAndComesBack(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	ctx := t.Context()
	cluster, err := pgtest.Start(ctx, pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cluster.Close() }()
	p := start(t, append(fresh(t), "DATABASE_URL="+cluster.URL("postgres")))
	c := p.client(t, client.WithAttempts(1))
	if _, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "before"}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "during"})
	if pr := problem(err); pr.Code != api.CodeStoreUnavailable || pr.Status != 503 || !pr.Retryable {
		t.Errorf("while the database is away: %v", err)
	}
	if ready, err := c.Ready(ctx); err != nil || ready.Status != "not_ready" {
		t.Errorf("readiness while the database is away: %+v, %v", ready, err)
	}
	if err := cluster.Start(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 60*time.Second, func() error {
		_, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "after"})
		return err
	})
}

func TestServerRefusesToStartWithWords(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	first := fresh(t)
	running := start(t, first)
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("\n[templates.small]\ndriver = \"nope\"\nbase = \"nope\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		env  []string
		want []string
	}{
		"port in use":          {append(fresh(t), "BERTH_LISTEN="+strings.TrimPrefix(running.url, "http://")), []string{"in use", "--listen"}},
		"data directory taken": {first, []string{"process", "--data-dir"}},
		"database down":        {append(fresh(t), "DATABASE_URL=postgres://berth:hunter2-secret@127.0.0.1:1/berth"), []string{"127.0.0.1:1", `database "berth"`, "connection refused", "hint:"}},
		"bad key":              {append(fresh(t), "BERTH_API_KEY=short"), []string{"BERTH_API_KEY", "20"}},
		"bad address":          {append(fresh(t), "BERTH_LISTEN=nowhere"), []string{"BERTH_LISTEN", "nowhere"}},
		"data dir is a file":   {append(fresh(t), "BERTH_DATA_DIR=/dev/null/x"), []string{"/dev/null/x"}},
		"no such driver":       {append(fresh(t), "BERTH_DEFAULT_DRIVER=nope"), []string{`default_driver = "nope" (env BERTH_DEFAULT_DRIVER)`, "write one of: fake"}},
		"no such template":     {append(fresh(t), "BERTH_DEFAULT_TEMPLATE=nope"), []string{`default_template = "nope" (env BERTH_DEFAULT_TEMPLATE)`, "claude_code, codex, copilot, cursor, default, demo, gemini, github, goose, none, opencode, qwen, sandbox_agent"}},
		"template section":     {append(fresh(t), "BERTH_CONFIG="+file), []string{`templates.small.driver = "nope" (file ` + file + ":3) is no driver", "write one of: fake, local", file + ":4) is no base on this machine", "berth template build-base nope"}},
	}
	for name, c := range cases {
		said := refused(t, c.env)
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is not in:\n%s", name, want, said)
			}
		}
		if strings.Contains(said, "hunter2") {
			t.Errorf("%s: the password is in:\n%s", name, said)
		}
	}
}

// Secrets that pass through the server are in none of its files and logs, but for the environment that
// a sandbox was given, which the database must keep.
func TestSecretsStayOut(t *testing.T) {
	testkit.Proves(t, "E5")
	t.Parallel()
	env := local(t)
	p := start(t, env)
	c := p.client(t)
	key, err := c.Keys.Create(t.Context(), api.CreateKey{Label: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	const canary = "canary-5f3c9a71-in-the-environment"
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box", Env: map[string]string{"TOKEN": canary}}); err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{testKey, key.Secret, canary} {
		if strings.Contains(p.logs.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
		for _, file := range holding(t, value(env, "BERTH_DATA_DIR"), secret) {
			if secret != canary || !strings.HasPrefix(filepath.Base(file), "berth.db") {
				t.Errorf("%s holds %q", file, secret)
			}
		}
	}
}

// holding lists the files below dir that contain text.
func holding(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		found, err := contains(path, text)
		if found {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// contains reports whether the file contains the text. It reads the parts that hold data, a little at a time: the disk
// images of sandboxes are sparse files of many gigabytes.
func contains(path, text string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	window := make([]byte, 1<<20+len(text))
	for at := int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return false, nil // there is only a hole to the end
		}
		if err != nil {
			return false, os.NewSyscallError("lseek", err)
		}
		n, err := f.ReadAt(window, data)
		switch {
		case bytes.Contains(window[:n], []byte(text)):
			return true, nil
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		}
		at = data + 1<<20
	}
}

func TestContainsReadsAcrossHolesAndWindows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{3 << 20, 3<<20 + 1<<20 - 3, 1<<34 + 5} {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("filler"), 1<<20); err != nil {
			t.Fatal(err)
		}
		if found, err := contains(path, "needle"); found || err != nil {
			t.Errorf("before there is a needle: %v, %v", found, err)
		}
		if _, err := f.WriteAt([]byte("needle"), at); err != nil {
			t.Fatal(err)
		}
		if found, err := contains(path, "needle"); !found || err != nil {
			t.Errorf("a needle at %d: %v, %v", at, found, err)
		}
	}
}

package local_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
)

// open opens a driver that is closed, and what it destroyed waited for, when the test ends.
func open(t testing.TB, dir string, change ...func(*local.Options)) *local.Driver {
	t.Helper()
	shareBase(t, dir)
	opts := local.Options{Dir: dir, Exe: helper, Tier: local.Tier(cmp.Or(os.Getenv(tierEnv), string(local.TierRoot))), Grace: 200 * time.Millisecond}
	for _, c := range change {
		c(&opts)
	}
	d, err := local.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.WaitIdle(ctx); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// shareBase lets the drivers of all tests have one base of the host, which takes longer to make than most
// tests take.
func shareBase(t testing.TB, dir string) {
	t.Helper()
	shared := filepath.Join(cmp.Or(os.Getenv(asUserEnv), programs()), "base")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shared, filepath.Join(dir, "base")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

func spec() driver.Spec {
	return driver.Spec{Key: driver.Key{Sandbox: uuid.NewString(), Incarnation: 1}, Tenant: "acme"}
}

// create makes an instance that is destroyed when the test ends.
func create(t testing.TB, d *local.Driver, s driver.Spec) driver.Status {
	t.Helper()
	st, err := d.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(context.Background(), st.ID); err != nil {
			t.Error(err)
		}
	})
	return st
}

// result is what became of a command.
type result struct {
	guest.Exit
	Out, Err string
}

func run(t testing.TB, d driver.Guester, id driver.ID, cmd guest.Cmd) result {
	t.Helper()
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var out, errOut bytes.Buffer
	exit, err := conn.Run(t.Context(), cmd, guest.Stdio{Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatal(err)
	}
	return result{exit, out.String(), errOut.String()}
}

func sh(script string) guest.Cmd { return guest.Cmd{Argv: []string{"sh", "-c", script}} }

func asRoot(cmd guest.Cmd) guest.Cmd {
	cmd.User = guest.Root
	return cmd
}

func TestDriverPassesSuite(t *testing.T) { passesSuite(t) }

func passesSuite(t *testing.T, change ...func(*local.Options)) {
	dirs := map[driver.Driver]string{}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			dir := t.TempDir()
			d := open(t, dir, change...)
			dirs[d] = dir
			return d
		},
		Reopen:   func(t *testing.T, d driver.Driver) driver.Driver { return open(t, dirs[d], change...) },
		Patience: 30 * time.Second,
	})
}

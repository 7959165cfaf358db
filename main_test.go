package berth_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// guestPath is a berth binary for the sandboxes of examples and tests: a test binary may have cgo.
var guestPath string

// dataDir is the data directory of the examples.
var dataDir string

func TestMain(m *testing.M) {
	code, err := runMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runMain(m *testing.M) (code int, err error) {
	if guestPath, err = testkit.BinaryPath(); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "berth-example-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dataDir = filepath.Join(dir, "data")
	return pgtest.Main(m), nil
}

// me is the account of the tests.
var me = berth.Account{ID: "me"}

// open opens a Berth whose sandboxes end with the test.
func open(t testing.TB, c berth.Config) *berth.Berth {
	t.Helper()
	if c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	if c.GuestPath == "" {
		c.GuestPath = guestPath
	}
	c.Log, c.Settings = t.Output(), map[string]string{"log_level": "warn"}
	b, err := berth.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(deleteAll(b, me), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func deleteAll(b *berth.Berth, account berth.Account) error {
	ctx := context.Background()
	for found, err := range b.Sandboxes(ctx, account) {
		if errors.Is(err, berth.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.DeleteSandbox(ctx, found.ID, account, false); err != nil {
			return err
		}
	}
	return nil
}

// newSandbox opens a new sandbox.
func newSandbox(t testing.TB, b *berth.Berth, opts ...berth.Option) *berth.Sandbox {
	t.Helper()
	s, err := b.Sandbox(t.Context(), berth.NewID(), me, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

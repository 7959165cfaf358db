package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/berthdev/berth/internal/testkit"
)

func TestNewGivesEachTestItsOwnDatabase(t *testing.T) {
	a, b := New(t), New(t)
	if a.URL == b.URL || a.Name == b.Name {
		t.Fatalf("two tests share %s", a.URL)
	}
	if got, err := query(t.Context(), a.URL, "select current_database()::text"); got != a.Name {
		t.Errorf("connected to %q, %v; want %q", got, err, a.Name)
	}
}

func TestNewDropsDatabaseAtEnd(t *testing.T) {
	var url string
	t.Run("inner", func(t *testing.T) { url = New(t).URL })
	if _, err := query(t.Context(), url, "select 'x'"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("after the test: %v, want no such database", err)
	}
}

func TestTemplateIsPreparedOnceAndCloned(t *testing.T) {
	var calls atomic.Int64
	tpl := NewTemplate(func(ctx context.Context, url string) error {
		calls.Add(1)
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "create table t as select 'cloned' as word")
		return err
	})
	t.Run("clones", func(t *testing.T) {
		for n := range testkit.Size(t, "pgtest.databases") {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				if got, err := query(t.Context(), tpl.New(t).URL, "select word from t"); got != "cloned" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	})
	if n := calls.Load(); n != 1 {
		t.Errorf("prepared %d times, want once", n)
	}
}

// fatal stands in for a test that pgtest must fail.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func (f *fatal) Logf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestTemplateFailsEveryTestWithItsError(t *testing.T) {
	tpl := NewTemplate(func(context.Context, string) error { return errors.New("bad migration") })
	for range 2 {
		f := &fatal{TB: t}
		if db := tpl.New(f); db != nil || !strings.Contains(f.said, "bad migration") {
			t.Errorf("%v, %q; want the template's error", db, f.said)
		}
	}
}

func TestNewFailsWithoutServer(t *testing.T) {
	if _, err := sharedCluster(); err != nil {
		t.Fatal(err)
	}
	saved := shared.cluster
	shared.cluster, shared.err = nil, ErrMissing
	defer func() { shared.cluster, shared.err = saved, nil }()
	f := &fatal{TB: t}
	if db := New(f); db != nil || !strings.Contains(f.said, "apt-get install -y postgresql") {
		t.Errorf("%v, %q; want words that say what to install", db, f.said)
	}
	if code := Main(exitCode(3)); code != 3 {
		t.Errorf("Main without a server: %d, want the tests' own 3", code)
	}
}

type exitCode int

func (e exitCode) Run() int { return int(e) }

func TestStoppedServerFailsNewAndForgivesDrop(t *testing.T) {
	c := borrow(t)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	f := &fatal{TB: t}
	c.drop(f, "gone")
	if !strings.Contains(f.said, "drop database") {
		t.Errorf("said %q", f.said)
	}
	saved := shared.cluster
	shared.cluster = c
	defer func() { shared.cluster = saved }()
	f = &fatal{TB: t}
	if db := New(f); db != nil || !strings.Contains(f.said, "make database") {
		t.Errorf("%v, %q", db, f.said)
	}
}

package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// withFiles gives the instances of a server files.
func withFiles(t *testing.T, at place) func(*engine.Options) {
	return func(o *engine.Options) {
		if err := fake.MakeFiles(at.FakeDir); err != nil {
			t.Fatal(err)
		}
		d, err := fake.Open(at.FakeDir)
		if err != nil {
			t.Fatal(err)
		}
		o.Drivers = map[string]driver.Driver{"fake": d}
	}
}

// writeVia writes a file through a handle, as the files API does.
func writeVia(ctx context.Context, h *engine.Handle, name string) error {
	fs, err := h.Files(ctx, files.WorkingDir)
	if err != nil {
		return err
	}
	defer fs.Close()
	_, _, err = fs.Write(ctx, name, strings.NewReader("text"), files.WriteOptions{})
	return err
}

// The first use of the files of a lost instance recovers the sandbox, though it is recorded as running.
func TestFilesOfALostInstance(t *testing.T) {
	testkit.Proves(t, "S18", "O6")
	at := onSQLite(t)
	srv := at.open(t, withFiles(t, at))
	s := srv.ensure(t, project("p"))
	h := srv.Handle("default", s.ID, "test")
	if err := writeVia(t.Context(), h, "first"); err != nil {
		t.Fatal(err)
	}
	if err := srv.fake.Vanish(driver.ID(s.Instance)); err != nil {
		t.Fatal(err)
	}
	if err := writeVia(t.Context(), h, "second"); err != nil {
		t.Errorf("after the loss: %v", err)
	}
	got := srv.ensure(t, project("p"))
	if got.Incarnation != 2 || got.Lost.At.IsZero() {
		t.Errorf("incarnation %d, lost %+v", got.Incarnation, got.Lost)
	}
}

// forgetting is a store that does not take the record of a change after the first.
type forgetting struct {
	engine.Store
	calls int
}

func (f *forgetting) RecordChange(ctx context.Context, tenant, id string, saved bool, after time.Duration) error {
	if f.calls++; f.calls > 1 {
		return errors.New("the database is away")
	}
	return f.Store.RecordChange(ctx, tenant, id, saved, after)
}

// A change whose end could not be recorded is not acknowledged: a save that began before may not have it.
func TestChangeThatIsNotRecordedIsNotAcknowledged(t *testing.T) {
	testkit.Proves(t, "S18")
	at := onSQLite(t)
	srv := at.open(t, withFiles(t, at), func(o *engine.Options) { o.Store = &forgetting{Store: o.Store} })
	s := srv.ensure(t, project("p"))
	if err := writeVia(t.Context(), srv.Handle("default", s.ID, "test"), "f"); err == nil || !strings.Contains(err.Error(), "could not be recorded") {
		t.Errorf("acknowledged: %v", err)
	}
}

// alone makes the server the only one that saves its sandboxes, whose files are on its machine.
func alone(t *testing.T, at place) func(*engine.Options) {
	return func(o *engine.Options) {
		withFiles(t, at)(o)
		o.Drivers = map[string]driver.Driver{"fake": onMachine{o.Drivers["fake"].(*fake.Filed)}}
		o.Alone, o.Restorer = true, restorer{}
	}
}

type onMachine struct{ *fake.Filed }

func (onMachine) Local() {}

// counting counts the records of changes.
type counting struct {
	engine.Store
	n int
}

func (c *counting) RecordChange(ctx context.Context, tenant, id string, saved bool, after time.Duration) error {
	c.n++
	return c.Store.RecordChange(ctx, tenant, id, saved, after)
}

// reading calls a function when the content of a file is read, between the two records of the change.
type reading func()

func (r reading) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}

// Where no other process saves, a change is recorded once. A save that begins during the change makes it twice:
// the save may not have read the change, so the change stays unsaved.
func TestChangeIsRecordedOnceUnlessASaveBegan(t *testing.T) {
	testkit.Proves(t, "S18")
	at, db := onSQLite(t), new(counting)
	srv := at.open(t, alone(t, at), func(o *engine.Options) { db.Store, o.Store = o.Store, db })
	s := srv.ensure(t, project("p"))
	h := srv.Handle("default", s.ID, "test")
	save := func() {
		t.Helper()
		_, err := h.Saving(t.Context(), "save", func(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) { return s.Synced, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		during, after func()
		records       int
		unsaved       bool
	}{
		"no save":     {func() {}, func() {}, 1, true},
		"saved after": {func() {}, save, 1, false},
		"save during": {save, func() {}, 2, true},
	} {
		db.n = 0
		fs, err := h.Files(t.Context(), files.WorkingDir)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := fs.Write(t.Context(), "f", reading(c.during), files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		fs.Close()
		c.after()
		if got := srv.row(t, project("p")); db.n != c.records || got.UnsavedSince.IsZero() == c.unsaved {
			t.Errorf("%s: %d records, unsaved since %v", name, db.n, got.UnsavedSince)
		}
	}
}

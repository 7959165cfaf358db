package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/files"
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

func (f *forgetting) Changed(ctx context.Context, tenant, id string, saved bool, after time.Duration) error {
	if f.calls++; f.calls > 1 {
		return errors.New("the database is away")
	}
	return f.Store.Changed(ctx, tenant, id, saved, after)
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

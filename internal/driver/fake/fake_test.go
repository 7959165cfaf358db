package fake_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
)

func spec(sandbox string, incarnation int64) driver.Spec {
	return driver.Spec{
		Key:    driver.Key{Sandbox: sandbox, Incarnation: incarnation},
		Tenant: "acme",
		Labels: map[string]string{"owner": "thread"},
	}
}

func create(t testing.TB, d driver.Driver, sandbox string, incarnation int64) driver.Status {
	t.Helper()
	st, err := d.Create(t.Context(), spec(sandbox, incarnation))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func live(t testing.TB, d *fake.Driver) []driver.Status {
	t.Helper()
	all, err := d.Live()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func log(t testing.TB, d *fake.Driver) []fake.Call {
	t.Helper()
	calls, err := d.Log()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// list collects a listing up to its error.
func list(ctx context.Context, d driver.Driver, sel driver.Selector) ([]driver.Status, error) {
	var all []driver.Status
	for st, err := range d.List(ctx, sel) {
		if err != nil {
			return all, err
		}
		all = append(all, st)
	}
	return all, nil
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func TestSecondIncarnationBesideTheFirst(t *testing.T) {
	d := open(t, t.TempDir())
	create(t, d, "a", 1)
	create(t, d, "a", 2)
	if n := len(live(t, d)); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}
}

func TestUniqueNamesRefuseSecondIncarnation(t *testing.T) {
	d := open(t, t.TempDir(), fake.UniqueNames())
	first := create(t, d, "a", 1)
	_, err := d.Create(t.Context(), spec("a", 2))
	exists, ok := errors.AsType[*driver.ExistsError](err)
	if !ok || exists.Status.ID != first.ID || exists.Status.Key != first.Key {
		t.Fatalf("got %v, want an ExistsError with the first incarnation", err)
	}
	if err := d.Destroy(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if second := create(t, d, "a", 2); second.ID == first.ID {
		t.Error("an ID is used twice")
	}
}

// However often a key changes hands, it is in one hand at a time, and no ID comes twice.
func TestKeyChangesHandsSafely(t *testing.T) {
	dir := t.TempDir()
	var holders, ended atomic.Int64
	var ids sync.Map
	var all sync.WaitGroup
	for range 8 {
		d := open(t, dir)
		all.Go(func() {
			for range 60 {
				st, err := d.Create(t.Context(), spec("a", 1))
				if driver.Classify(err) == "exists" {
					continue
				}
				if _, twice := ids.LoadOrStore(st.ID, true); twice || err != nil || holders.Add(1) != 1 {
					t.Errorf("Create: %q, %v, made twice: %v", st.ID, err, twice)
					return
				}
				holders.Add(-1)
				if err := errors.Join(d.Stop(t.Context(), st.ID), d.Destroy(t.Context(), st.ID)); err != nil {
					t.Errorf("Stop and Destroy: %v", err)
				}
				ended.Add(1)
			}
		})
	}
	all.Wait()
	d := open(t, dir)
	calls := log(t, d)
	made, gone := fake.Effects(calls, fake.Create), fake.Effects(calls, fake.Destroy)
	if n := len(live(t, d)); n != 0 || made != gone || int64(gone) != ended.Load() {
		t.Errorf("%d live, %d made, %d destroyed, %d by our count", n, made, gone, ended.Load())
	}
}

func TestNewRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fake.New(path); err == nil {
		t.Error("a file was opened as a directory")
	}
	if err := fake.SetFaults(path, nil); err == nil {
		t.Error("faults were set in a file")
	}
}

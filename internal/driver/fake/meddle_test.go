package fake_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
)

func TestStrangersAreListedWithoutKey(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	good, damaged, forgotten := create(t, d, "a", 1), create(t, d, "b", 1), create(t, d, "c", 1)
	copied, err := os.ReadFile(filepath.Join(dir, "instances", string(good.ID)))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"notes.txt": "hello", string(damaged.ID): `{"id":`, string(good.ID) + "~": string(copied), "empty": "",
	} {
		if err := d.Litter(name, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "instances", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "instances", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.ForgetKey(forgotten.ID); err != nil {
		t.Fatal(err)
	}
	all, err := list(t.Context(), d, driver.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	keyless := map[driver.ID]driver.Phase{}
	for _, st := range all {
		if st.Key == (driver.Key{}) {
			keyless[st.ID] = st.Phase
		} else if st.ID != good.ID {
			t.Errorf("%s has the key %+v", st.ID, st.Key)
		}
	}
	want := map[driver.ID]driver.Phase{
		"notes.txt": driver.PhaseUnknown, damaged.ID: driver.PhaseUnknown, good.ID + "~": driver.PhaseUnknown,
		"empty": driver.PhaseUnknown, "folder": driver.PhaseUnknown, "pipe": driver.PhaseUnknown,
		forgotten.ID: driver.PhaseRunning,
	}
	if diff := cmp.Diff(want, keyless); diff != "" {
		t.Error(diff)
	}
	if mine, err := list(t.Context(), d, driver.Selector{Tenant: "acme"}); err != nil || len(mine) != 1 {
		t.Errorf("the tenant's list has %d entries, %v", len(mine), err)
	}
	wantErr(t, d.Stop(t.Context(), damaged.ID), driver.ErrNotRunning)
	if err := d.Destroy(t.Context(), "folder"); err == nil {
		t.Error("a folder was destroyed")
	}
}

func TestForgottenKeyIsFree(t *testing.T) {
	d := open(t, t.TempDir())
	old := create(t, d, "a", 1)
	if err := d.ForgetKey(old.ID); err != nil {
		t.Fatal(err)
	}
	if fresh := create(t, d, "a", 1); fresh.ID == old.ID {
		t.Error("two instances have one ID")
	}
	if err := d.Destroy(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	if all := live(t, d); len(all) != 1 || all[0].Key.Sandbox != "a" {
		t.Errorf("left are %+v", all)
	}
}

func TestBehindOurBack(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, "a", 1).ID
	if err := d.Halt(id); err != nil {
		t.Fatal(err)
	}
	st, err := d.Inspect(t.Context(), id)
	if err != nil || st.Phase != driver.PhaseStopped || st.Reason == "" {
		t.Errorf("after Halt: %+v, %v", st, err)
	}
	if st, err = d.Start(t.Context(), id); err != nil || st.Reason != "" {
		t.Errorf("after Start: %+v, %v", st, err)
	}
	if err := d.Become(id, driver.PhaseFailed, "out of memory"); err != nil {
		t.Fatal(err)
	}
	_, err = d.Start(t.Context(), id)
	wantErr(t, err, driver.ErrNotRunning)
	if err := d.Become(id, "dancing", ""); err != nil {
		t.Fatal(err)
	}
	st, err = d.Inspect(t.Context(), id)
	if err != nil || st.Phase != driver.PhaseUnknown || st.Raw != "dancing" {
		t.Errorf("in a phase of its own: %+v, %v", st, err)
	}
	if err := d.Vanish(id); err != nil {
		t.Fatal(err)
	}
	_, err = d.Inspect(t.Context(), id)
	wantErr(t, err, driver.ErrNotFound)
	wantErr(t, d.Vanish(id), driver.ErrNotFound)
	wantErr(t, d.Halt(id), driver.ErrNotFound)
	if n := fake.Effects(log(t, d), fake.Destroy); n != 0 {
		t.Errorf("%d Destroys are logged, and none was asked for", n)
	}
}

// A directory that cannot be read is an error everywhere, never an empty one or a missing instance.
func TestUnreadableDirectory(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"missing": func(string) error { return nil },
		"a file":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir)
			id := create(t, d, "a", 1).ID
			instances := filepath.Join(dir, "instances")
			if err := errors.Join(os.Rename(instances, instances+"-away"), spoil(instances)); err != nil {
				t.Fatal(err)
			}
			_, inspect := d.Inspect(t.Context(), id)
			_, listing := list(t.Context(), d, driver.Selector{})
			_, making := d.Create(t.Context(), spec("b", 1))
			_, everything := d.Live()
			for call, err := range map[string]error{
				"Inspect": inspect, "List": listing, "Create": making, "Live": everything,
				"Destroy": d.Destroy(t.Context(), id), "Stop": d.Stop(t.Context(), id),
				"Litter": d.Litter("x", nil),
			} {
				if err == nil || errors.Is(err, driver.ErrNotFound) {
					t.Errorf("%s answers %v", call, err)
				}
			}
		})
	}
}

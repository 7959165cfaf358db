package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// If the directory of a running instance is removed by hand, the answer that the instance is gone is true: nothing of it
// runs when its sandbox gets the next one. Instances of other servers run on.
func TestRemovedDirectoryEndsItsProcesses(t *testing.T) {
	testkit.Proves(t, "O8")
	dir, elsewhere := t.TempDir(), t.TempDir()
	d, other := open(t, dir), open(t, elsewhere)
	neighbour := create(t, other, spec()).ID
	for name, look := range map[string]func(id driver.ID) error{
		"inspect": func(id driver.ID) error {
			if _, err := d.Inspect(t.Context(), id); !errors.Is(err, driver.ErrNotFound) {
				return fmt.Errorf("inspect: %w", err)
			}
			return nil
		},
		"stop": func(id driver.ID) error {
			if err := d.Stop(t.Context(), id); !errors.Is(err, driver.ErrNotFound) {
				return fmt.Errorf("stop: %w", err)
			}
			return nil
		},
		"destroy":     func(id driver.ID) error { return d.Destroy(t.Context(), id) },
		"next server": func(driver.ID) error { open(t, dir); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			id := create(t, d, spec()).ID
			if err := os.RemoveAll(filepath.Join(dir, string(id))); err != nil {
				t.Fatal(err)
			}
			if err := look(id); err != nil {
				t.Fatal(err)
			}
			if found := left(dir, id); slices.ContainsFunc(found, func(what string) bool { return strings.HasPrefix(what, "process ") }) {
				t.Errorf("left behind: %q", found)
			}
			testkit.Eventually(t, 30*time.Second, func() error { // another driver may have begun to remove the cgroups
				if found := left(dir, id); len(found) > 0 {
					return fmt.Errorf("left behind: %q", found)
				}
				return nil
			})
		})
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		st, err := other.Inspect(t.Context(), neighbour)
		if err == nil && st.Phase != driver.PhaseRunning {
			err = fmt.Errorf("the instance of another server is %s", st.Phase)
		}
		return err
	})
}

// A run whose run file and socket are damaged is not left running beside the next one, and not after a destroy.
func TestDamagedRunIsEnded(t *testing.T) {
	testkit.Proves(t, "O1")
	for name, next := range map[string]func(d *local.Driver, id driver.ID) error{
		"start": func(d *local.Driver, id driver.ID) error {
			_, err := d.Start(t.Context(), id)
			return err
		},
		"destroy": func(d *local.Driver, id driver.ID) error {
			return errors.Join(d.Destroy(t.Context(), id), d.WaitIdle(t.Context()))
		},
	} {
		for damage, harm := range map[string]func(path string) error{
			"empty":   func(path string) error { return os.Truncate(path, 0) },
			"missing": os.Remove,
		} {
			t.Run(name+" "+damage, func(t *testing.T) {
				dir := t.TempDir()
				d := open(t, dir)
				id := create(t, d, spec()).ID
				path := filepath.Join(dir, string(id))
				before := processes(dir, id)
				if len(before) == 0 {
					t.Fatal("the instance has no processes")
				}
				if err := errors.Join(harm(filepath.Join(path, "run.json")), os.Remove(filepath.Join(path, "sock"))); err != nil {
					t.Fatal(err)
				}
				if err := next(open(t, dir), id); err != nil {
					t.Fatal(err)
				}
				for _, p := range processes(dir, id) {
					if slices.Contains(before, p) {
						t.Errorf("%s runs on", p)
					}
				}
			})
		}
	}
}

// processes returns the processes of an instance, as left names them.
func processes(dir string, id driver.ID) []string {
	return slices.DeleteFunc(left(dir, id), func(what string) bool { return !strings.HasPrefix(what, "process ") })
}

package fake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// claim makes the instance with spec.Key. If one exists, it returns a *driver.ExistsError with its status.
func (d *Driver) claim(spec driver.Spec, madeBy string) (driver.Status, error) {
	for life := 1; ; {
		id := driver.ID(fmt.Sprintf("%s%d", d.slot(spec.Key), life))
		r := newRecord(id, spec, madeBy)
		switch err := d.occupy(r); {
		case err == nil:
			return r.status(), nil
		case errors.Is(err, errSlotUsed):
			life++
		case !errors.Is(err, errSlotFree):
			return driver.Status{}, err
		}
	}
}

// slot returns the first part of an instance's ID. Only one existing instance can have it at a time. The
// rest of the ID is a number: 1 for the first instance with this slot, 2 for the next, and so on.
func (d *Driver) slot(key driver.Key) string {
	if d.uniqueNames {
		return prefix(key.Sandbox)
	}
	return fmt.Sprintf("%s%d.", prefix(key.Sandbox), key.Incarnation)
}

// prefix returns the beginning of the IDs of a sandbox's instances. No sandbox id contains a dot, so no ID
// of another sandbox begins like this.
func prefix(sandbox string) string { return "fake-" + sandbox + "." }

var (
	errSlotUsed = errors.New("an ended instance or a stranger has the name")
	errSlotFree = errors.New("the name has just become free")
)

// occupy makes r's file. If the name is not free, it returns errSlotUsed, errSlotFree or a *driver.ExistsError.
func (d *Driver) occupy(r record) error {
	if used, err := d.isEnded(r.ID); used || err != nil {
		return cmp.Or(err, errSlotUsed)
	}
	err := write(d.dir, r, func(tmp string) error { return os.Link(tmp, d.livePath(r.ID)) })
	if errors.Is(err, fs.ErrExist) {
		return d.occupied(r.ID)
	}
	if err != nil {
		return fmt.Errorf("make instance: %w", err)
	}
	// Between the first check and the link, another process may have made and ended an instance of this name.
	used, err := d.isEnded(r.ID)
	if used {
		os.Remove(d.livePath(r.ID))
		return errSlotUsed
	}
	return err
}

// occupied returns the error for a name that already has a file.
func (d *Driver) occupied(id driver.ID) error {
	r, err := d.read(id)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return errSlotFree
	case err != nil:
		return err
	case r.key() == driver.Key{}:
		return errSlotUsed
	}
	return &driver.ExistsError{Status: r.status()}
}

// end ends the instance. It reports whether this call, and not an earlier or concurrent one, has ended it.
func (d *Driver) end(id driver.ID) (bool, error) {
	if !isName(id) {
		return false, nil
	}
	err := os.Link(d.livePath(id), d.endedPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = d.missing()
	}
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("end instance: %w", err)
	}
	ours := err == nil
	if err := os.Remove(d.livePath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ours, fmt.Errorf("remove ended instance: %w", err)
	}
	return ours, d.dropFiles(id)
}

// update changes the record of an existing instance. If the instance is ended at the same time, it stays ended and
// update returns driver.ErrNotFound.
func (d *Driver) update(id driver.ID, change func(*record) error) (driver.Status, error) {
	r, err := d.read(id)
	if err != nil {
		return driver.Status{}, err
	}
	if err := change(&r); err != nil {
		return driver.Status{}, err
	}
	err = write(d.dir, r, func(tmp string) error { return os.Rename(tmp, d.livePath(id)) })
	if err != nil {
		return driver.Status{}, fmt.Errorf("change instance: %w", err)
	}
	gone, err := d.isEnded(id)
	if gone {
		os.Remove(d.livePath(id))
		err = driver.ErrNotFound
	}
	return r.status(), err
}

func (d *Driver) status(id driver.ID) (driver.Status, error) {
	r, err := d.read(id)
	return r.status(), err
}

func (d *Driver) keyOf(id driver.ID) driver.Key {
	r, _ := d.read(id)
	return r.key()
}

// all returns every entry that sel selects, sorted by name.
func (d *Driver) all(sel driver.Selector) ([]driver.Status, error) {
	names, err := d.names()
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	begin := ""
	if sel.Sandbox != "" {
		begin = prefix(sel.Sandbox)
	}
	var all []driver.Status
	first, _ := slices.BinarySearch(names, begin)
	for _, name := range names[first:] {
		if !strings.HasPrefix(name, begin) {
			break
		}
		r, err := d.read(driver.ID(name))
		if errors.Is(err, driver.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if selects(sel, r) {
			all = append(all, r.status())
		}
	}
	return all, nil
}

// names returns the sorted names in the directory of instances. It caches them until the directory changes: with
// thousands of instances, reading the directory in each call would be most of a server's work. It does not
// cache a directory that changed less than a second ago, because a further change might not alter its time.
func (d *Driver) names() ([]string, error) {
	info, err := os.Stat(d.livePath(""))
	if err != nil {
		return nil, err
	}
	changed := info.ModTime()
	if l := d.listed.Load(); l != nil && l.changed.Equal(changed) {
		return l.names, nil
	}
	settled := time.Since(changed) > time.Second
	entries, err := os.ReadDir(d.livePath(""))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if settled {
		d.listed.Store(&listed{changed, names})
	}
	return names, nil
}

// listed is the cached content of the directory of instances.
type listed struct {
	changed time.Time // modification time of the directory
	names   []string
}

func selects(sel driver.Selector, r record) bool {
	return (sel.Sandbox == "" || sel.Sandbox == r.Sandbox) && (sel.Tenant == "" || sel.Tenant == r.Tenant)
}

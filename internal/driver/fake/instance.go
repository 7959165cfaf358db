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

// claim makes the instance of spec.Key, or answers *driver.ExistsError with the one that has it.
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

// slot is the part of an instance's name that only one live instance may have at a time. After it
// comes which life of the slot the instance is.
func (d *Driver) slot(key driver.Key) string {
	if d.uniqueNames {
		return prefix(key.Sandbox)
	}
	return fmt.Sprintf("%s%d.", prefix(key.Sandbox), key.Incarnation)
}

// prefix begins the name of every instance of the sandbox. No sandbox id has a dot, so that none of
// another one's begins so.
func prefix(sandbox string) string { return "fake-" + sandbox + "." }

var (
	errSlotUsed = errors.New("an ended instance or a stranger has the name")
	errSlotFree = errors.New("the name has just become free")
)

// occupy makes r's file unless the name has been used.
func (d *Driver) occupy(r record) error {
	if used, err := d.isEnded(r.ID); used || err != nil {
		return cmp.Or(err, errSlotUsed)
	}
	err := write(d.dir, r, func(tmp string) error { return os.Link(tmp, d.live(r.ID)) })
	if errors.Is(err, fs.ErrExist) {
		return d.occupied(r.ID)
	}
	if err != nil {
		return fmt.Errorf("make instance: %w", err)
	}
	// Between the look above and the link, the name may have lived and ended.
	used, err := d.isEnded(r.ID)
	if used {
		os.Remove(d.live(r.ID))
		return errSlotUsed
	}
	return err
}

// occupied says who has the name.
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

// end makes the instance gone, and says whether it was this call that did.
func (d *Driver) end(id driver.ID) (bool, error) {
	if !isName(id) {
		return false, nil
	}
	err := os.Link(d.live(id), d.ended(id))
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
	if err := os.Remove(d.live(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ours, fmt.Errorf("remove ended instance: %w", err)
	}
	return ours, d.dropFiles(id)
}

// update changes the record of an existing instance. A concurrent end wins over it.
func (d *Driver) update(id driver.ID, change func(*record) error) (driver.Status, error) {
	r, err := d.read(id)
	if err != nil {
		return driver.Status{}, err
	}
	if err := change(&r); err != nil {
		return driver.Status{}, err
	}
	err = write(d.dir, r, func(tmp string) error { return os.Rename(tmp, d.live(id)) })
	if err != nil {
		return driver.Status{}, fmt.Errorf("change instance: %w", err)
	}
	gone, err := d.isEnded(id)
	if gone {
		os.Remove(d.live(id))
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

// all is every entry that sel selects, by name.
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

// names lists the directory in order. It is read again only after a change: with thousands of instances
// reading it for each would be most of what a server does. A directory that changed just before it was
// read may change again without a newer time, so that what was read then is not kept.
func (d *Driver) names() ([]string, error) {
	info, err := os.Stat(d.live(""))
	if err != nil {
		return nil, err
	}
	changed := info.ModTime()
	if l := d.listed.Load(); l != nil && l.changed.Equal(changed) {
		return l.names, nil
	}
	settled := time.Since(changed) > time.Second
	entries, err := os.ReadDir(d.live(""))
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

// listed is the directory as it was at the time of its last change.
type listed struct {
	changed time.Time
	names   []string
}

func selects(sel driver.Selector, r record) bool {
	return (sel.Sandbox == "" || sel.Sandbox == r.Sandbox) && (sel.Tenant == "" || sel.Tenant == r.Tenant)
}

package fake

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Life is one instance that the driver has or had, and from when to when it was there.
type Life struct {
	ID       driver.ID
	Key      driver.Key
	Tenant   string
	Labels   map[string]string
	PID      int       // of the process that made it
	Asked    time.Time // when the call that made it was asked for
	From, To time.Time // To is zero while it is there
}

// Lives returns every instance that was ever made, in the order of their beginnings. From is never before
// the instance was there and To never after it was gone, so that lives which overlap did so.
func (d *Driver) Lives() ([]Life, error) {
	lines, err := readLines(filepath.Join(d.dir, callsFile))
	if err != nil {
		return nil, err
	}
	asked, made := map[string]line{}, map[string]time.Time{}
	for _, l := range lines {
		switch l.What {
		case lineAsked:
			asked[l.Call] = l
		case lineEffect:
			made[l.Call] = l.Time
		}
	}
	records, err := d.everMade()
	if err != nil {
		return nil, err
	}
	var lives []Life
	for _, r := range records {
		life := Life{ID: r.ID, Key: r.key(), Tenant: r.Tenant, Labels: r.Labels, PID: asked[r.MadeBy].PID, Asked: asked[r.MadeBy].Time, From: r.CreatedAt}
		if at, told := made[r.MadeBy]; told {
			life.From = at
		}
		if life.To, err = d.endedAt(r.ID); err != nil {
			return nil, err
		}
		lives = append(lives, life)
	}
	slices.SortFunc(lives, func(a, b Life) int { return a.From.Compare(b.From) })
	return lives, nil
}

// endedAt is when the instance ended, zero if it did not: its record's last change was the link that ended
// it, or the removal right after.
func (d *Driver) endedAt(id driver.ID) (time.Time, error) {
	if gone, err := d.isEnded(id); err != nil || !gone {
		return time.Time{}, err
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(d.ended(id), &st); err != nil {
		return time.Time{}, fmt.Errorf("read the end of an instance: %w", err)
	}
	return time.Unix(st.Ctim.Unix()), nil
}

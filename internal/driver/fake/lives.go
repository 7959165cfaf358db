package fake

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Life is the record of one instance, existing or ended, with the time in which it existed.
type Life struct {
	ID       driver.ID
	Key      driver.Key
	Tenant   string
	Labels   map[string]string
	PID      int       // the process that made it
	Asked    time.Time // time of the request for its Create
	From, To time.Time // To is zero while it exists
}

// Lives returns every instance that was ever made, ordered by From. From is never earlier than the begin of the
// instance. To is the time of its end, or a moment later, see endedAt.
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
		if at, logged := made[r.MadeBy]; logged {
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

// endedAt returns the time at which the instance ended, or zero if it exists. That is the time of its file's last
// status change: the link that ended the instance, or the removal of the other name right after.
func (d *Driver) endedAt(id driver.ID) (time.Time, error) {
	if gone, err := d.isEnded(id); err != nil || !gone {
		return time.Time{}, err
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(d.endedPath(id), &st); err != nil {
		return time.Time{}, fmt.Errorf("read the end of an instance: %w", err)
	}
	return time.Unix(st.Ctim.Unix()), nil
}

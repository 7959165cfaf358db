package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// sighting is an instance as this process has seen it.
type sighting struct {
	driver string
	id     driver.ID
}

// sightings remember since when something has been true of instances. They are this process's own: a
// restart begins anew.
type sightings struct {
	mu    sync.Mutex
	first map[sighting]time.Time
}

// since is when it was first so, now if it was not, or if it was otherwise at some time after that.
func (ss *sightings) since(s sighting, now, otherwise time.Time) time.Time {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if at, ok := ss.first[s]; ok && !at.Before(otherwise) {
		return at
	}
	if ss.first == nil {
		ss.first = map[sighting]time.Time{}
	}
	ss.first[s] = now
	return now
}

// forget says that it is no longer so.
func (ss *sightings) forget(s sighting) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.first, s)
}

// keep forgets all instances of a driver but these.
func (ss *sightings) keep(d string, these map[driver.ID]bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	maps.DeleteFunc(ss.first, func(s sighting, _ time.Time) bool { return s.driver == d && !these[s.id] })
}

package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// sighting identifies an instance of a driver.
type sighting struct {
	driver string
	id     driver.ID
}

// sightings holds, for a condition, the time since which it has been true for each instance. It is kept in memory: a
// restart begins with none.
type sightings struct {
	mu    sync.Mutex
	first map[sighting]time.Time
}

// since returns the time since which the condition has been true for an instance, and records now if it was not true
// before. Otherwise is the last time at which the condition was known to be false; older records do not count.
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

// forget removes an instance for which the condition is no longer true.
func (ss *sightings) forget(s sighting) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.first, s)
}

// keep removes all instances of a driver except these.
func (ss *sightings) keep(d string, these map[driver.ID]bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	maps.DeleteFunc(ss.first, func(s sighting, _ time.Time) bool { return s.driver == d && !these[s.id] })
}

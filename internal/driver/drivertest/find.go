package drivertest

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/internal/driver"
)

func runFind(run runner) {
	run("UnknownIDs", testUnknownIDs)
}

// unknownIDs returns IDs of no instance. Some are similar to id.
func unknownIDs(id driver.ID) []driver.ID {
	return []driver.ID{
		"", " ", ".", "..", "/", "*", "-rf", "--help", "%2e%2e", "../../../etc/passwd", "a/b", "a\x00b", "a\nb",
		"никто", "never-seen", "00000000-0000-0000-0000-000000000000",
		id[:len(id)-1], id + "0", " " + id, id + "\n", id + "/", "./" + id, id + "?x=1", id + "#",
		driver.ID(strings.Repeat("x", 10_000)),
	}
}

// Inspect does not find an unknown ID, and Destroy of one ends no other instance.
func testUnknownIDs(s *suite) {
	st := s.create(s.spec())
	for _, id := range unknownIDs(st.ID) {
		name := fmt.Sprintf("%.60q", id)
		_, err := s.d.Inspect(s.ctx(), id)
		s.is(err, driver.ErrNotFound, "Inspect of "+name)
		err = s.d.Destroy(s.ctx(), id)
		s.check(err == nil, "Destroy of %s, which nobody has: %v", name, err)
	}
	s.phase(st.ID, driver.PhaseRunning)
}

// A second driver for the same instances can inspect, list and destroy an instance of the first.
func testReopen(s *suite) {
	spec := s.spec()
	st := s.create(spec)
	first := s.d
	s.d = s.h.Reopen(s.T, first)
	seen, err := s.d.Inspect(s.ctx(), st.ID)
	s.check(err == nil, "Inspect by another driver: %v", err)
	s.same(seen, spec, "Inspect by another driver")
	_, err = s.d.Create(s.ctx(), spec)
	s.exists(err, st)
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, st)
	s.destroy(st.ID)
	s.d = first
	s.gone(st.ID)
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox})
}

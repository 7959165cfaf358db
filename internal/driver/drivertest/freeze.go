package drivertest

import "github.com/berthdev/berth/internal/driver"

func runFreeze(run runner) {
	run("FreezeThaw", testFreezeThaw)
	run("FreezeUnknown", testFreezeUnknown)
	run("DestroyFrozen", testDestroyFrozen)
}

func runStopFrozen(run runner) {
	run("StopFrozen", testStopFrozen)
	run("StartFrozen", testStartFrozen)
	run("FreezeStopped", testFreezeStopped)
}

func (s *suite) freezer() driver.Freezer {
	freezer, ok := driver.As[driver.Freezer](s.d)
	s.check(ok, "the ability to freeze comes and goes")
	return freezer
}

func (s *suite) freeze(id driver.ID) {
	s.Helper()
	err := s.freezer().Freeze(s.ctx(), id)
	s.check(err == nil, "Freeze: %v", err)
}

func (s *suite) thaw(id driver.ID) {
	s.Helper()
	err := s.freezer().Thaw(s.ctx(), id)
	s.check(err == nil, "Thaw: %v", err)
}

func testFreezeThaw(s *suite) {
	spec := s.spec()
	st := s.create(spec)
	s.thaw(st.ID)
	for range 2 {
		s.freeze(st.ID)
		s.freeze(st.ID)
		s.phase(st.ID, driver.PhaseFrozen)
		s.same(s.listed(driver.Selector{Tenant: s.tenant}, st)[st.ID], spec, "List of a frozen instance")
		s.thaw(st.ID)
		s.thaw(st.ID)
		s.phase(st.ID, driver.PhaseRunning)
	}
}

func testFreezeUnknown(s *suite) {
	st := s.create(s.spec())
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		s.is(s.freezer().Freeze(s.ctx(), id), driver.ErrNotFound, "Freeze of what does not exist")
		s.is(s.freezer().Thaw(s.ctx(), id), driver.ErrNotFound, "Thaw of what does not exist")
	}
}

func testDestroyFrozen(s *suite) {
	st := s.create(s.spec())
	s.freeze(st.ID)
	s.destroy(st.ID)
	s.gone(st.ID)
	s.listed(driver.Selector{Sandbox: st.Key.Sandbox})
}

func testStopFrozen(s *suite) {
	st := s.create(s.spec())
	s.freeze(st.ID)
	s.stop(st.ID)
	s.phase(st.ID, driver.PhaseStopped)
	s.start(st.ID)
	s.phase(st.ID, driver.PhaseRunning)
}

func testStartFrozen(s *suite) {
	st := s.create(s.spec())
	s.freeze(st.ID)
	s.start(st.ID)
	s.phase(st.ID, driver.PhaseRunning)
}

func testFreezeStopped(s *suite) {
	st := s.create(s.spec())
	s.stop(st.ID)
	s.phase(st.ID, driver.PhaseStopped)
	s.is(s.freezer().Freeze(s.ctx(), st.ID), driver.ErrNotRunning, "Freeze of a stopped instance")
	s.is(s.freezer().Thaw(s.ctx(), st.ID), driver.ErrNotRunning, "Thaw of a stopped instance")
	s.phase(st.ID, driver.PhaseStopped)
}

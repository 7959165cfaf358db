package drivertest

import "github.com/berthdev/berth/internal/driver"

func runStop(run runner) {
	run("StopStart", testStopStart)
	run("StopKeepsKey", testStopKeepsKey)
	run("StopUnknown", testStopUnknown)
	run("DestroyStopped", testDestroyStopped)
}

func (s *suite) stopper() driver.Stopper {
	stopper, ok := driver.As[driver.Stopper](s.d)
	s.check(ok, "the ability to stop comes and goes")
	return stopper
}

func (s *suite) stop(id driver.ID) {
	s.Helper()
	err := s.stopper().Stop(s.ctx(), id)
	s.check(err == nil, "Stop: %v", err)
}

func (s *suite) start(id driver.ID) {
	s.Helper()
	st, err := s.stopper().Start(s.ctx(), id)
	s.check(err == nil, "Start: %v", err)
	s.check(st.ID == id, "Start of %q answers about %q", id, st.ID)
	s.check(st.Phase == driver.PhaseRunning, "Start returns a %s instance", st.Phase)
}

func testStopStart(s *suite) {
	st := s.create(s.spec())
	s.start(st.ID)
	for range 2 {
		s.stop(st.ID)
		s.stop(st.ID)
		s.phase(st.ID, driver.PhaseStopped)
		s.start(st.ID)
		s.start(st.ID)
		s.phase(st.ID, driver.PhaseRunning)
	}
}

// A stopped instance keeps its Key and is listed.
func testStopKeepsKey(s *suite) {
	spec := s.spec()
	st, bystander := s.create(spec), s.create(s.spec())
	s.stop(st.ID)
	s.phase(st.ID, driver.PhaseStopped)
	s.phase(bystander.ID, driver.PhaseRunning)
	found := s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, st)
	s.same(found[st.ID], spec, "List of a stopped instance")
	s.listed(driver.Selector{Tenant: s.tenant}, st, bystander)
	_, err := s.d.Create(s.ctx(), spec)
	exists := s.exists(err, st)
	s.check(exists.Phase == driver.PhaseStopped, "ExistsError calls a stopped instance %s", exists.Phase)
	s.phase(st.ID, driver.PhaseStopped)
}

func testStopUnknown(s *suite) {
	st := s.create(s.spec())
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		s.is(s.stopper().Stop(s.ctx(), id), driver.ErrNotFound, "Stop of what does not exist")
		_, err := s.stopper().Start(s.ctx(), id)
		s.is(err, driver.ErrNotFound, "Start of what does not exist")
	}
}

func testDestroyStopped(s *suite) {
	st := s.create(s.spec())
	s.stop(st.ID)
	s.destroy(st.ID)
	s.gone(st.ID)
	s.listed(driver.Selector{Sandbox: st.Key.Sandbox})
}

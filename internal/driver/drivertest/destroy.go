package drivertest

import (
	"sync"

	"github.com/berthdev/berth/internal/driver"
)

func runDestroy(run runner) {
	run("Destroy", testDestroy)
	run("DestroyAtOnce", testDestroyAtOnce)
}

// destroy ends an instance.
func (s *suite) destroy(id driver.ID) {
	s.Helper()
	err := s.d.Destroy(s.ctx(), id)
	s.check(err == nil, "Destroy: %v", err)
}

func testDestroy(s *suite) {
	st, bystander := s.create(s.spec()), s.create(s.spec())
	s.destroy(st.ID)
	s.gone(st.ID)
	s.listed(driver.Selector{Sandbox: st.Key.Sandbox})
	s.listed(driver.Selector{Tenant: s.tenant}, bystander)
	s.destroy(st.ID)
	s.destroy(st.ID)
	s.phase(bystander.ID, driver.PhaseRunning)
}

func testDestroyAtOnce(s *suite) {
	st := s.create(s.spec())
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		ctx := s.ctx()
		all.Go(func() { errs[i] = s.d.Destroy(ctx, st.ID) })
	}
	all.Wait()
	for _, err := range errs {
		s.check(err == nil, "one of 8 Destroys at once: %v", err)
	}
	s.gone(st.ID)
	s.listed(driver.Selector{Sandbox: st.Key.Sandbox})
}

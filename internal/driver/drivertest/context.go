package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

func runContext(run runner) {
	run("CancelledCreate", testCancelledCreate)
	run("CancelledReads", testCancelledReads)
	run("CancelledDestroy", testCancelledDestroy)
	run("CreateCutShort", testCreateCutShort)
}

func (s *suite) cancelled() context.Context {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	return ctx
}

// A Create whose context was cancelled returns an error. If it made an instance, that can be found and ended.
func testCancelledCreate(s *suite) {
	spec := s.spec()
	s.clean(spec)
	_, err := s.d.Create(s.cancelled(), spec)
	s.check(err != nil, "Create under a cancelled context succeeds")
	s.createOnce(spec)
}

// An Inspect or List whose context was cancelled returns an error, and not ErrNotFound.
func testCancelledReads(s *suite) {
	st := s.create(s.spec())
	_, err := s.d.Inspect(s.cancelled(), st.ID)
	s.check(err != nil, "Inspect under a cancelled context succeeds")
	s.check(!errors.Is(err, driver.ErrNotFound), "Inspect under a cancelled context calls a live instance not found")
	_, err = s.list(s.cancelled(), driver.Selector{Tenant: s.tenant})
	s.check(err != nil, "List under a cancelled context ends without an error")
}

// A Destroy whose context was cancelled may have worked or not. If it returns no error, the instance is gone.
func testCancelledDestroy(s *suite) {
	st := s.create(s.spec())
	if err := s.d.Destroy(s.cancelled(), st.ID); err != nil {
		s.destroy(st.ID)
	}
	s.gone(st.ID)
}

// If a Create is cut short at any moment, a second Create leads to exactly one instance.
func testCreateCutShort(s *suite) {
	spec := s.spec()
	begun := time.Now()
	s.destroy(s.create(spec).ID)
	whole := time.Since(begun)
	for i := range s.size(12) {
		spec := s.spec()
		s.clean(spec)
		ctx, cancel := context.WithTimeout(s.Context(), whole*time.Duration(i)/8)
		s.d.Create(ctx, spec)
		cancel()
		s.createOnce(spec)
	}
}

// createOnce creates the instance of spec, which may already exist, checks that exactly one has its Key, and destroys it.
func (s *suite) createOnce(spec driver.Spec) {
	s.Helper()
	st, err := s.d.Create(s.ctx(), spec)
	if found, ok := errors.AsType[*driver.ExistsError](err); ok {
		st, err = found.Status, nil
	}
	s.check(err == nil, "Create after one that was given up: %v", err)
	s.check(st.Key == spec.Key, "Create after one that was given up answers with Key %+v, not %+v", st.Key, spec.Key)
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, st)
	s.phase(st.ID, driver.PhaseRunning)
	s.destroy(st.ID)
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox})
}

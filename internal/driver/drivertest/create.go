package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/berthdev/berth/internal/driver"
)

func runCreate(run runner) {
	run("Create", testCreate)
	run("CreateAgain", testCreateAgain)
	run("CreateAfterDestroy", testCreateAfterDestroy)
	run("CreateNextIncarnation", testCreateNextIncarnation)
	run("CreateInvalid", testCreateInvalid)
	run("CreateSameKeyAtOnce", testCreateSameKeyAtOnce)
	run("CreateManyAtOnce", testCreateManyAtOnce)
}

func testCreate(s *suite) {
	spec := s.spec()
	st := s.create(spec)
	s.same(st, spec, "Create")
	s.check(st.Phase == driver.PhaseRunning, "Create returns a %s instance", st.Phase)
	seen, err := s.d.Inspect(s.ctx(), st.ID)
	s.check(err == nil, "Inspect: %v", err)
	s.same(seen, spec, "Inspect")
	s.check(seen.ID == st.ID, "Inspect of %q answers about %q", st.ID, seen.ID)
	s.phase(st.ID, driver.PhaseRunning)
}

// A second Create with the same Key changes nothing, even if the rest of its Spec is different.
func testCreateAgain(s *suite) {
	spec := s.spec()
	st := s.create(spec)
	again := spec
	again.Labels = map[string]string{"suite": "changed"}
	for _, spec := range []driver.Spec{spec, again} {
		_, err := s.d.Create(s.ctx(), spec)
		s.exists(err, st)
	}
	found := s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, st)
	s.same(found[st.ID], spec, "List after a second Create")
}

func testCreateAfterDestroy(s *suite) {
	spec := s.spec()
	old := s.create(spec)
	s.destroy(old.ID)
	s.gone(old.ID)
	fresh := s.create(spec)
	s.same(fresh, spec, "Create of a Key that is free again")
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, fresh)
	if fresh.ID != old.ID {
		s.destroy(old.ID)
		s.phase(fresh.ID, driver.PhaseRunning)
	}
}

// Two incarnations are two instances, or the Create of the second returns an *ExistsError about the first.
func testCreateNextIncarnation(s *suite) {
	first := s.spec()
	one := s.create(first)
	second := first
	second.Key.Incarnation = 2
	two, err := s.d.Create(s.ctx(), second)
	if _, refused := errors.AsType[*driver.ExistsError](err); refused {
		s.exists(err, one)
		s.destroy(one.ID)
		s.gone(one.ID)
		s.same(s.create(second), second, "Create of the next incarnation")
		return
	}
	s.check(err == nil, "Create of the next incarnation: %v", err)
	s.check(two.ID != one.ID, "two incarnations have the ID %q", one.ID)
	found := s.listed(driver.Selector{Sandbox: first.Key.Sandbox}, one, two)
	s.same(found[one.ID], first, "List of the first incarnation")
	s.same(found[two.ID], second, "List of the second incarnation")
}

func testCreateInvalid(s *suite) {
	cases := map[string]func(*driver.Spec){
		"a Key without a sandbox":     func(p *driver.Spec) { p.Key.Sandbox = "" },
		"a sandbox that is a path":    func(p *driver.Spec) { p.Key.Sandbox = "../" + p.Key.Sandbox },
		"a Key without incarnation":   func(p *driver.Spec) { p.Key.Incarnation = 0 },
		"too long a label":            func(p *driver.Spec) { p.Labels["suite"] = strings.Repeat("x", driver.MaxLabelValue+1) },
		"a label name with a newline": func(p *driver.Spec) { p.Labels["a\nb"] = "" },
		"a mount of a relative path":  func(p *driver.Spec) { p.Mounts = []driver.Mount{{Source: "a", Target: "/b"}} },
	}
	for what, spoil := range cases {
		spec := s.spec()
		spoil(&spec)
		_, err := s.d.Create(s.ctx(), spec)
		s.is(err, driver.ErrInvalid, "Create with "+what)
	}
	s.listed(driver.Selector{Tenant: s.tenant})
}

type created struct {
	st  driver.Status
	err error
}

// createAtOnce runs all Creates concurrently and returns their results.
func (s *suite) createAtOnce(specs []driver.Spec) []created {
	results := make([]created, len(specs))
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, spec := range specs {
		s.clean(spec)
		ctx := s.ctx()
		all.Go(func() {
			<-begin
			results[i].st, results[i].err = s.d.Create(ctx, spec)
		})
	}
	close(begin)
	all.Wait()
	for _, r := range results {
		s.atEnd(func(ctx context.Context) error { return s.d.Destroy(ctx, r.st.ID) })
	}
	return results
}

func testCreateSameKeyAtOnce(s *suite) {
	spec := s.spec()
	specs := make([]driver.Spec, 16)
	for i := range specs {
		specs[i] = spec
	}
	results := s.createAtOnce(specs)
	var made []driver.Status
	for _, r := range results {
		if r.err == nil {
			made = append(made, r.st)
		}
	}
	s.check(len(made) == 1, "of 16 Creates of one Key at once %d succeed, not 1", len(made))
	for _, r := range results {
		if r.err != nil {
			s.exists(r.err, made[0])
		}
	}
	s.listed(driver.Selector{Sandbox: spec.Key.Sandbox}, made[0])
}

func testCreateManyAtOnce(s *suite) {
	specs := make([]driver.Spec, s.size(32))
	for i := range specs {
		specs[i] = s.spec()
	}
	var made []driver.Status
	for i, r := range s.createAtOnce(specs) {
		s.check(r.err == nil, "Create of %d Keys at once: %v", len(specs), r.err)
		s.same(r.st, specs[i], "Create")
		made = append(made, r.st)
	}
	s.listed(driver.Selector{Tenant: s.tenant}, made...)
}

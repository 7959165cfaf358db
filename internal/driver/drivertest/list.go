package drivertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"github.com/berthdev/berth/internal/driver"
)

func runList(run runner) {
	run("ListSelects", testListSelects)
	run("ListKeepsLabels", testListKeepsLabels)
	run("ListBrokenOff", testListBrokenOff)
	run("ListDuringChange", testListDuringChange)
}

func testListSelects(s *suite) {
	mine, other, foreign := s.spec(), s.spec(), s.spec()
	foreign.Tenant = "tenant-" + rand.Text()
	a, b, c := s.create(mine), s.create(other), s.create(foreign)
	s.listed(driver.Selector{Sandbox: mine.Key.Sandbox}, a)
	s.listed(driver.Selector{Tenant: s.tenant}, a, b)
	s.listed(driver.Selector{Tenant: foreign.Tenant}, c)
	s.listed(driver.Selector{Sandbox: other.Key.Sandbox, Tenant: s.tenant}, b)
	s.listed(driver.Selector{Sandbox: mine.Key.Sandbox, Tenant: foreign.Tenant})
	s.listed(driver.Selector{Sandbox: mine.Key.Sandbox[:35]})
	s.listed(driver.Selector{Tenant: s.tenant[:len(s.tenant)-1]})
	s.listed(driver.Selector{Sandbox: s.spec().Key.Sandbox})
	s.eventually(func() error {
		found, err := s.list(s.ctx(), driver.Selector{})
		for _, st := range []driver.Status{a, b, c} {
			if _, ok := found[st.ID]; !ok && err == nil {
				err = fmt.Errorf("a List of everything leaves out %s", st.ID)
			}
		}
		return err
	})
}

// Labels come back unchanged, up to the bounds of driver.Spec.Validate.
func testListKeepsLabels(s *suite) {
	spec := s.spec()
	spec.Labels = map[string]string{
		"empty":   "",
		"space":   "  two  spaces ",
		"quotes":  `'single' "double" \back\ $dollar` + " `tick`",
		"lines":   "one\ntwo\r\nthree\ttab",
		"unicode": "Ünïcødé 漢字 🚢 \u202e\u2028 e\u0301",
		"markup":  "<b>&amp;</b> {{.}} %s %00 a=b,c;d",
		"control": "\x01\x1b[31m\x7f",
		"number":  "007",
		"null":    "null",
		"path":    "../../etc/passwd",
		"long":    strings.Repeat("é", driver.MaxLabelValue/2),

		"a.dotted/name-with_" + strings.Repeat("x", 44): "long name",
	}
	for i := len(spec.Labels); i < driver.MaxLabels; i++ {
		spec.Labels[fmt.Sprintf("more-%d", i)] = strings.Repeat("x", driver.MaxLabelValue)
	}
	st := s.create(spec)
	s.same(st, spec, "Create")
	s.same(s.listed(driver.Selector{Tenant: s.tenant}, st)[st.ID], spec, "List")
	bare := s.spec()
	bare.Labels = nil
	st = s.create(bare)
	s.same(s.listed(driver.Selector{Sandbox: bare.Key.Sandbox}, st)[st.ID], bare, "List")
}

// A caller may leave the loop over a List, and call the driver within the loop.
func testListBrokenOff(s *suite) {
	made := []driver.Status{s.create(s.spec()), s.create(s.spec())}
	s.listed(driver.Selector{Tenant: s.tenant}, made...)
	for st, err := range s.d.List(s.ctx(), driver.Selector{Tenant: s.tenant}) {
		s.check(err == nil, "List: %v", err)
		s.destroy(st.ID)
		break
	}
	s.eventually(func() error {
		found, err := s.list(s.ctx(), driver.Selector{Tenant: s.tenant})
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d of 2 instances are listed after one was destroyed", len(found))
		}
		return err
	})
}

// While other instances are created and destroyed, every List contains an instance that stays.
func testListDuringChange(s *suite) {
	stays := s.create(s.spec())
	s.listed(driver.Selector{Tenant: s.tenant}, stays)
	churn := s.churn(s.size(20))
	for over := false; !over; {
		select {
		case err := <-churn:
			s.check(err == nil, "Create and Destroy: %v", err)
			over = true
		default:
		}
		found, err := s.list(s.ctx(), driver.Selector{Tenant: s.tenant})
		s.check(err == nil, "List: %v", err)
		_, ok := found[stays.ID]
		s.check(ok, "a List taken while others come and go leaves out the one that stays")
	}
}

// churn creates and destroys instances, four at a time, and reports the first error or nil.
func (s *suite) churn(n int) <-chan error {
	errs := make(chan error, 4)
	var workers sync.WaitGroup
	for range 4 {
		specs := make([]driver.Spec, n/4)
		for i := range specs {
			specs[i] = s.spec()
			s.clean(specs[i])
		}
		workers.Go(func() { errs <- s.createAndDestroy(specs) })
	}
	s.Cleanup(workers.Wait)
	done := make(chan error, 1)
	go func() {
		workers.Wait()
		close(errs)
		var first error
		for err := range errs {
			if first == nil {
				first = err
			}
		}
		done <- first
	}()
	return done
}

func (s *suite) createAndDestroy(specs []driver.Spec) error {
	for _, spec := range specs {
		ctx, cancel := context.WithTimeout(s.Context(), 2*s.h.Patience)
		st, err := s.d.Create(ctx, spec)
		if err == nil {
			err = s.d.Destroy(ctx, st.ID)
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

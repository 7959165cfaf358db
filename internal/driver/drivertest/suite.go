package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/driver"
)

var kindName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// runner runs one sub-test.
type runner func(name string, test func(*suite))

// suite holds the driver of one sub-test and its tenant, which is different in each sub-test.
type suite struct {
	*testing.T
	h      Harness
	d      driver.Driver
	tenant string
}

func newSuite(t *testing.T, h Harness) *suite {
	return &suite{T: t, h: h, d: h.New(t), tenant: "tenant-" + rand.Text()}
}

// check ends the sub-test unless ok.
func (s *suite) check(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Fatalf(format, args...)
	}
}

// ctx returns the context for one call.
func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), s.h.Patience)
	s.Cleanup(cancel)
	return ctx
}

// size returns the number of instances for a test: n, or at most 4 if the harness is slow.
func (s *suite) size(n int) int {
	if s.h.Slow {
		return min(n, 4)
	}
	return n
}

// spec returns a Spec for the first instance of a new sandbox.
func (s *suite) spec() driver.Spec {
	return driver.Spec{
		Key:    driver.Key{Sandbox: uuid.NewString(), Incarnation: 1},
		Tenant: s.tenant,
		Labels: map[string]string{"suite": "drivertest"},
	}
}

// create makes an instance. It is destroyed at the end of the sub-test.
func (s *suite) create(spec driver.Spec) driver.Status {
	s.Helper()
	s.clean(spec)
	st, err := s.d.Create(s.ctx(), spec)
	s.check(err == nil, "Create: %v", err)
	s.atEnd(func(ctx context.Context) error { return s.d.Destroy(ctx, st.ID) })
	return st
}

// clean destroys the remaining instances of the spec's sandbox when the sub-test is over.
func (s *suite) clean(spec driver.Spec) {
	s.atEnd(func(ctx context.Context) error {
		for st, err := range s.d.List(ctx, driver.Selector{Sandbox: spec.Key.Sandbox}) {
			if err == nil {
				err = s.d.Destroy(ctx, st.ID)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *suite) atEnd(clean func(context.Context) error) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.h.Patience)
		defer cancel()
		if err := clean(ctx); err != nil {
			s.Errorf("clean up: %v", err)
		}
	})
}

// list collects the instances of a List. It returns the error of the List if there is one.
func (s *suite) list(ctx context.Context, sel driver.Selector) (map[driver.ID]driver.Status, error) {
	found := map[driver.ID]driver.Status{}
	for st, err := range s.d.List(ctx, sel) {
		if err != nil {
			return found, err
		}
		if _, twice := found[st.ID]; twice {
			return found, fmt.Errorf("instance %s is listed twice", st.ID)
		}
		found[st.ID] = st
	}
	return found, nil
}

// listed waits until sel lists exactly the given instances, and returns them as listed.
func (s *suite) listed(sel driver.Selector, want ...driver.Status) map[driver.ID]driver.Status {
	s.Helper()
	var found map[driver.ID]driver.Status
	s.eventually(func() (err error) {
		found, err = s.list(s.ctx(), sel)
		if err == nil && !sameIDs(found, want) {
			err = fmt.Errorf("%+v lists %v, not %v", sel, slices.Sorted(maps.Keys(found)), ids(want))
		}
		return err
	})
	return found
}

func sameIDs(found map[driver.ID]driver.Status, want []driver.Status) bool {
	return slices.Equal(slices.Sorted(maps.Keys(found)), ids(want))
}

func ids(sts []driver.Status) []driver.ID {
	var out []driver.ID
	for _, st := range sts {
		out = append(out, st.ID)
	}
	slices.Sort(out)
	return out
}

// eventually repeats look until it returns nil. It ends the sub-test once the harness's patience is over.
func (s *suite) eventually(look func() error) {
	s.Helper()
	over := time.After(s.h.Patience)
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-over:
			s.Fatalf("still not so after %v: %v", s.h.Patience, err)
		case <-time.After(wait):
		}
	}
}

// phase waits until Inspect returns the given phase.
func (s *suite) phase(id driver.ID, want driver.Phase) {
	s.Helper()
	s.eventually(func() error {
		st, err := s.d.Inspect(s.ctx(), id)
		if err == nil && st.Phase != want {
			err = fmt.Errorf("instance is %s (%s), not %s", st.Phase, st.Raw, want)
		}
		return err
	})
}

// gone waits until Inspect returns ErrNotFound.
func (s *suite) gone(id driver.ID) {
	s.Helper()
	s.eventually(func() error {
		_, err := s.d.Inspect(s.ctx(), id)
		if errors.Is(err, driver.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("what was destroyed is inspected with %w, not ErrNotFound", orNil(err))
	})
}

// is checks the class of an error.
func (s *suite) is(err, class error, doing string) {
	s.Helper()
	s.check(errors.Is(err, class), "%s answers %q, not %q", doing, orNil(err), class)
}

// exists checks that err is an *ExistsError about the given instance.
func (s *suite) exists(err error, want driver.Status) driver.Status {
	s.Helper()
	found, ok := errors.AsType[*driver.ExistsError](err)
	s.check(ok, "Create of a live Key answers %q, not *ExistsError", orNil(err))
	s.check(found.Status.ID == want.ID, "ExistsError is about %q, not %q", found.Status.ID, want.ID)
	s.check(found.Status.Key == want.Key, "ExistsError has Key %+v, not %+v", found.Status.Key, want.Key)
	return found.Status
}

// same checks that got is the instance made from spec.
func (s *suite) same(got driver.Status, spec driver.Spec, where string) {
	s.Helper()
	s.check(got.ID != "", "%s: no ID", where)
	s.check(got.Key == spec.Key, "%s: Key is %+v, not %+v", where, got.Key, spec.Key)
	s.check(got.Tenant == spec.Tenant, "%s: tenant is %q, not %q", where, got.Tenant, spec.Tenant)
	s.check(maps.Equal(got.Labels, spec.Labels), "%s: labels are %q, not %q", where, got.Labels, spec.Labels)
	s.check(!got.CreatedAt.IsZero(), "%s: no time of creation", where)
}

func orNil(err error) error {
	if err == nil {
		return errors.New("<nil>")
	}
	return err
}

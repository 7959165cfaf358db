package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Request asks for an owner's sandbox. Empty fields were not given: they are filled in for a new
// sandbox and not compared with one that is there.
type Request struct {
	Owner sandbox.Owner
	ID    string // the id it must have
	NewID string // the id to give it if it is new and ID is empty
	Name  string
	Spec  sandbox.Spec
	Actor string

	// Account and Agent are whom a new sandbox is made for; empty for none.
	Account, Agent string
	// Within is the only account whose sandboxes the caller may use; empty: those of all.
	Within string
}

// Ensure returns the owner's one sandbox, running, and whether this call created it. Of many callers at
// once one does the work and all get its result.
func (e *Engine) Ensure(ctx context.Context, r Request) (s sandbox.Sandbox, created bool, err error) {
	if err := e.check(r); err != nil {
		return s, false, err
	}
	e.Logger.InfoContext(aboutOwner(ctx, r.Owner), telemetry.EventResolveStart)
	s, err = e.resolve(ctx, &r)
	switch {
	case err == nil && s.State == sandbox.Running && s.Want == sandbox.WantRunning:
		e.Logger.InfoContext(about(ctx, s), telemetry.EventResolveReuse)
		return s, false, e.reuse(ctx, s, r)
	case err != nil && !errors.Is(err, sandbox.ErrNotFound):
		return s, false, err
	}
	return e.bring(ctx, r)
}

// reuse checks and records the use of a sandbox that runs.
func (e *Engine) reuse(ctx context.Context, s sandbox.Sandbox, r Request) error {
	if err := agree(s, r); err != nil {
		return err
	}
	if err := e.here(ctx, s); err != nil {
		return err
	}
	if e.Drivers[s.Spec.Driver] == nil {
		return sandbox.Errorf("use sandbox", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", s.ID, s.Spec.Driver)
	}
	// Uses within a second of each other count as one; one in the future is another clock's.
	if since := time.Since(s.ActiveAt); since >= 0 && since < time.Second {
		return nil
	}
	return e.Store.Touch(ctx, s.Owner.Tenant, s.ID)
}

// resolve reads the row there is. A sandbox asked for by its id alone is found whatever owns it.
func (e *Engine) resolve(ctx context.Context, r *Request) (sandbox.Sandbox, error) {
	if r.ID == "" {
		return e.Store.ByOwner(ctx, r.Owner)
	}
	s, err := e.Store.ByID(ctx, r.Owner.Tenant, r.ID)
	if err == nil && r.Name == "" {
		r.Owner = s.Owner
	}
	return s, err
}

// bring records the wish and waits until it is fulfilled. A sandbox that is deleted meanwhile is not
// what was asked for: its owner gets a new one, once nothing of the old one is left.
func (e *Engine) bring(ctx context.Context, r Request) (s sandbox.Sandbox, created bool, err error) {
	if e.Room != nil {
		if err := e.Room(); err != nil {
			return s, false, err
		}
	}
	for {
		s, created, err = e.Store.Intend(ctx, r.Owner.Tenant, e.intent(r))
		if errors.Is(err, sandbox.ErrDeleting) {
			if err = e.awaitGone(ctx, s, r.Actor); err == nil {
				continue
			}
			s = sandbox.Sandbox{}
		}
		if err != nil {
			return s, false, err
		}
		s, err = e.join(ctx, s, r.Actor)
		switch {
		case err == nil && s.Deleted():
			r.NewID = "" // is the tombstone's now
			continue
		case err == nil && s.State != sandbox.Running:
			err = sandbox.Errorf("bring sandbox", api.CodeBusy, "sandbox %s was asked to be %s meanwhile", s.ID, s.Want)
		}
		return s, created && err == nil, err
	}
}

// join waits for the one flight of this sandbox in this process, starting it if there is none. A flight
// that was about to land when the wish was made knows nothing of it: its answer is an older question's,
// and the next flight is taken.
func (e *Engine) join(ctx context.Context, s sandbox.Sandbox, actor string) (got sandbox.Sandbox, err error) {
	for range mostFlights {
		got, err = e.fly(ctx, s.ID, s, func(ctx context.Context) (sandbox.Sandbox, error) {
			e.at("flight", s)
			return e.await(ctx, s, actor)
		})
		if got.ID == "" || knows(got, s) {
			break
		}
	}
	return got, err
}

// mostFlights bounds how many flights are taken should the database's clock go backwards.
const mostFlights = 5

// knows reports whether a record was read after the wish that s was returned for.
func knows(got, s sandbox.Sandbox) bool {
	return !got.ActiveAt.Before(s.ActiveAt) && (got.Deleted() || !s.Deleted())
}

// doubt has the engine look at the instance of a sandbox that is recorded as running and does not
// answer, and do what is to be done about it.
func (e *Engine) doubt(ctx context.Context, s sandbox.Sandbox, actor string) (sandbox.Sandbox, error) {
	return e.fly(ctx, "doubt "+s.ID, s, func(ctx context.Context) (sandbox.Sandbox, error) {
		got, err := e.drive(ctx, s.ID, actor, true)
		if unfinished(got, err) {
			return e.await(ctx, s, actor)
		}
		return got, err
	})
}

// fly does the work once for all who wait for it at the same time, on a context that outlives them.
func (e *Engine) fly(ctx context.Context, key string, s sandbox.Sandbox, do func(context.Context) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	if err := e.here(ctx, s); err != nil {
		return s, err
	}
	flight := e.flights.DoChan(key, func() (any, error) {
		defer e.working()()
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.WorkTimeout)
		defer cancel()
		return do(own)
	})
	select {
	case got := <-flight:
		s, _ := got.Val.(sandbox.Sandbox)
		return s, got.Err
	case <-ctx.Done():
		return s, waited(ctx)
	}
}

func waited(ctx context.Context) error {
	return sandbox.Errorf("wait for sandbox", api.CodeTimeout, "the sandbox is not ready yet; the work on it goes on: %w", context.Cause(ctx))
}

const (
	firstPoll = 5 * time.Millisecond
	maxPoll   = 250 * time.Millisecond
)

// unfinished reports whether somebody else works on the sandbox, or it waits for its next probe.
func unfinished(s sandbox.Sandbox, err error) bool {
	return errors.Is(err, sandbox.ErrBusy) || errors.Is(err, sandbox.ErrStale) || err != nil && s.State == sandbox.Unhealthy
}

// await drives the sandbox until it is settled, waiting while another holder does so, and while an
// unhealthy one recovers.
func (e *Engine) await(ctx context.Context, s sandbox.Sandbox, actor string) (sandbox.Sandbox, error) {
	asked := s.ActiveAt
	for poll := firstPoll; ; poll = min(2*poll, maxPoll) {
		got, err := e.drive(ctx, s.ID, actor, false)
		if !unfinished(got, err) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return s, waited(ctx)
		case <-time.After(poll):
		}
		if s, err = e.Store.Sandbox(ctx, s.ID); err != nil {
			return s, err
		}
		if s.Settled() {
			return s, nil
		}
		if s.State == sandbox.Failed && s.Failure != nil && s.Failure.At.After(asked) {
			return s, failure(s)
		}
	}
}

func (e *Engine) check(r Request) error {
	if err := r.Owner.Validate(); err != nil {
		return err
	}
	if err := e.CheckTemplate(r.Spec.Template); err != nil {
		return err
	}
	if d := r.Spec.Driver; d != "" && e.Drivers[d] == nil {
		return sandbox.Errorf("check driver", api.CodeUnknownDriver, "there is no driver %q; there are: %s", d, strings.Join(e.DriverNames(), ", "))
	}
	if p := r.Spec.Profile; p != "" && !slices.Contains(sandbox.Profiles, p) {
		return sandbox.Errorf("check profile", api.CodeUnknownProfile, "there is no profile %q; there are: %s", p, strings.Join(sandbox.Profiles, ", "))
	}
	return nil
}

// CheckTemplate says whether there is no such template. None named is the server's default.
func (e *Engine) CheckTemplate(name string) error {
	if name == "" || e.Templates == nil {
		return nil
	}
	names := e.Templates.Names()
	if slices.Contains(names, name) {
		return nil
	}
	return sandbox.Errorf("check template", api.CodeUnknownTemplate, "there is no template %q; there are: %s", name, strings.Join(names, ", "))
}

func (e *Engine) intent(r Request) store.Intent {
	spec := r.Spec
	spec.Template = cmp.Or(spec.Template, e.Defaults.Template)
	if e.Templates != nil {
		spec = spec.Or(e.Templates.Spec(spec.Template))
	}
	spec = spec.Or(e.Defaults)
	return store.Intent{
		Kind: r.Owner.Kind, Owner: r.Owner.ID, ID: r.ID, NewID: r.NewID, Name: r.Name, Spec: spec, Host: e.pin(spec), Cap: e.MaxSandboxes,
		Account: r.Account, Agent: r.Agent, Prefix: e.Prefix,
		Want: sandbox.WantRunning, Reason: "asked for", Actor: r.Actor,
		Accept: func(s sandbox.Sandbox) error { return agree(s, r) },
	}
}

// pin is the machine that a new sandbox belongs to: a driver that keeps instances on its own machine
// says so.
func (e *Engine) pin(spec sandbox.Spec) string {
	if _, local := driver.As[driver.Local](e.Drivers[spec.Driver]); local {
		return e.Host
	}
	return ""
}

// agree compares what was asked for with what is there, over the fields given.
func agree(s sandbox.Sandbox, r Request) error {
	if r.Within != "" && s.Account != r.Within {
		return sandbox.Errorf("find sandbox", api.CodeNotFound, "%s %q is not one of this key's account", r.Owner.Kind, r.Owner.ID)
	}
	var differ []string
	for _, f := range []struct{ name, is, asked string }{
		{"id", s.ID, r.ID}, {"name", s.Name, r.Name}, {"template", s.Spec.Template, r.Spec.Template},
		{"driver", s.Spec.Driver, r.Spec.Driver}, {"profile", s.Spec.Profile, r.Spec.Profile},
	} {
		if f.asked != "" && f.is != f.asked {
			differ = append(differ, fmt.Sprintf("%s is %q, not %q", f.name, f.is, f.asked))
		}
	}
	if r.Spec.Env != nil && !maps.Equal(s.Spec.Env, r.Spec.Env) {
		differ = append(differ, "env differs")
	}
	if r.Spec.Metadata != nil && !maps.Equal(s.Spec.Metadata, r.Spec.Metadata) {
		differ = append(differ, "metadata differs")
	}
	if differ == nil {
		return nil
	}
	return sandbox.Errorf("", api.CodeSpecMismatch, "the sandbox %s exists and is different: %s", s.ID, strings.Join(differ, "; "))
}

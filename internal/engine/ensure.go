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
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Request describes the requested sandbox of an owner. Empty fields get defaults in a new sandbox, and are not compared
// with an existing sandbox.
type Request struct {
	Owner sandbox.Owner
	ID    string // required id of the sandbox; empty: any
	NewID string // id of a new sandbox if ID is empty
	Name  string
	Spec  sandbox.Spec
	Actor string

	// Account and Agent are the account and agent that a new sandbox is created for; empty for none.
	Account, Agent string
	// Within is the account whose sandboxes the caller may use; empty: all accounts.
	Within string
	// Wait limits the first use of a handle on this request; zero: only the context limits it.
	Wait time.Duration
	// GoneWait is the time to wait for a delete of the owner's previous sandbox; zero: Options.GoneWait.
	GoneWait time.Duration
}

// Ensure returns the owner's sandbox, running, and whether this call created it. Concurrent callers share the work and
// its result.
func (e *Engine) Ensure(ctx context.Context, r Request) (s sandbox.Sandbox, created bool, err error) {
	s, created, err = e.ensurer.ensure(ctx, r)
	if err == nil {
		err = e.ensurer.touch(ctx, s)
	}
	return s, created, err
}

// ensurer finds or creates the sandbox of a request and waits until it runs. Concurrent requests for one sandbox share
// the work.
type ensurer struct{ e *Engine }

// ensure is Ensure, but does not record the use of a sandbox that already runs.
func (en ensurer) ensure(ctx context.Context, r Request) (s sandbox.Sandbox, created bool, err error) {
	if err := en.checkRequest(r); err != nil {
		return s, false, err
	}
	en.e.opts.Logger.InfoContext(aboutOwner(ctx, r.Owner), telemetry.EventResolveStart)
	s, err = en.resolve(ctx, &r)
	if refused := en.allowed(r, s, err == nil); refused != nil {
		return sandbox.Sandbox{}, false, refused
	}
	before := s.ActiveAt
	switch {
	case err == nil && s.State == sandbox.Running && s.Want == sandbox.WantRunning:
		en.e.opts.Logger.InfoContext(about(ctx, s), telemetry.EventResolveReuse)
		err = en.checkReuse(ctx, s, r)
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return s, false, err
	default:
		s, created, err = en.ensureRunning(ctx, r)
	}
	s.ActiveBefore = before
	return s, created, err
}

// checkReuse returns an error if a running sandbox does not match the request, or cannot be used by this server.
func (en ensurer) checkReuse(ctx context.Context, s sandbox.Sandbox, r Request) error {
	if err := agree(s, r); err != nil {
		return err
	}
	if err := en.e.checkHost(ctx, s); err != nil {
		return err
	}
	if en.e.opts.Drivers[s.Spec.Driver] == nil {
		return fault.Errorf("use sandbox", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", s.ID, s.Spec.Driver)
	}
	return nil
}

// touch records a use. It skips a use within a second of the last recorded one. A recorded time in the future comes from
// another clock and is replaced.
func (en ensurer) touch(ctx context.Context, s sandbox.Sandbox) error {
	if since := time.Since(s.ActiveAt); since >= 0 && since < time.Second {
		return nil
	}
	return en.e.opts.Store.Touch(ctx, s.Owner.Tenant, s.ID)
}

// resolve reads the row of the requested sandbox. If the request has an id and no name, resolve sets its owner to the
// sandbox's owner.
func (en ensurer) resolve(ctx context.Context, r *Request) (sandbox.Sandbox, error) {
	if r.ID == "" {
		return en.e.opts.Store.ByOwner(ctx, r.Owner)
	}
	s, err := en.e.opts.Store.ByID(ctx, r.Owner.Tenant, r.ID)
	if err == nil && r.Name == "" {
		r.Owner = s.Owner
	}
	return s, err
}

// ensureRunning records that the sandbox should run and waits until it does. If the sandbox is deleted, it waits until
// the delete is done and then creates a new sandbox for the owner.
func (en ensurer) ensureRunning(ctx context.Context, r Request) (s sandbox.Sandbox, created bool, err error) {
	if en.e.opts.Room != nil {
		if err := en.e.opts.Room(); err != nil {
			return s, false, err
		}
	}
	for {
		s, created, err = en.e.opts.Store.RequestSandbox(ctx, r.Owner.Tenant, en.storeRequest(r))
		if errors.Is(err, fault.ErrDeleting) {
			if err = en.e.awaitGone(ctx, s, r); err == nil {
				continue
			}
			s = sandbox.Sandbox{}
		}
		if err != nil {
			return s, false, err
		}
		s, err = en.settleShared(ctx, s, r.Actor)
		switch {
		case err == nil && s.Deleted():
			r.NewID = "" // the tombstone keeps the id
			continue
		case err == nil && s.State != sandbox.Running:
			err = fault.Errorf("run sandbox", api.CodeBusy, "the desired state of sandbox %s changed to %s", s.ID, s.Want)
		}
		return s, created && err == nil, err
	}
}

// settleShared settles the sandbox in one run for all callers of this process. A run may have read the record before
// the request of s was written. Its result is then too old, and settleShared starts or joins another run.
func (en ensurer) settleShared(ctx context.Context, s sandbox.Sandbox, actor string) (got sandbox.Sandbox, err error) {
	for range maxSharedRuns {
		got, err = en.shareRun(ctx, s.ID, s, func(ctx context.Context) (sandbox.Sandbox, error) {
			en.e.at("shared-run", s)
			return en.await(ctx, s, actor)
		})
		if got.ID == "" || readAfter(got, s) {
			break
		}
	}
	return got, err
}

// maxSharedRuns is the number of runs that settleShared waits for. It prevents an endless loop if the database's clock
// goes backwards.
const maxSharedRuns = 5

// readAfter reports whether got was read after the request that returned s was recorded.
func readAfter(got, s sandbox.Sandbox) bool {
	return !got.ActiveAt.Before(s.ActiveAt) && (got.Deleted() || !s.Deleted())
}

// verify observes the instance of a sandbox and settles the sandbox. It is used when a sandbox that is recorded as
// running does not answer.
func (en ensurer) verify(ctx context.Context, s sandbox.Sandbox, actor string) (sandbox.Sandbox, error) {
	return en.shareRun(ctx, "verify "+s.ID, s, func(ctx context.Context) (sandbox.Sandbox, error) {
		got, err := en.e.drive(ctx, s.ID, actor, true)
		if unfinished(got, err) {
			return en.await(ctx, s, actor)
		}
		return got, err
	})
}

// shareRun calls do once for all concurrent callers with the same key. The context of do does not end with the callers.
func (en ensurer) shareRun(ctx context.Context, key string, s sandbox.Sandbox, do func(context.Context) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	if err := en.e.checkHost(ctx, s); err != nil {
		return s, err
	}
	run := en.e.runs.DoChan(key, func() (any, error) {
		defer en.e.working()()
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), en.e.opts.WorkTimeout)
		defer cancel()
		return do(own)
	})
	select {
	case got := <-run:
		s, _ := got.Val.(sandbox.Sandbox)
		return s, got.Err
	case <-ctx.Done():
		return s, waitTimeout(ctx)
	}
}

func waitTimeout(ctx context.Context) error {
	return fault.Errorf("wait for sandbox", api.CodeTimeout, "the sandbox is not ready yet; the work on it goes on: %w", context.Cause(ctx))
}

const (
	firstPoll = 5 * time.Millisecond
	maxPoll   = 250 * time.Millisecond
)

// unfinished reports whether another holder works on the sandbox, or the sandbox waits for its next probe.
func unfinished(s sandbox.Sandbox, err error) bool {
	return errors.Is(err, fault.ErrBusy) || errors.Is(err, fault.ErrStale) || err != nil && s.State == sandbox.Unhealthy
}

// await works on the sandbox until it is settled. It waits while another holder works on the sandbox, and between the
// probes of an unhealthy one.
func (en ensurer) await(ctx context.Context, s sandbox.Sandbox, actor string) (sandbox.Sandbox, error) {
	asked := s.ActiveAt
	for poll := firstPoll; ; poll = min(2*poll, maxPoll) {
		got, err := en.e.drive(ctx, s.ID, actor, false)
		if !unfinished(got, err) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return s, waitTimeout(ctx)
		case <-time.After(poll):
		}
		if s, err = en.e.opts.Store.Sandbox(ctx, s.ID); err != nil {
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

func (en ensurer) checkRequest(r Request) error {
	if err := r.Owner.Validate(); err != nil {
		return err
	}
	if t := r.Spec.Template; t != "" && en.e.opts.Templates != nil && !slices.Contains(en.e.opts.Templates.Names(), t) {
		return en.e.CheckTemplate(r.Owner.Tenant, t)
	}
	if d := r.Spec.Driver; d != "" && en.e.opts.Drivers[d] == nil {
		return fault.Errorf("check driver", api.CodeUnknownDriver, "there is no driver %q; there are: %s", d, strings.Join(en.e.DriverNames(), ", "))
	}
	if p := r.Spec.Profile; p != "" && !slices.Contains(sandbox.Profiles, p) {
		return fault.Errorf("check profile", api.CodeUnknownProfile, "there is no profile %q; there are: %s", p, strings.Join(sandbox.Profiles, ", "))
	}
	return nil
}

// allowed returns an error if the request needs a template that the tenant may not use. An existing sandbox keeps its
// template.
func (en ensurer) allowed(r Request, there sandbox.Sandbox, found bool) error {
	asked := r.Spec.Template
	if found && (asked == "" || asked == there.Spec.Template) {
		return nil
	}
	if asked != "" {
		return en.e.CheckTemplate(r.Owner.Tenant, asked)
	}
	if en.e.opts.Templates == nil || en.e.opts.Templates.Allows(r.Owner.Tenant, en.e.opts.Defaults.Template) ||
		!slices.Contains(en.e.opts.Templates.Names(), en.e.opts.Defaults.Template) {
		return nil
	}
	return fault.Errorf("check template", api.CodeUnknownTemplate, "the server's default template is not for this tenant; name one of: %s", strings.Join(en.templatesOf(r.Owner.Tenant), ", "))
}

func (en ensurer) templatesOf(tenant string) []string {
	return slices.DeleteFunc(slices.Clone(en.e.opts.Templates.Names()), func(name string) bool { return !en.e.opts.Templates.Allows(tenant, name) })
}

// CheckTemplate returns an error if the tenant may not use the template. An empty name means the default template
// and is always valid.
func (e *Engine) CheckTemplate(tenant, name string) error {
	if name == "" || e.opts.Templates == nil || e.opts.Templates.Allows(tenant, name) {
		return nil
	}
	names := e.ensurer.templatesOf(tenant)
	return fault.Errorf("check template", api.CodeUnknownTemplate, "there is no template %q; there are: %s", name, strings.Join(names, ", "))
}

func (en ensurer) storeRequest(r Request) store.SandboxRequest {
	spec := r.Spec
	spec.Template = cmp.Or(spec.Template, en.e.opts.Defaults.Template)
	if en.e.opts.Templates != nil {
		spec = spec.Or(en.e.opts.Templates.Spec(spec.Template))
	}
	spec = spec.Or(en.e.opts.Defaults)
	return store.SandboxRequest{
		Kind: r.Owner.Kind, Owner: r.Owner.ID, ID: r.ID, NewID: r.NewID, Name: r.Name, Spec: spec, Host: en.pin(spec), Cap: en.e.opts.MaxSandboxes,
		Account: r.Account, Agent: r.Agent, Prefix: en.e.opts.Prefix,
		Want: sandbox.WantRunning, Reason: "requested", Actor: r.Actor,
		Accept: func(s sandbox.Sandbox) error { return agree(s, r) },
	}
}

// pin returns the host that a new sandbox is pinned to. It is empty unless the driver keeps instances on this machine.
func (en ensurer) pin(spec sandbox.Spec) string {
	if _, local := driver.As[driver.Local](en.e.opts.Drivers[spec.Driver]); local {
		return en.e.opts.Host
	}
	return ""
}

// agree returns an error if the non-empty fields of a request differ from an existing sandbox.
func agree(s sandbox.Sandbox, r Request) error {
	if r.Within != "" && s.Account != r.Within {
		return fault.Errorf("find sandbox", api.CodeNotFound, "there is no %s %q in this account", r.Owner.Kind, r.Owner.ID)
	}
	if s.EnvProblem != nil {
		return s.EnvProblem
	}
	var differ []string
	for _, f := range []struct{ name, is, asked string }{
		{"id", sandbox.PublicID(s.ID), sandbox.PublicID(r.ID)}, {"name", s.Name, r.Name}, {"template", s.Spec.Template, r.Spec.Template},
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
	return fault.Errorf("", api.CodeSpecMismatch, "the sandbox %s exists and is different: %s", s.ID, strings.Join(differ, "; "))
}

package engine

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Handle is one sandbox for whoever works with it. It is cheap, keeps nothing of the row, and any number
// of them in any number of processes may exist.
type Handle struct {
	e                 *Engine
	tenant, id, actor string
	just              atomic.Pointer[sandbox.Sandbox] // read a moment ago, for the first who asks
	first, used       atomic.Pointer[sandbox.Sandbox] // the record as it was first read, and as it was last used
}

// Handle returns a handle on a sandbox of the tenant; whether there is one shows when it is used.
func (e *Engine) Handle(tenant, id, actor string) *Handle {
	return &Handle{e: e, tenant: tenant, id: id, actor: actor}
}

// HandleOn is Handle for whoever has just read the record: its first use does not read it again.
func (e *Engine) HandleOn(s sandbox.Sandbox, actor string) *Handle {
	h := e.Handle(s.Owner.Tenant, s.ID, actor)
	if !s.Deleted() {
		h.just.Store(&s)
	}
	return h
}

// record is the sandbox's row.
func (h *Handle) record(ctx context.Context) (sandbox.Sandbox, error) {
	if s := h.just.Swap(nil); s != nil {
		h.first.CompareAndSwap(nil, s)
		return *s, nil
	}
	s, err := h.e.Store.ByID(ctx, h.tenant, h.id)
	if err == nil {
		h.first.CompareAndSwap(nil, &s)
	}
	return s, err
}

// Sandbox makes the sandbox run: a stopped one is started, a lost one made anew. It never makes a
// sandbox that has no row.
func (h *Handle) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.record(ctx)
	if err != nil {
		return s, err
	}
	r := Request{Owner: s.Owner, ID: s.ID, Actor: h.actor}
	if s.State == sandbox.Running && s.Want == sandbox.WantRunning {
		return s, h.e.reuse(ctx, s, r)
	}
	s, _, err = h.e.Ensure(ctx, r)
	return s, err
}

// tries is how often a use goes back to the driver after the sandbox was found not to run.
const tries = 3

// Guest connects to the helper inside the running sandbox, thawing it if it is frozen. A record that
// says running and a driver that says otherwise are brought together first.
func (h *Handle) Guest(ctx context.Context) (guest.Conn, error) {
	for try := 1; ; try++ {
		s, err := h.Sandbox(ctx)
		if err != nil {
			return nil, err
		}
		d, ok := driver.As[driver.Guester](h.e.Drivers[s.Spec.Driver])
		if !ok {
			return nil, cannot("run commands in", s)
		}
		conn, err := d.Guest(ctx, driver.ID(s.Instance))
		switch {
		case err == nil:
			h.used.Store(&s)
			return &recordingConn{conn, h.e.recorder(s)}, nil
		case try == tries || !errors.Is(err, driver.ErrNotRunning) && !errors.Is(err, driver.ErrNotFound):
			return nil, reached(s, err)
		}
		if err := h.wake(ctx, s); err != nil {
			return nil, err
		}
	}
}

// wake thaws a frozen instance; anything else that does not run is for the engine to look at.
func (h *Handle) wake(ctx context.Context, s sandbox.Sandbox) error {
	d := h.e.Drivers[s.Spec.Driver]
	if st, err := d.Inspect(ctx, driver.ID(s.Instance)); err == nil && st.Phase == driver.PhaseFrozen {
		_, err = h.Thaw(ctx)
		return err
	}
	_, err := h.e.doubt(ctx, s, h.actor)
	return err
}

// Peek connects to the helper inside if the sandbox runs and is not frozen; it starts and thaws nothing.
func (h *Handle) Peek(ctx context.Context) (guest.Conn, error) {
	s, d, err := instance[driver.Guester](ctx, h, "look into")
	if err != nil {
		return nil, err
	}
	conn, err := d.Guest(ctx, driver.ID(s.Instance))
	return conn, reached(s, err)
}

// Command adds to a command what every command in a sandbox has: the template's user and environment,
// then the sandbox's own, under what the command itself says.
func (h *Handle) Command(s sandbox.Sandbox, cmd guest.Cmd) guest.Cmd {
	var env []string
	if h.e.Templates != nil {
		env = appendEnv(env, h.e.Templates.Env(s.Spec.Template))
		if cmd.User == "" {
			cmd.User = h.e.Templates.User(s.Spec.Template)
		}
	}
	cmd.Env = guest.LastOfEach(append(appendEnv(env, s.Spec.Env), cmd.Env...))
	return cmd
}

func appendEnv(to []string, env map[string]string) []string {
	for name, value := range env {
		to = append(to, name+"="+value)
	}
	return to
}

// Files opens one root of the sandbox's files, files.WorkingDir or files.HomeDir, without starting it. If the
// instance of a running sandbox is gone, the engine recovers the sandbox first.
func (h *Handle) Files(ctx context.Context, root string) (files.FS, error) {
	s, d, err := instance[driver.Filer](ctx, h, "read the files of")
	if err != nil {
		return nil, err
	}
	fs, err := d.Files(ctx, driver.ID(s.Instance), root)
	if errors.Is(err, driver.ErrNotFound) && s.State == sandbox.Running {
		if s, err = h.e.doubt(ctx, s, h.actor); err != nil {
			return nil, err
		}
		fs, err = d.Files(ctx, driver.ID(s.Instance), root)
	}
	if err != nil {
		return nil, reached(s, err)
	}
	if root == files.WorkingDir { // nothing else is saved
		fs = &recordingFS{fs, h.e.recorder(s)}
	}
	return fs, nil
}

// Output reads what a process in the sandbox wrote, without starting the sandbox.
func (h *Handle) Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		s, d, err := instance[driver.Guester](ctx, h, "read the output of")
		if err != nil {
			yield(guest.Chunk{}, err)
			return
		}
		for chunk, err := range d.Output(ctx, driver.ID(s.Instance), process, after) {
			if !yield(chunk, reached(s, err)) {
				return
			}
		}
	}
}

// instance finds the sandbox's instance and the ability of its driver.
func instance[T any](ctx context.Context, h *Handle, doing string) (s sandbox.Sandbox, ability T, err error) {
	if s, err = h.record(ctx); err != nil {
		return s, ability, err
	}
	if err := h.e.here(ctx, s); err != nil {
		return s, ability, err
	}
	d := h.e.Drivers[s.Spec.Driver]
	if d == nil {
		return s, ability, sandbox.Errorf("find the driver", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", s.ID, s.Spec.Driver)
	}
	ability, ok := driver.As[T](d)
	switch {
	case !ok:
		err = cannot(doing, s)
	case s.Instance == "":
		err = sandbox.Errorf(doing+" sandbox", api.CodeNotRunning, "sandbox %s has no instance: it is %s", s.ID, s.State)
	}
	return s, ability, err
}

// holdFor is how long a hold lasts that nobody renews; it is renewed at half of it. A database that does
// not take it in holdWait holds up nobody.
const (
	holdFor  = 2 * time.Minute
	holdWait = 10 * time.Second
)

// Hold keeps timers away from the sandbox until release is called, or this process is gone.
func (h *Handle) Hold(ctx context.Context, kind string) (release func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ref, done := store.NewID(), make(chan struct{})
	hold := func() {
		ctx, cancel := context.WithTimeout(ctx, holdWait)
		defer cancel()
		if err := h.e.Store.Hold(ctx, h.id, kind, ref, time.Now().Add(holdFor)); err != nil {
			h.e.Logger.WarnContext(ctx, "hold sandbox", "sandbox_id", h.id, "kind", kind, "error", err)
		}
	}
	hold()
	go func() {
		defer close(done)
		tick := time.NewTicker(holdFor / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				hold()
			}
		}
	}()
	return func() {
		cancel()
		<-done
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdWait)
		defer cancel()
		if err := h.e.Store.Drop(last, h.id, kind, ref); err != nil {
			h.e.Logger.WarnContext(last, "drop a hold; it runs out by itself", "sandbox_id", h.id, "error", err)
		}
	}
}

// Start makes the sandbox run; a frozen one is thawed.
func (h *Handle) Start(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.Sandbox(ctx)
	if err != nil {
		return s, err
	}
	if _, ok := driver.As[driver.Freezer](h.e.Drivers[s.Spec.Driver]); ok {
		return h.Thaw(ctx)
	}
	return s, nil
}

// Stop ends everything that runs in the sandbox and keeps its files.
func (h *Handle) Stop(ctx context.Context) (sandbox.Sandbox, error) {
	return h.wish(ctx, "stop", func(ctx context.Context) (sandbox.Sandbox, error) {
		s, err := h.e.Store.ByID(ctx, h.tenant, h.id)
		if p := h.e.policy(s); err == nil && p.NoStop && p.NoSave {
			return s, cannot("stop and keep the files of", s)
		}
		if err != nil {
			return s, err
		}
		return h.e.Store.Want(ctx, h.tenant, h.id, sandbox.WantStopped, "asked to stop", h.actor)
	})
}

// Restart stops the sandbox and starts it again.
func (h *Handle) Restart(ctx context.Context) (sandbox.Sandbox, error) {
	if s, err := h.Stop(ctx); err != nil {
		return s, err
	}
	return h.Sandbox(ctx)
}

// Freeze holds everything that runs in the sandbox where it is, in memory. The next use thaws it.
func (h *Handle) Freeze(ctx context.Context) (sandbox.Sandbox, error) {
	return h.still(ctx, "freeze", driver.Freezer.Freeze)
}

// Thaw lets a frozen sandbox run on.
func (h *Handle) Thaw(ctx context.Context) (sandbox.Sandbox, error) {
	return h.still(ctx, "thaw", driver.Freezer.Thaw)
}

// Frozen says whether the sandbox is held in memory. Where that cannot be said it is not: freezing is a
// wish of the moment, and the next use ends it.
func (h *Handle) Frozen(ctx context.Context) bool {
	s, _, err := instance[driver.Freezer](ctx, h, "look at")
	if err != nil || s.State != sandbox.Running {
		return false
	}
	st, err := h.e.Drivers[s.Spec.Driver].Inspect(ctx, driver.ID(s.Instance))
	return err == nil && st.Phase == driver.PhaseFrozen
}

func (h *Handle) still(ctx context.Context, verb string, do func(driver.Freezer, context.Context, driver.ID) error) (sandbox.Sandbox, error) {
	s, d, err := instance[driver.Freezer](ctx, h, verb)
	if err != nil {
		return s, err
	}
	if s.State != sandbox.Running {
		return s, sandbox.Errorf(verb+" sandbox", api.CodeNotRunning, "sandbox %s is %s; only a running one can be frozen and thawed", s.ID, s.State)
	}
	err = do(d, ctx, driver.ID(s.Instance))
	if errors.Is(err, driver.ErrNotRunning) || errors.Is(err, driver.ErrNotFound) {
		if s, looked := h.e.doubt(ctx, s, h.actor); looked == nil {
			err = do(d, ctx, driver.ID(s.Instance))
		}
	}
	return s, reached(s, err)
}

func cannot(doing string, s sandbox.Sandbox) error {
	e := sandbox.Errorf("", api.CodeUnsupported, "the driver %s cannot %s a sandbox", s.Spec.Driver, doing)
	e.Hint = "Create the sandbox with another driver; berth doctor lists them."
	return e
}

// reached puts a driver's or a helper's words about a sandbox into the table's.
func reached(s sandbox.Sandbox, err error) error {
	var known *sandbox.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known),
		errors.Is(err, guest.ErrNoProcess), errors.Is(err, guest.ErrTrimmed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, driver.ErrNotRunning), errors.Is(err, driver.ErrNotFound), errors.Is(err, guest.ErrGone):
		return sandbox.Errorf("reach sandbox", api.CodeNotRunning, "sandbox %s does not run: %w", s.ID, err)
	}
	return sandbox.Errorf("reach sandbox", api.CodeDriverUnreachable, "driver %s: %w", s.Spec.Driver, err)
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Handle gives access to one sandbox. It is cheap and keeps no state of the sandbox; any number of handles on one
// sandbox may exist, also in several processes. A method that needs a running sandbox starts it. A read-only handle
// starts nothing and changes no record.
type Handle struct {
	e             *Engine
	tenant, actor string
	request       *Request         // ensures an owner's sandbox on the first use; nil: the id is known
	fixed         *sandbox.Sandbox // record that is used instead of the row; nil: the row is read
	readOnly      bool

	finding     sync.Mutex
	id          atomic.Pointer[string]          // nil: the request is not made yet
	just        atomic.Pointer[sandbox.Sandbox] // row that was just read, for the next use
	first, used atomic.Pointer[sandbox.Sandbox] // row at the first read and at the last use
}

// Handle returns a handle on a sandbox of the tenant. If the sandbox does not exist, the first use returns an error.
func (e *Engine) Handle(tenant, id, actor string) *Handle {
	h := &Handle{e: e, tenant: tenant, actor: actor}
	h.id.Store(&id)
	return h
}

// HandleOn returns a handle on a sandbox whose row was just read. The first use does not read the row again.
func (e *Engine) HandleOn(s sandbox.Sandbox, actor string) *Handle {
	h := e.Handle(s.Owner.Tenant, s.ID, actor)
	if !s.Deleted() {
		h.just.Store(&s)
	}
	return h
}

// HandleFor returns a handle on an owner's sandbox. The first use ensures the sandbox; until then nothing is created.
func (e *Engine) HandleFor(r Request) *Handle {
	return &Handle{e: e, tenant: r.Owner.Tenant, actor: r.Actor, request: &r}
}

// HandleAt returns a read-only handle on one instance of a sandbox, even if the row does not name this instance. Hooks
// use it: they run before an instance is recorded and while it ends.
func (e *Engine) HandleAt(s sandbox.Sandbox, instance driver.ID) *Handle {
	h := e.Handle(s.Owner.Tenant, s.ID, "")
	s.Instance = sandbox.InstanceID(instance)
	h.fixed, h.readOnly = &s, true
	return h
}

// ReadOnly returns a handle on the same sandbox that neither creates nor starts it.
func (h *Handle) ReadOnly() *Handle {
	r := &Handle{e: h.e, tenant: h.tenant, actor: h.actor, request: h.request, fixed: h.fixed, readOnly: true}
	r.id.Store(h.id.Load())
	return r
}

// record returns the sandbox's row. On the first use of a handle from HandleFor it ensures the sandbox.
func (h *Handle) record(ctx context.Context) (sandbox.Sandbox, error) {
	if h.fixed != nil {
		return *h.fixed, nil
	}
	if err := h.find(ctx); err != nil {
		return sandbox.Sandbox{}, err
	}
	if s := h.just.Swap(nil); s != nil {
		h.first.CompareAndSwap(nil, s)
		return *s, nil
	}
	s, err := h.Record(ctx)
	if err == nil {
		h.first.CompareAndSwap(nil, &s)
	}
	return s, err
}

// Record reads the sandbox's row and changes nothing.
func (h *Handle) Record(ctx context.Context) (sandbox.Sandbox, error) {
	if id := h.id.Load(); id != nil {
		return h.e.opts.Store.ByID(ctx, h.tenant, *id)
	}
	s, err := h.e.opts.Store.ByOwner(ctx, h.request.Owner)
	if err == nil && h.request.Within != "" && s.Account != h.request.Within {
		err = fault.Errorf("find sandbox", api.CodeNotFound, "%s has no sandbox", h.request.Owner)
	}
	return s, err
}

// find ensures the sandbox of a handle from HandleFor, once.
func (h *Handle) find(ctx context.Context) error {
	if h.readOnly || h.id.Load() != nil {
		return nil
	}
	h.finding.Lock()
	defer h.finding.Unlock()
	if h.id.Load() != nil {
		return nil
	}
	if h.request.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.request.Wait)
		defer cancel()
	}
	s, _, err := h.e.ensurer.ensure(ctx, *h.request)
	if err == nil {
		h.just.Store(&s)
		h.id.Store(&s.ID)
	}
	return err
}

// Template returns the template of the sandbox, or the template that a new sandbox would have. It creates nothing.
func (h *Handle) Template(ctx context.Context) (string, error) {
	if h.fixed != nil {
		return h.fixed.Spec.Template, nil
	}
	s, err := h.Record(ctx)
	if h.request == nil || !errors.Is(err, fault.ErrNotFound) {
		return s.Spec.Template, err
	}
	name := cmp.Or(h.request.Spec.Template, h.e.opts.Defaults.Template)
	if h.e.opts.Templates != nil && !h.e.opts.Templates.Allows(h.tenant, name) {
		return "", nil
	}
	return name, nil
}

// Sandbox makes the sandbox run, records the use and returns the row. A stopped sandbox is started; a lost instance is
// replaced. On a read-only handle, it returns an error with CodeNotRunning if the sandbox does not run.
func (h *Handle) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.running(ctx)
	if err == nil && !h.readOnly {
		err = h.e.ensurer.touch(ctx, s)
	}
	return s, err
}

// running makes the sandbox run.
func (h *Handle) running(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.record(ctx)
	switch {
	case h.fixed != nil:
		return s, nil
	case h.readOnly && (errors.Is(err, fault.ErrNotFound) || err == nil && s.State != sandbox.Running):
		return s, fault.Errorf("", api.CodeNotRunning, "the sandbox does not run")
	case err != nil:
		return s, err
	}
	r := Request{Owner: s.Owner, ID: s.ID, Actor: h.actor}
	if s.State == sandbox.Running && s.Want == sandbox.WantRunning {
		err = h.e.ensurer.checkReuse(ctx, s, r)
	} else if !h.readOnly {
		s, _, err = h.e.ensurer.ensure(ctx, r)
	}
	if err == nil {
		h.used.Store(&s)
	}
	return s, err
}

// maxGuestTries is the number of times that connect asks the driver for a connection.
const maxGuestTries = 3

// Guest connects to the helper inside the running sandbox and records the use. It thaws a frozen sandbox.
func (h *Handle) Guest(ctx context.Context) (guest.Conn, error) { return h.connect(ctx, true) }

// GuestToRun is Guest without the record of a use, for a caller that runs a command next. The command records a change,
// which counts as the use, so that an exec writes to the database once.
func (h *Handle) GuestToRun(ctx context.Context) (guest.Conn, error) { return h.connect(ctx, false) }

// connect connects to the helper. If the row has state running but the driver finds that the instance does not run, it
// thaws or repairs the sandbox and tries again.
func (h *Handle) connect(ctx context.Context, touch bool) (guest.Conn, error) {
	if h.readOnly {
		return h.Peek(ctx)
	}
	for try := 1; ; try++ {
		s, err := h.running(ctx)
		if err == nil && touch {
			err = h.e.ensurer.touch(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		d, ok := driver.As[driver.Guester](h.e.opts.Drivers[s.Spec.Driver])
		if !ok {
			return nil, unsupported("run commands in", s)
		}
		conn, err := d.Guest(ctx, driver.ID(s.Instance))
		switch {
		case err == nil:
			return &recordingConn{conn, h.e.recorder(s)}, nil
		case try == maxGuestTries || !errors.Is(err, driver.ErrNotRunning) && !errors.Is(err, driver.ErrNotFound):
			return nil, wrapErr(s, err)
		}
		st, err := h.e.opts.Drivers[s.Spec.Driver].Inspect(ctx, driver.ID(s.Instance))
		if err == nil && st.Phase == driver.PhaseFrozen {
			_, err = h.Thaw(ctx)
		} else {
			_, err = h.e.ensurer.verify(ctx, s, h.actor)
		}
		if err != nil {
			return nil, err
		}
	}
}

// Peek connects to the helper if the sandbox runs and is not frozen. It starts and thaws nothing.
func (h *Handle) Peek(ctx context.Context) (guest.Conn, error) {
	s, d, err := instance[driver.Guester](ctx, h, "look into")
	if err != nil {
		return nil, err
	}
	conn, err := d.Guest(ctx, driver.ID(s.Instance))
	return conn, wrapErr(s, err)
}

// Command adds the defaults of the sandbox to a command: the template's user and environment, and the sandbox's
// environment. The command's own settings have precedence, then the sandbox's. It uses the row of the handle's last
// use.
func (h *Handle) Command(ctx context.Context, cmd guest.Cmd) (guest.Cmd, error) {
	s := h.lastRow()
	if s == nil {
		return cmd, nil
	}
	var env []string
	if h.e.opts.Templates != nil {
		all, err := h.e.opts.Templates.Env(ctx, s.Owner.Tenant, s.Spec.Template)
		if err != nil {
			return cmd, err
		}
		env = appendEnv(env, all)
	}
	cmd.Env = guest.LastOfEach(append(appendEnv(env, s.Spec.Env), cmd.Env...))
	return h.AsUser(cmd), nil
}

// AsUser adds the template's user to a command that names none, and no variables.
func (h *Handle) AsUser(cmd guest.Cmd) guest.Cmd {
	if s := h.lastRow(); s != nil && cmd.User == "" && h.e.opts.Templates != nil {
		cmd.User = h.e.opts.Templates.User(s.Spec.Template)
	}
	return cmd
}

func (h *Handle) lastRow() *sandbox.Sandbox { return cmp.Or(h.fixed, h.used.Load(), h.first.Load()) }

func appendEnv(to []string, env map[string]string) []string {
	for name, value := range env {
		to = append(to, name+"="+value)
	}
	return to
}

// Files opens one root of the sandbox's files, files.WorkingDir or files.HomeDir. It does not start a stopped sandbox.
// If the instance of a running sandbox is gone, it repairs the sandbox first.
func (h *Handle) Files(ctx context.Context, root string) (files.FS, error) {
	s, d, err := instance[driver.Filer](ctx, h, "read the files of")
	if err != nil {
		return nil, err
	}
	fs, err := d.Files(ctx, driver.ID(s.Instance), root)
	if errors.Is(err, driver.ErrNotFound) && s.State == sandbox.Running && !h.readOnly {
		if s, err = h.e.ensurer.verify(ctx, s, h.actor); err != nil {
			return nil, err
		}
		fs, err = d.Files(ctx, driver.ID(s.Instance), root)
	}
	if err != nil {
		return nil, wrapErr(s, err)
	}
	if h.fixed == nil {
		h.used.Store(&s) // Notice reads it
	}
	if root == files.WorkingDir && !h.readOnly { // only the workspace is saved
		fs = &recordingFS{fs, h.e.recorder(s)}
	}
	return fs, nil
}

// Output reads the output of a process in the sandbox, without starting the sandbox.
func (h *Handle) Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		s, d, err := instance[driver.Guester](ctx, h, "read the output of")
		if err != nil {
			yield(guest.Chunk{}, err)
			return
		}
		for chunk, err := range d.Output(ctx, driver.ID(s.Instance), process, after) {
			if !yield(chunk, wrapErr(s, err)) {
				return
			}
		}
	}
}

// instance returns the sandbox's row and its driver as a T. It returns an error if the sandbox has no instance or the
// driver is no T.
func instance[T any](ctx context.Context, h *Handle, doing string) (s sandbox.Sandbox, ability T, err error) {
	if s, err = h.record(ctx); err != nil {
		return s, ability, err
	}
	if err := h.e.checkHost(ctx, s); err != nil {
		return s, ability, err
	}
	d := h.e.opts.Drivers[s.Spec.Driver]
	if d == nil {
		return s, ability, fault.Errorf("find the driver", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", s.ID, s.Spec.Driver)
	}
	ability, ok := driver.As[T](d)
	switch {
	case !ok:
		err = unsupported(doing, s)
	case s.Instance == "":
		err = fault.Errorf(doing+" sandbox", api.CodeNotRunning, "sandbox %s has no instance: it is %s", s.ID, s.State)
	}
	return s, ability, err
}

// Start makes the sandbox run and thaws it if it is frozen.
func (h *Handle) Start(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.Sandbox(ctx)
	if err != nil {
		return s, err
	}
	if _, ok := driver.As[driver.Freezer](h.e.opts.Drivers[s.Spec.Driver]); ok {
		return h.Thaw(ctx)
	}
	return s, nil
}

// Stop ends everything that runs in the sandbox and keeps its files.
func (h *Handle) Stop(ctx context.Context) (sandbox.Sandbox, error) {
	return h.setWant(ctx, "stop", func(s sandbox.Sandbox) (sandbox.Sandbox, error) {
		if p := h.e.policy(s); p.NoStop && p.NoSave {
			return s, unsupported("stop and keep the files of", s)
		}
		return h.e.opts.Store.Want(ctx, h.tenant, s.ID, sandbox.WantStopped, "asked to stop", h.actor)
	})
}

// Restart stops the sandbox and starts it again.
func (h *Handle) Restart(ctx context.Context) (sandbox.Sandbox, error) {
	if s, err := h.Stop(ctx); err != nil {
		return s, err
	}
	return h.Sandbox(ctx)
}

// Freeze pauses all processes of the sandbox and keeps them in memory. The next use thaws the sandbox.
func (h *Handle) Freeze(ctx context.Context) (sandbox.Sandbox, error) {
	return h.setFrozen(ctx, "freeze", driver.Freezer.Freeze)
}

// Thaw resumes the processes of a frozen sandbox.
func (h *Handle) Thaw(ctx context.Context) (sandbox.Sandbox, error) {
	return h.setFrozen(ctx, "thaw", driver.Freezer.Thaw)
}

// Frozen reports whether the sandbox is frozen. It returns false if this cannot be found out.
func (h *Handle) Frozen(ctx context.Context) bool {
	s, _, err := instance[driver.Freezer](ctx, h, "look at")
	if err != nil || s.State != sandbox.Running {
		return false
	}
	st, err := h.e.opts.Drivers[s.Spec.Driver].Inspect(ctx, driver.ID(s.Instance))
	return err == nil && st.Phase == driver.PhaseFrozen
}

func (h *Handle) setFrozen(ctx context.Context, verb string, do func(driver.Freezer, context.Context, driver.ID) error) (sandbox.Sandbox, error) {
	s, d, err := instance[driver.Freezer](ctx, h, verb)
	if err != nil {
		return s, err
	}
	if s.State != sandbox.Running {
		return s, fault.Errorf(verb+" sandbox", api.CodeNotRunning, "sandbox %s is %s; only a running one can be frozen and thawed", s.ID, s.State)
	}
	err = do(d, ctx, driver.ID(s.Instance))
	if errors.Is(err, driver.ErrNotRunning) || errors.Is(err, driver.ErrNotFound) {
		if s, err = h.e.ensurer.verify(ctx, s, h.actor); err == nil {
			err = do(d, ctx, driver.ID(s.Instance))
		}
	}
	return s, wrapErr(s, err)
}

func unsupported(doing string, s sandbox.Sandbox) error {
	e := fault.Errorf("", api.CodeUnsupported, "the driver %s cannot %s a sandbox", s.Spec.Driver, doing)
	e.Hint = "Create the sandbox with another driver; berth doctor lists them."
	return e
}

// wrapErr returns an Error with a code for an error of a driver or a helper. It returns errors that have a meaning for
// the caller unchanged.
func wrapErr(s sandbox.Sandbox, err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known),
		errors.Is(err, guest.ErrNoProcess), errors.Is(err, guest.ErrTrimmed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, driver.ErrNotRunning), errors.Is(err, driver.ErrNotFound), errors.Is(err, guest.ErrGone):
		return fault.Errorf("reach sandbox", api.CodeNotRunning, "sandbox %s does not run: %w", s.ID, err)
	case errors.Is(err, guest.ErrDiskFull):
		return fault.Errorf("reach sandbox", api.CodeDiskFull, "sandbox %s: %w", s.ID, err)
	}
	return fault.Errorf("reach sandbox", api.CodeDriverUnreachable, "driver %s: %w", s.Spec.Driver, err)
}

package engine_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// manned is a fake driver with a helper in its instances, which answers while the instance runs.
type manned struct {
	*fake.Driver
	broken error     // what the helper answers instead
	last   driver.ID // the instance it was last connected to
}

type line struct{ guest.Conn }

func (line) Processes(context.Context) ([]guest.Status, error) { return nil, nil }

func (m *manned) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	if m.broken != nil {
		return nil, m.broken
	}
	st, err := m.Inspect(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case st.Phase != driver.PhaseRunning:
		return nil, driver.ErrNotRunning
	}
	m.last = id
	return line{}, nil
}

func (m *manned) Output(_ context.Context, _ driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		if process != "known" {
			yield(guest.Chunk{}, guest.ErrNoProcess)
			return
		}
		_ = yield(guest.Chunk{Data: []byte("hello"), Next: after + 5}, nil) && yield(guest.Chunk{}, io.ErrUnexpectedEOF)
	}
}

func (m *manned) Files(_ context.Context, _ driver.ID, root string) (files.FS, error) {
	if root != files.WorkingDir {
		return nil, driver.ErrNotFound
	}
	return nil, nil
}

func (m *manned) Local() {}

// withHelpers gives the server's fake driver helpers.
func withHelpers(m *manned) func(*engine.Options) {
	return func(o *engine.Options) {
		m.Driver, _ = driver.As[*fake.Driver](o.Drivers["fake"])
		o.Drivers = map[string]driver.Driver{"fake": m}
		o.Host = "here"
	}
}

func handled(t *testing.T, at place) (*server, *manned, sandbox.Sandbox, *engine.Handle) {
	t.Helper()
	m := new(manned)
	srv := at.open(t, withHelpers(m))
	s, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test", Spec: sandbox.Spec{
		Env: map[string]string{"OF_BOTH": "sandbox's"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return srv, m, s, srv.HandleOn(s, "test")
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%v has code %s, not %s", err, fault.CodeOf(err), code)
	}
}

// Whatever happened to the instance behind Berth's back, the next use finds a running one.
func TestUseFindsARunningInstance(t *testing.T) {
	testkit.Proves(t, "V3")
	for name, befall := range map[string]func(*testing.T, *server, *engine.Handle, driver.ID) error{
		"nothing": func(*testing.T, *server, *engine.Handle, driver.ID) error { return nil },
		"stopped by us": func(t *testing.T, _ *server, h *engine.Handle, _ driver.ID) error {
			s, err := h.Stop(t.Context())
			if err == nil && s.State != sandbox.Stopped {
				t.Errorf("a stopped one is %s", s.State)
			}
			return err
		},
		"frozen": func(t *testing.T, _ *server, h *engine.Handle, _ driver.ID) error {
			_, err := h.Freeze(t.Context())
			return err
		},
		"halted": func(_ *testing.T, srv *server, _ *engine.Handle, id driver.ID) error { return srv.fake.Halt(id) },
		"gone":   func(_ *testing.T, srv *server, _ *engine.Handle, id driver.ID) error { return srv.fake.Vanish(id) },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at place) {
				srv, manned, s, h := handled(t, at)
				if err := befall(t, srv, h, driver.ID(s.Instance)); err != nil {
					t.Fatal(err)
				}
				if _, err := h.Guest(t.Context()); err != nil {
					t.Fatal(err)
				}
				now, err := h.Sandbox(t.Context())
				if err != nil || now.State != sandbox.Running || manned.last != driver.ID(now.Instance) {
					t.Errorf("%+v, %v, connected to %s", now, err, manned.last)
				}
				srv.one(t, now)
			})
		})
	}
}

func TestHandleWithoutASandboxMakesNone(t *testing.T) {
	srv, _, s, _ := handled(t, onSQLite(t))
	for _, h := range []*engine.Handle{
		srv.Handle("default", "0197fb61-0000-7000-8000-000000000000", "test"),
		srv.Handle("other", s.ID, "test"),
	} {
		_, err := h.Guest(t.Context())
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Peek(t.Context())
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Stop(t.Context())
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Restart(t.Context())
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Start(t.Context())
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Files(t.Context(), files.WorkingDir)
		wantCode(t, err, api.CodeNotFound)
		_, err = h.Freeze(t.Context())
		wantCode(t, err, api.CodeNotFound)
	}
	if n := srv.creates(t); n != 1 {
		t.Errorf("%d creates", n)
	}
}

// The command's own environment wins over the sandbox's, and that over the template's.
func TestCommandHasTemplatesAndSandboxesEnvironment(t *testing.T) {
	_, _, _, h := handled(t, onSQLite(t))
	if _, err := h.Sandbox(t.Context()); err != nil {
		t.Fatal(err)
	}
	cmd := mustCommand(t, h, guest.Cmd{Env: []string{"OF_CMD=own"}})
	if cmd.User != guest.Root {
		t.Fatalf("%+v", cmd)
	}
	if !slices.Contains(cmd.Env, "OF_TEMPLATE=template's") || cmd.Env[len(cmd.Env)-1] != "OF_CMD=own" ||
		slices.Index(cmd.Env, "OF_BOTH=template's") > slices.Index(cmd.Env, "OF_BOTH=sandbox's") {
		t.Errorf("%q", cmd.Env)
	}
	if cmd := mustCommand(t, h, guest.Cmd{User: guest.Agent}); cmd.User != guest.Agent {
		t.Errorf("the command's user became %s", cmd.User)
	}
}

func TestStopStartRestart(t *testing.T) {
	srv, _, first, h := handled(t, onSQLite(t))
	if s, err := h.Stop(t.Context()); err != nil || s.State != sandbox.Stopped {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := h.Freeze(t.Context()); err == nil {
		t.Error("a stopped one was frozen")
	} else {
		wantCode(t, err, api.CodeNotRunning)
	}
	s, err := h.Start(t.Context())
	if err != nil || s.State != sandbox.Running || s.Instance != first.Instance {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err = h.Restart(t.Context()); err != nil || s.State != sandbox.Running || s.Incarnation != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := h.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Start(t.Context()); err != nil || s.State != sandbox.Running {
		t.Fatalf("%+v, %v", s, err)
	}
	srv.one(t, s)
}

// A handle made of a record that was just read must not take that record for the truth after a stop.
func TestRestartOfARunningSandboxRuns(t *testing.T) {
	srv, _, _, h := handled(t, onSQLite(t))
	if s, err := h.Restart(t.Context()); err != nil || s.State != sandbox.Running {
		t.Fatalf("%+v, %v", s, err)
	}
	if row := srv.row(t, project("a")); row.State != sandbox.Running || row.Want != sandbox.WantRunning {
		t.Errorf("answered running, and is %s, wanted %s", row.State, row.Want)
	}
}

func TestFreezeOfAHaltedInstanceStartsItFirst(t *testing.T) {
	srv, _, s, h := handled(t, onSQLite(t))
	if err := srv.fake.Halt(driver.ID(s.Instance)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := srv.fake.Inspect(t.Context(), driver.ID(s.Instance)); err != nil || st.Phase != driver.PhaseFrozen {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestFilesAndOutputDoNotStartASandbox(t *testing.T) {
	_, _, _, h := handled(t, onSQLite(t))
	if _, err := h.Peek(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := h.Peek(t.Context())
	wantCode(t, err, api.CodeNotRunning)
	if _, err := h.Files(t.Context(), files.WorkingDir); err != nil {
		t.Error(err)
	}
	_, err = h.Files(t.Context(), "elsewhere")
	wantCode(t, err, api.CodeNotRunning)
	var got string
	for c, err := range h.Output(t.Context(), "known", 3) {
		if err != nil {
			wantCode(t, err, api.CodeDriverUnreachable)
			break
		}
		got += string(c.Data)
	}
	if got != "hello" {
		t.Errorf("%q", got)
	}
	for range h.Output(t.Context(), "known", 0) {
		break // a reader that stops gets no more
	}
	for _, err := range h.Output(t.Context(), "other", 0) {
		if !errors.Is(err, guest.ErrNoProcess) {
			t.Error(err)
		}
	}
}

func TestDriverWithoutHelpersSaysSo(t *testing.T) {
	srv := onSQLite(t).open(t)
	s := srv.ensure(t, project("a"))
	h := srv.Handle("default", s.ID, "test")
	_, err := h.Guest(t.Context())
	wantCode(t, err, api.CodeUnsupported)
	_, err = h.Files(t.Context(), files.WorkingDir)
	wantCode(t, err, api.CodeUnsupported)
	for _, err := range h.Output(t.Context(), "x", 0) {
		wantCode(t, err, api.CodeUnsupported)
	}
}

func TestHelperThatFailsIsTheDriversFault(t *testing.T) {
	_, m, _, h := handled(t, onSQLite(t))
	for _, c := range []struct {
		err  error
		code api.Code
	}{
		{errors.New("pipe burst"), api.CodeDriverUnreachable},
		{guest.ErrGone, api.CodeNotRunning},
		{driver.ErrNotRunning, api.CodeNotRunning},
		{fault.Errorf("x", api.CodeBusy, "known"), api.CodeBusy},
	} {
		m.broken = c.err
		_, err := h.Guest(t.Context())
		wantCode(t, err, c.code)
	}
	m.broken = context.DeadlineExceeded
	if _, err := h.Guest(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A sandbox of a driver that works on its own machine belongs to that machine.
func TestAnotherMachineDoesNotTouchWhatIsPinned(t *testing.T) {
	testkit.Proves(t, "X2")
	at := onPostgres(t)
	_, _, s, _ := handled(t, at)
	if s.Host != "here" {
		t.Fatalf("pinned to %q", s.Host)
	}
	there := at.open(t, withHelpers(new(manned)), func(o *engine.Options) { o.Host = "there" })
	h := there.Handle("default", s.ID, "test")
	_, err := h.Guest(t.Context())
	wantCode(t, err, api.CodeWrongHost)
	_, err = h.Files(t.Context(), files.WorkingDir)
	wantCode(t, err, api.CodeWrongHost)
	if _, err := h.Stop(t.Context()); err == nil {
		t.Error("another machine stopped it")
	} else {
		wantCode(t, err, api.CodeWrongHost)
	}
	if _, err := there.Delete(t.Context(), "default", s.ID, "test", false); err != nil {
		t.Fatal(err)
	}
	if live := there.live(t); len(live) != 1 {
		t.Errorf("another machine ended it: %v", live)
	}
}

func TestHoldKeepsTimersAway(t *testing.T) {
	srv, _, s, h := handled(t, onSQLite(t))
	release := h.Hold(t.Context(), "terminal")
	until, err := srv.db.Holds().HeldUntil(t.Context(), s.ID)
	if err != nil || time.Until(until) < time.Minute {
		t.Errorf("held until %v, %v", until, err)
	}
	release()
	if until, err := srv.db.Holds().HeldUntil(t.Context(), s.ID); err != nil || !until.IsZero() {
		t.Errorf("still held until %v, %v", until, err)
	}
}

func TestTemplateThatCannotBePreparedFailsTheCreate(t *testing.T) {
	srv := onSQLite(t).open(t)
	_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test", Spec: sandbox.Spec{
		Metadata: map[string]string{"base": "none such"},
	}})
	wantCode(t, err, api.CodeCreateFailed)
	if n := srv.creates(t); n != 0 {
		t.Errorf("%d creates", n)
	}
}

// A command has each variable once: its own, else the sandbox's, else the template's.
func TestCommandHasEachVariableOnce(t *testing.T) {
	srv := onSQLite(t).open(t)
	h := srv.HandleAt(sandbox.Sandbox{Spec: sandbox.Spec{Env: map[string]string{"A": "sandbox", "OF_BOTH": "sandbox"}}}, "i")
	got := mustCommand(t, h, guest.Cmd{Env: []string{"A=first", "A=own", "C=own"}}).Env
	slices.Sort(got)
	if want := []string{"A=own", "C=own", "OF_BOTH=sandbox", "OF_TEMPLATE=template's"}; !slices.Equal(got, want) {
		t.Errorf("the environment is %q", got)
	}
}

func mustCommand(t *testing.T, h *engine.Handle, cmd guest.Cmd) guest.Cmd {
	t.Helper()
	cmd, err := h.Command(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/config"
)

// TestMain lets the scripts run this test binary as berth.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": func() {
		os.Exit(Main(os.Args[1:], Deps{
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Version: "1.2.3", Commit: "abc",
			Drivers: []string{"fake", "local"}, Serve: waitForSignal, Migrate: reportNothing, OpenStore: open.Store,
		}))
	}})
}

// waitForSignal is a server that does nothing until it is asked to stop.
func waitForSignal(ctx context.Context, cfg *config.Loaded, out io.Writer) error {
	_, _ = io.WriteString(out, "serving on "+cfg.Listen+"\n")
	<-ctx.Done()
	return nil
}

func reportNothing(context.Context, *config.Loaded) (string, error) {
	return "the schema is up to date", nil
}

// result is what one command left behind.
type result struct {
	code     int
	out, err string
}

// shell is an environment to run commands in.
type shell struct {
	t    testing.TB
	env  map[string]string
	deps Deps
}

// newShell has a home without a data directory and, if a server is given, the address and key of it.
func newShell(t testing.TB, f *fakeServer) *shell {
	home := t.TempDir()
	s := &shell{t: t, env: map[string]string{"HOME": home, "XDG_DATA_HOME": home}}
	s.deps = Deps{Version: "1.2.3", Commit: "abc", Drivers: []string{"fake", "local"}, Serve: waitForSignal, Migrate: reportNothing, OpenStore: open.Store, Stdin: strings.NewReader("")}
	if f != nil {
		s.env["BERTH_SERVER"], s.env["BERTH_API_KEY"] = f.URL, testKey
	}
	return s
}

func (s *shell) with(env ...string) *shell {
	c := *s
	c.env = maps.Clone(s.env)
	for i := 0; i < len(env); i += 2 {
		c.env[env[i]] = env[i+1]
	}
	return &c
}

func (s *shell) without(name string) *shell {
	c := s.with()
	delete(c.env, name)
	return c
}

// berth runs one command to its end.
func (s *shell) berth(args ...string) result {
	s.t.Helper()
	var out, err bytes.Buffer
	deps := s.deps
	deps.Stdout, deps.Stderr = &out, &err
	if s.deps.Stdout != nil {
		deps.Stdout = s.deps.Stdout
	}
	if s.deps.Stderr != nil {
		deps.Stderr = s.deps.Stderr
	}
	deps.Env = func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }
	code := Main(args, deps)
	return result{code, out.String(), err.String()}
}

// ok fails the test unless the command succeeded and was silent on stderr.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	r := s.berth(args...)
	if r.code != 0 || r.err != "" {
		s.t.Fatalf("berth %s: exit %d, stderr %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

func contains(t testing.TB, where, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s has no %q:\n%s", where, want, text)
		}
	}
}

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON (%v):\n%s", err, text)
	}
	return v
}

// TestExitCodes holds every way a command ends, with and without --json.
func TestExitCodes(t *testing.T) {
	f := newFakeServer(t)
	broken := func(err error) func(context.Context, *config.Loaded, io.Writer) error {
		return func(context.Context, *config.Loaded, io.Writer) error { return err }
	}
	cases := []struct {
		name  string
		args  []string
		code  int
		want  string   // on stderr
		json  api.Code // on stderr with --json
		serve func(context.Context, *config.Loaded, io.Writer) error
	}{
		{name: "bare", args: nil, code: 0},
		{name: "help", args: []string{"ls", "--help"}, code: 0},
		{name: "version", args: []string{"version"}, code: 0},
		{name: "empty list", args: []string{"ls"}, code: 0, want: "No sandboxes yet"},
		{name: "unknown command", args: []string{"lss"}, code: 125, want: `"lss" is not a command of berth`, json: api.CodeInvalidRequest},
		{name: "unknown command of a group", args: []string{"keys", "creat"}, code: 125, want: "Did you mean 'berth keys create'?", json: api.CodeInvalidRequest},
		{name: "unknown flag", args: []string{"ls", "--nope"}, code: 125, want: "unknown flag: --nope", json: api.CodeInvalidRequest},
		{name: "bad flag value", args: []string{"ls", "--limit", "x"}, code: 125, want: "'berth ls --help' shows its usage.", json: api.CodeInvalidRequest},
		{name: "missing argument", args: []string{"get"}, code: 125, want: "berth get needs the ID or NAME of one sandbox", json: api.CodeInvalidRequest},
		{name: "too many arguments", args: []string{"get", "a", "b"}, code: 125, want: `"b" is one too many`, json: api.CodeInvalidRequest},
		{name: "argument where none is taken", args: []string{"ls", "a"}, code: 125, want: "berth ls takes no arguments", json: api.CodeInvalidRequest},
		{name: "not found", args: []string{"get", "nosuch"}, code: 125, want: "request id: req-1", json: api.CodeNotFound},
		{name: "refused", args: []string{"create", "--driver", "nosuch"}, code: 125, want: "hint: Use one of the drivers", json: api.CodeUnknownDriver},
		{name: "no server", args: []string{"ls", "--server", "http://127.0.0.1:1"}, code: 125, want: "Start one with 'berth serve'", json: api.CodeServerUnreachable},
		{name: "bad server", args: []string{"ls", "--server", "127.0.0.1"}, code: 125, want: "such as http://127.0.0.1:7070", json: api.CodeInternal},
		{name: "bad configuration", args: []string{"serve", "--listen", "nowhere"}, code: 125, want: "--listen", json: api.CodeInvalidConfig},
		{name: "server that breaks", args: []string{"serve"}, code: 125, want: "berth: it broke", json: api.CodeInternal, serve: broken(errors.New("it broke"))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newShell(t, f)
			if c.serve != nil {
				s.deps.Serve = c.serve
			}
			r := s.berth(c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.want) {
				t.Errorf("exit %d, stderr %q; want %d and %q", r.code, r.err, c.code, c.want)
			}
			if c.code == 0 {
				return
			}
			r = s.berth(append([]string{"--json"}, c.args...)...)
			if p := decode[api.Problem](t, r.err); r.code != c.code || p.Code != c.json || p.Detail == "" || r.out != "" {
				t.Errorf("with --json: exit %d, problem %+v, stdout %q; want code %s", r.code, p, r.out, c.json)
			}
		})
	}
}

// TestServeAfterAnInterrupt: a stop that was asked for and worked is a success, one that cut requests
// off is not, and Ctrl-C before there was a server is an interrupt.
func TestServeAfterAnInterrupt(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{{nil, 0, ""}, {errors.New("some were cut"), 125, "berth: some were cut\n"}, {fmt.Errorf("open database: %w", context.Canceled), 130, ""}} {
		s := newShell(t, nil)
		s.deps.Serve = func(ctx context.Context, _ *config.Loaded, _ io.Writer) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			<-ctx.Done()
			return c.err
		}
		if r := s.berth("serve"); r.code != c.code || r.err != c.want {
			t.Errorf("%v: %+v, want exit %d and %q", c.err, r, c.code, c.want)
		}
	}
}

func TestBareBerthShowsFirstSteps(t *testing.T) {
	out := newShell(t, nil).ok()
	contains(t, "help", out, "berth serve", "berth create scratch", "berth shell scratch", "Sandboxes:", "Inside a sandbox:", "Server:")
}

// TestFieldErrorsAreToldOnce: a server that names the field in its detail need not be repeated.
func TestFieldErrorsAreToldOnce(t *testing.T) {
	s := newShell(t, nil)
	s.deps.Serve = func(context.Context, *config.Loaded, io.Writer) error {
		return &api.Problem{Detail: "body.name: is too long", Errors: []api.FieldError{
			{Location: "body.name", Message: "is too long"}, {Location: "body.id", Message: "is too long"}}}
	}
	if r := s.berth("serve"); r.err != "berth: body.name: is too long\n  body.id: is too long\n" {
		t.Errorf("stderr %q", r.err)
	}
}

func TestErrorsOfManyKindsBecomeProblems(t *testing.T) {
	s := newShell(t, nil)
	for want, err := range map[string]error{
		"read-only":                           &os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS},
		"The disk is full":                    &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC},
		"Run as a user that may":              &os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES},
		"Stop it, or give this one its own":   dataDirLocked("process 12 has it", ""),
		"hint: stop process 12":               dataDirLocked("process 12 has it", "stop process 12"),
		"berth: The database does not answer": &api.Problem{Title: "The database does not answer"},
		"  body.name: is too long":            &api.Problem{Detail: "bad", Errors: []api.FieldError{{Location: "body.name", Message: "is too long"}}},
	} {
		s.deps.Serve = func(context.Context, *config.Loaded, io.Writer) error { return err }
		if r := s.berth("serve"); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit %d, stderr %q; want %q", err, r.code, r.err, want)
		}
	}
}

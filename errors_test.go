package berth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// failing makes sandboxes fail in different ways.
func failing(t *testing.T) berth.Config {
	refuse := func(context.Context, *berth.HookData) error { return errors.New("no licence") }
	return berth.Config{
		DataDir: t.TempDir(), ObjectStore: "none",
		Templates: []berth.Template{
			{Name: "refused", Hooks: []berth.Hook{berth.OnColdStart(refuse)}},
		},
	}
}

// Each failure has a kind for errors.Is, a stable code, and a text that says what was being done.
func TestErrorsHaveKinds(t *testing.T) {
	testkit.Proves(t, "V6")
	b := open(t, failing(t))
	s := newSandbox(t, b)
	if _, err := s.WriteFile(t.Context(), "", "large", strings.NewReader(strings.Repeat("x", berth.MaxFileContent+1)), 0); err != nil {
		t.Fatal(err)
	}
	openErr := func(id string, account berth.Account, opts ...berth.Option) error {
		_, err := b.Sandbox(t.Context(), id, account, opts...)
		return err
	}
	readErr := func(source, path string) error {
		_, err := s.FileContent(t.Context(), source, path)
		return err
	}
	_, syncErr := s.SyncFiles(t.Context())
	execErr := func(ctx context.Context, cmd berth.Command) error {
		_, err := s.Exec(ctx, cmd)
		return err
	}
	_, turnErr := s.Turn(t.Context(), berth.NewID())
	_, writeErr := s.WriteFile(t.Context(), "", "broken", iotest.ErrReader(errBroken), 0)
	_, nilErr := s.WriteFile(t.Context(), "", "nil", nil, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	deleted := newSandbox(t, b)
	if err := deleted.Delete(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	_, deletedErr := deleted.ListFiles(t.Context(), berth.ListOptions{})
	for name, c := range map[string]struct {
		err  error
		is   error
		code api.Code
		op   string
	}{
		"id":       {openErr("box", me), berth.ErrInvalidSandboxID, api.CodeInvalidID, "open sandbox"},
		"account":  {openErr(berth.NewID(), berth.Account{}), berth.ErrInvalidAccount, api.CodeInvalidRequest, "open sandbox"},
		"tenant":   {openErr(berth.NewID(), berth.Account{ID: "me", Tenant: "../x"}), berth.ErrInvalidAccount, "", "open sandbox"},
		"control":  {openErr(berth.NewID(), berth.Account{ID: "a\nb"}), berth.ErrInvalidAccount, api.CodeInvalidRequest, "open sandbox"},
		"env":      {openErr(berth.NewID(), me, berth.WithEnv(map[string]string{"": "x"})), berth.ErrInvalidConfig, api.CodeInvalidRequest, "open sandbox"},
		"template": {openErr(berth.NewID(), me, berth.WithTemplate("missing")), berth.ErrInvalidConfig, api.CodeUnknownTemplate, "open sandbox"},
		"mismatch": {openErr(s.ID(), me, berth.WithProfile("full")), berth.ErrInvalidConfig, api.CodeSpecMismatch, "open sandbox"},
		"others":   {openErr(s.ID(), berth.Account{ID: "you"}), berth.ErrSandboxNotAccessible, api.CodeNotFound, "open sandbox"},
		"hook":     {openErr(berth.NewID(), me, berth.WithTemplate("refused")), berth.ErrHookExecutionFailed, api.CodeHookFailed, "open sandbox"},
		"deleted":  {deletedErr, berth.ErrSandboxNotAccessible, api.CodeDeleted, "list files"},
		"sync":     {syncErr, berth.ErrSyncFailed, api.CodeUnsupported, "sync files"},
		"command":  {execErr(t.Context(), berth.Command{}), nil, api.CodeInvalidRequest, "run command"},
		"input":    {execErr(t.Context(), berth.Command{Args: []string{"cat"}, Stdin: iotest.ErrReader(errBroken)}), errBroken, api.CodeInvalidRequest, "run command"},
		"output":   {execErr(t.Context(), berth.Command{Args: []string{"echo"}, Stdout: brokenWriter{}}), errBroken, api.CodeInvalidRequest, "run command"},
		"ended":    {execErr(ended, berth.Shell("true")), context.Canceled, api.CodeTimeout, "run command"},
		"content":  {writeErr, errBroken, api.CodeInvalidRequest, "write file"},
		"nil":      {nilErr, nil, api.CodeInvalidRequest, "write file"},
		"delete":   {b.DeleteSandbox(t.Context(), "box", me, false), berth.ErrInvalidSandboxID, api.CodeInvalidID, "delete sandbox"},
		"no turn":  {turnErr, nil, api.CodeNotFound, "read turn"},
		"encoding": {openErr(berth.NewID(), berth.Account{ID: "a\xff"}), berth.ErrInvalidAccount, api.CodeInvalidRequest, "open sandbox"},
		"source":   {readErr("etc", "passwd"), nil, api.CodeInvalidRequest, "read file"},
		"outside":  {readErr("", "../../etc/passwd"), nil, api.CodePathOutside, "read file"},
		"large":    {readErr("", "large"), nil, api.CodeTooLarge, "read file"},
		"missing":  {readErr("", "none"), nil, api.CodeFileNotFound, "read file"},
		"turn":     {prompt(t, s, berth.Prompt{Text: "x", TurnID: "1"}), nil, api.CodeInvalidID, "execute agent"},
		"prompt":   {prompt(t, s, berth.Prompt{}), nil, api.CodeInvalidRequest, "execute agent"},
		"set":      {s.SetConversation("c1"), nil, api.CodeInvalidID, "set conversation"},
	} {
		var e *berth.Error
		if !errors.As(c.err, &e) {
			t.Errorf("%s: %v is no Error", name, c.err)
			continue
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v is not %v", name, c.err, c.is)
		}
		for _, kind := range kinds {
			if kind != c.is && errors.Is(c.err, kind) {
				t.Errorf("%s: %v is %v, too", name, c.err, kind)
			}
		}
		if e.Op != c.op || c.code != "" && e.Code != c.code || !strings.HasPrefix(e.Error(), c.op+": ") || strings.HasSuffix(e.Error(), ": ") {
			t.Errorf("%s: %v has the operation %q and the code %s", name, c.err, e.Op, e.Code)
		}
	}
	if err := openErr(berth.NewID(), me, berth.WithTemplate("refused")); !strings.Contains(err.Error(), "no licence") {
		t.Errorf("the hook's error is lost: %v", err)
	}
}

var kinds = []error{
	berth.ErrInvalidSandboxID, berth.ErrInvalidAccount, berth.ErrInvalidConfig, berth.ErrSandboxNotRunning, berth.ErrSandboxNotAccessible,
	berth.ErrSandboxCreationFailed, berth.ErrReconstructionFailed, berth.ErrStateUpdateFailed, berth.ErrHookExecutionFailed,
	berth.ErrSyncFailed, berth.ErrTurnRunning, berth.ErrClosed,
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// A nil context is refused by every call. A panic within the database would hold its lock for ever.
func TestNilContextIsRefused(t *testing.T) {
	testkit.Proves(t, "V6")
	b := open(t, berth.Config{Driver: "fake"})
	s := newSandbox(t, b)
	var none context.Context
	first := func(events func(func(api.TurnEvent, error) bool)) (err error) {
		for _, err = range events {
			break
		}
		return err
	}
	_, openErr := berth.Open(none, berth.Config{DataDir: t.TempDir()})
	_, migrateErr := berth.Migrate(none, berth.Config{DataDir: t.TempDir()})
	_, sandboxErr := b.Sandbox(none, s.ID(), me)
	_, infoErr := s.Info(none)
	_, volumeErr := s.Volume(none)
	_, execErr := s.Exec(none, berth.Shell("true"))
	_, listErr := s.ListFiles(none, berth.ListOptions{})
	_, treeErr := s.FileTree(none, berth.TreeOptions{})
	_, readErr := s.FileContent(none, "", "x")
	_, writeErr := s.WriteFile(none, "", "x", strings.NewReader(""), 0)
	_, syncErr := s.SyncFiles(none)
	_, turnErr := s.Turn(none, berth.NewID())
	var sandboxesErr error
	for _, sandboxesErr = range b.Sandboxes(none, me) {
	}
	for i, err := range []error{
		openErr, migrateErr, sandboxErr, infoErr, volumeErr, execErr, listErr, treeErr, readErr, writeErr, syncErr, turnErr, sandboxesErr,
		s.Stop(none), s.Terminate(none, false), s.Delete(none, false), b.DeleteSandbox(none, s.ID(), me, false),
		s.CancelTurn(none, berth.NewID()), first(s.TurnEvents(none, berth.NewID(), 0)), first(s.ExecuteAgentStream(none, berth.Prompt{Text: "x"})),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "the context is nil") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if info, err := s.Info(t.Context()); err != nil || info.State != "running" {
		t.Errorf("afterwards: %s, %v", info.State, err)
	}
}

// Another account can neither see, start, nor delete a sandbox. Another tenant cannot, either: under the same id it gets
// its own sandbox.
func TestSandboxBelongsToItsAccount(t *testing.T) {
	testkit.Proves(t, "E8")
	b := open(t, berth.Config{})
	s := newSandbox(t, b)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant := berth.Account{ID: "me", Tenant: "other"}
	for _, other := range []berth.Account{{ID: "you"}, tenant} {
		refused := []error{b.DeleteSandbox(t.Context(), s.ID(), other, false)}
		if other != tenant {
			_, err := b.Sandbox(t.Context(), s.ID(), other)
			refused = append(refused, err)
		}
		for _, err := range refused {
			if !errors.Is(err, berth.ErrSandboxNotAccessible) {
				t.Errorf("%+v: %v", other, err)
			}
		}
		for found, err := range b.Sandboxes(t.Context(), other) {
			t.Errorf("%+v sees %s, %v", other, found.ID, err)
		}
	}
	theirs, err := b.Sandbox(t.Context(), s.ID(), tenant)
	if err != nil || theirs.ID() != s.ID() {
		t.Fatalf("the other tenant's sandbox is %+v, %v", theirs, err)
	}
	if err := b.DeleteSandbox(t.Context(), s.ID(), tenant, false); err != nil {
		t.Error(err)
	}
	if info, err := s.Info(t.Context()); err != nil || info.State != "stopped" {
		t.Errorf("afterwards it is %s, %v", info.State, err)
	}
}

// prompt returns the error of a prompt that is refused.
func prompt(t *testing.T, s *berth.Sandbox, p berth.Prompt) (err error) {
	for _, err = range s.ExecuteAgentStream(t.Context(), p) {
	}
	return err
}

// What would end a running turn is refused until the turn is cancelled.
func TestTerminateWaitsForNoTurn(t *testing.T) {
	b := open(t, failing(t))
	s := newSandbox(t, b, berth.WithTemplate("demo"))
	var turn string
	for event, err := range s.ExecuteAgentStream(t.Context(), berth.Prompt{Text: "run sleep 600"}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == api.EventTurnStarted {
			turn = event.TurnID
			if err := s.Terminate(t.Context(), false); !errors.Is(err, berth.ErrTurnRunning) {
				t.Errorf("terminate: %v", err)
			}
			for _, err := range s.ExecuteAgentStream(t.Context(), berth.Prompt{Text: "more"}) {
				if !errors.Is(err, berth.ErrTurnRunning) {
					t.Errorf("a second prompt: %v", err)
				}
			}
			if err := s.CancelTurn(t.Context(), turn); err != nil {
				t.Error(err)
			}
		}
		if event.Type == api.EventTurnFinished && event.Status != api.TurnCancelled {
			t.Errorf("finished: %+v", event)
		}
	}
	if err := s.Terminate(t.Context(), false); err != nil {
		t.Error(err)
	}
	other := newSandbox(t, b)
	if _, err := other.Turn(t.Context(), turn); code(err) != api.CodeNotFound {
		t.Errorf("another sandbox's turn: %v", err)
	}
}

// code returns the code of an error of package berth.
func code(err error) api.Code {
	if e := new(berth.Error); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Close ends the reading of a turn with an error, and the turn runs on for the next process that opens the data.
func TestCloseEndsStreams(t *testing.T) {
	config := berth.Config{DataDir: t.TempDir(), GuestPath: guestPath}
	b, err := berth.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Sandbox(t.Context(), berth.NewID(), me, berth.WithTemplate("demo"))
	if err != nil {
		t.Fatal(err)
	}
	p := berth.Prompt{Text: "run sleep 600", TurnID: berth.NewID()}
	closed := make(chan error, 2)
	var last error
	for event, err := range s.ExecuteAgentStream(t.Context(), p) {
		if event.Type == api.EventTurnStarted {
			go func() { closed <- b.Close() }()
			go func() { closed <- b.Close() }()
		}
		last = err
	}
	if !errors.Is(last, berth.ErrClosed) {
		t.Errorf("the stream ended with %v", last)
	}
	if err := errors.Join(<-closed, <-closed); err != nil {
		t.Error(err)
	}
	again, err := open(t, config).Sandbox(t.Context(), strings.ToUpper(s.ID()), me)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := again.Turn(t.Context(), strings.ToUpper(p.TurnID))
	if err != nil || turn.Status != api.TurnRunning {
		t.Errorf("afterwards the turn is %s, %v", turn.Status, err)
	}
	if err := again.CancelTurn(t.Context(), p.TurnID); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesABadConfig(t *testing.T) {
	testkit.Proves(t, "V6")
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("[templates.x]\nprofile = \"huge\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config berth.Config
		word   string
	}{
		"no directory": {berth.Config{}, "DataDir"},
		"store":        {berth.Config{DataDir: t.TempDir(), ObjectStore: "ftp://x"}, "object_store"},
		"driver":       {berth.Config{DataDir: t.TempDir(), Driver: "imaginary"}, "imaginary"},
		"setting":      {berth.Config{DataDir: t.TempDir(), Settings: map[string]string{"colour": "blue"}}, "colour"},
		"template":     {berth.Config{DataDir: t.TempDir(), Templates: []berth.Template{{Name: "x", Profile: "huge"}}}, "huge"},
		"twice":        {berth.Config{DataDir: t.TempDir(), Templates: []berth.Template{{Name: "x"}, {Name: "x"}}}, "x"},
		"file":         {berth.Config{DataDir: t.TempDir(), File: file}, "huge"},
		"helper":       {berth.Config{DataDir: t.TempDir(), GuestPath: "/no/such/program"}, "/no/such/program"},
	} {
		b, err := berth.Open(t.Context(), c.config)
		if err == nil {
			t.Errorf("%s: it opens: %v", name, b.Close())
			continue
		}
		if !strings.Contains(err.Error(), c.word) || name != "helper" && !errors.Is(err, berth.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClosedBerthRefuses(t *testing.T) {
	b := open(t, berth.Config{Driver: "fake"})
	s := newSandbox(t, b)
	if err := s.Delete(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	_, openErr := b.Sandbox(t.Context(), berth.NewID(), me)
	_, infoErr := s.Info(t.Context())
	for _, err := range []error{openErr, infoErr} {
		if !errors.Is(err, berth.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

package berth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// calls records the phases in which hooks ran.
type calls struct {
	sync.Mutex
	phases []berth.Phase
}

func (c *calls) hook(_ context.Context, d *berth.HookData) error {
	c.Lock()
	defer c.Unlock()
	c.phases = append(c.phases, d.Phase)
	if d.Phase == berth.PhaseStreamFinish {
		return d.SetStat("finished", 1)
	}
	return nil
}

func (c *calls) count(p berth.Phase) (n int) {
	c.Lock()
	defer c.Unlock()
	for _, phase := range c.phases {
		if phase == p {
			n++
		}
	}
	return n
}

func (c *calls) template() berth.Template {
	return berth.Template{Name: "counted", Extends: "demo", Hooks: []berth.Hook{
		berth.OnColdStart(c.hook), berth.OnMessage(c.hook), berth.OnStreamFinish(c.hook), berth.OnTerminate(c.hook),
	}}
}

// One call opens a sandbox; its methods need no more than what that call got. The same on SQLite with a directory,
// and on PostgreSQL, S3 and DynamoDB.
func TestSandboxIsOpenedOnceAndUsed(t *testing.T) {
	testkit.Proves(t, "V1", "V2", "V3", "X9")
	t.Run("sqlite", func(t *testing.T) { useSandbox(t, berth.Config{DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) {
		s3test.Setenv(t)
		dynamotest.Setenv(t)
		c := berth.Config{
			DataDir: t.TempDir(), DatabaseURL: storetest.Postgres(t), ObjectStore: s3test.New(t).URL("berth"), MessageStore: dynamotest.New(t).URL(),
		}
		if report, err := berth.Migrate(t.Context(), c); err != nil || !strings.Contains(report, "was made") {
			t.Fatalf("%q, %v", report, err)
		}
		useSandbox(t, c)
	})
}

func useSandbox(t *testing.T, c berth.Config) {
	ran := new(calls)
	c.Templates = []berth.Template{ran.template()}
	b := open(t, c)
	s := newSandbox(t, b, berth.WithTemplate("counted"), berth.WithProfile("lite"), berth.WithEnv(map[string]string{"COLOUR": "blue"}))
	useFiles(t, s)
	useAgent(t, s, ran)
	first := s.Model()
	again, err := b.Sandbox(t.Context(), s.ID(), me)
	if err != nil || ran.count(berth.PhaseColdStart) != 1 {
		t.Fatalf("opened again: %v; %d cold starts", err, ran.count(berth.PhaseColdStart))
	}
	if volume, err := again.Volume(t.Context()); err != nil || volume != first.Instance || again.Conversation() != "" {
		t.Errorf("opened again: volume %s, not %s, conversation %q, %v", volume, first.Instance, again.Conversation(), err)
	}
	synced, err := s.SyncFiles(t.Context())
	if err != nil || synced.Version == "" {
		t.Errorf("sync: %+v, %v", synced, err)
	}
	if err := again.Terminate(t.Context(), true); err != nil || ran.count(berth.PhaseTerminate) != 1 {
		t.Fatalf("terminate: %v; %d hooks", err, ran.count(berth.PhaseTerminate))
	}
	useTerminated(t, s, ran)
}

func useFiles(t *testing.T, s *berth.Sandbox) {
	t.Helper()
	if _, err := s.WriteFile(t.Context(), "", "src/main.go", strings.NewReader("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteFile(t.Context(), berth.HomeDir, ".profile", strings.NewReader("umask 022\n"), 0); err != nil {
		t.Fatal(err)
	}
	list, err := s.ListFiles(t.Context(), berth.ListOptions{Depth: 5, Pattern: "*.go"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Path != "src/main.go" || list.Items[0].Mode != "0600" {
		t.Errorf("list: %+v, %v", list, err)
	}
	tree, err := s.FileTree(t.Context(), berth.TreeOptions{})
	if err != nil || len(tree.Children) != 1 || tree.Children[0].Children[0].Path != "src/main.go" {
		t.Errorf("tree: %+v, %v", tree, err)
	}
	content, err := s.FileContent(t.Context(), berth.HomeDir, ".profile")
	if err != nil || string(content) != "umask 022\n" {
		t.Errorf("content: %q, %v", content, err)
	}
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), berth.Command{Args: []string{"sh", "-c", "cat; echo $COLOUR $SHAPE; exit 3"}, Env: map[string]string{"SHAPE": "round"}, Stdin: strings.NewReader("in\n"), Stdout: &out})
	if err != nil || exit.ExitCode != 3 || out.String() != "in\nblue round\n" {
		t.Errorf("exec: %+v, %q, %v", exit, out.String(), err)
	}
}

func useAgent(t *testing.T, s *berth.Sandbox, ran *calls) {
	t.Helper()
	conversation := berth.NewID()
	if err := s.SetConversation(conversation); err != nil || s.Conversation() != conversation {
		t.Fatalf("conversation %q, %v", s.Conversation(), err)
	}
	var types []string
	var started, finished api.TurnEvent
	for event, err := range s.ExecuteAgentStream(t.Context(), berth.Prompt{Text: "write notes.txt: hello"}) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, event.Type)
		switch event.Type {
		case api.EventTurnStarted:
			started = event
		case api.EventTurnFinished:
			finished = event
		}
	}
	if types[0] != api.EventTurnStarted || types[len(types)-1] != api.EventTurnFinished || !slices.Contains(types, api.EventText) {
		t.Errorf("events: %v", types)
	}
	if finished.Status != api.TurnCompleted || started.SandboxID != s.ID() || started.ConversationID != conversation {
		t.Errorf("started %+v, finished %+v", started, finished)
	}
	turn, err := s.Turn(t.Context(), started.TurnID)
	if err != nil || turn.Status != api.TurnCompleted || turn.SandboxID != s.ID() {
		t.Errorf("turn: %+v, %v", turn, err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := ran.count(berth.PhaseMessage); n != 2 || ran.count(berth.PhaseStreamFinish) != 1 {
			return fmt.Errorf("%d message hooks, %d stream finish hooks", n, ran.count(berth.PhaseStreamFinish))
		}
		return nil
	})
}

// useTerminated reads the files of a terminated sandbox without starting it, and then uses it again.
func useTerminated(t *testing.T, s *berth.Sandbox, ran *calls) {
	t.Helper()
	content, err := s.FileContent(t.Context(), berth.WorkingDir, "notes.txt")
	if err != nil || string(content) != "hello\n" {
		t.Errorf("of the newest version: %q, %v", content, err)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.State != "terminated" || info.Instance != "" || ran.count(berth.PhaseColdStart) != 1 {
		t.Errorf("after reading: %+v, %v", info, err)
	}
	var out bytes.Buffer
	if _, err := s.Exec(t.Context(), berth.Command{Args: []string{"cat", "notes.txt"}, Stdout: &out}); err != nil || out.String() != "hello\n" {
		t.Errorf("revived: %q, %v", out.String(), err)
	}
	info = s.Model()
	if info.State != "running" || info.Incarnation != 2 || info.Profile != "lite" || info.Template != "counted" || ran.count(berth.PhaseColdStart) != 2 {
		t.Errorf("revived: %+v; %d cold starts", info, ran.count(berth.PhaseColdStart))
	}
	if err := s.Stop(t.Context()); err != nil || s.Model().State != "stopped" {
		t.Errorf("stop: %s, %v", s.Model().State, err)
	}
}

// The agent has the files of a prompt in the workspace. A file that is too large, or a model that the template does not
// allow, begins no turn.
func TestPromptWithAttachmentsAndModel(t *testing.T) {
	testkit.Proves(t, "X9", "T5")
	b := open(t, berth.Config{Templates: []berth.Template{{Name: "listed", Extends: "demo", Models: []string{"small"}}}})
	s := newSandbox(t, b, berth.WithTemplate("listed"))
	file := func(data string) []api.PromptFile { return []api.PromptFile{{Name: "a b.txt", Data: []byte(data)}} }
	var said string
	for event, err := range s.ExecuteAgentStream(t.Context(), berth.Prompt{Text: "run cat attachments/*/*", Model: "small", Attachments: file("hello from a file")}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == api.EventText {
			said += event.Text
		}
	}
	if !strings.Contains(said, "hello from a file") || !strings.Contains(said, "a_b.txt") {
		t.Errorf("it says %q", said)
	}
	for want, p := range map[api.Code]berth.Prompt{
		api.CodeModelNotAllowed: {Text: "x", Model: "large"},
		api.CodeLargeAttachment: {Text: "x", Attachments: file(strings.Repeat("x", 10<<20+1))},
	} {
		for _, err := range s.ExecuteAgentStream(t.Context(), p) {
			if e, ok := errors.AsType[*berth.Error](err); !ok || e.Code != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// A turn goes on without its reader, and is read on or ended later.
func TestTurnOutlivesItsReader(t *testing.T) {
	b := open(t, berth.Config{})
	s := newSandbox(t, b, berth.WithTemplate("demo"))
	prompt := berth.Prompt{Text: "write notes.txt: hello", TurnID: berth.NewID()}
	for event, err := range s.ExecuteAgentStream(t.Context(), prompt) {
		if err != nil || event.Type != api.EventTurnStarted {
			t.Fatalf("%+v, %v", event, err)
		}
		break
	}
	count := func(events func(func(api.TurnEvent, error) bool)) (n int64, last string) {
		for event, err := range events {
			if err != nil {
				t.Fatal(err)
			}
			n, last = n+1, event.Type
		}
		return n, last
	}
	all, last := count(s.TurnEvents(t.Context(), prompt.TurnID, 0))
	if rest, lastOfRest := count(s.TurnEvents(t.Context(), prompt.TurnID, 2)); rest != all-2 || last != api.EventTurnFinished || lastOfRest != last {
		t.Errorf("%d events, %d behind the second, last %s and %s", all, rest, last, lastOfRest)
	}
	if again, _ := count(s.ExecuteAgentStream(t.Context(), prompt)); again != all {
		t.Errorf("the same turn again has %d events, not %d", again, all)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.TurnEvents(gone, prompt.TurnID, 0) {
		if err == nil {
			t.Error("events after the end of the context")
		}
	}
}

// A sandbox whose processes were killed is recovered when it is opened, not when it is used.
func TestOpenChecksThatTheSandboxAnswers(t *testing.T) {
	testkit.Proves(t, "V1")
	b := open(t, berth.Config{})
	s := newSandbox(t, b)
	if _, err := s.WriteFile(t.Context(), "", "notes.txt", strings.NewReader("hello"), 0); err != nil {
		t.Fatal(err)
	}
	before := s.Model()
	killHelper(t, s.ID())
	again, err := b.Sandbox(t.Context(), s.ID(), me)
	if err != nil {
		t.Fatal(err)
	}
	if after := again.Model(); after.State != "running" || !after.StartedAt.After(*before.StartedAt) {
		t.Errorf("it started at %v and is %s since %v", before.StartedAt, after.State, after.StartedAt)
	}
	if content, err := again.FileContent(t.Context(), "", "notes.txt"); err != nil || string(content) != "hello" {
		t.Errorf("%q, %v", content, err)
	}
}

// killHelper ends the first process of a sandbox, and so all of them.
func killHelper(t *testing.T, id string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		cgroup, _ := os.ReadFile(path)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && strings.Contains(string(cgroup), id) && string(command) == "berth-guest\x00" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no helper of sandbox %s", id)
}

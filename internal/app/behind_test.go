package app_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// hanging is a server of conversations whose object store can be made to hang.
type hanging struct {
	*testing.T
	env   []string
	p     *process
	proxy *s3test.FaultProxy
	conv  api.Conversation
	turns []string // in order
}

// newHanging starts the server, with more settings of the template, and takes a first turn, which is saved at once.
func newHanging(t *testing.T, env []string, settings ...string) *hanging {
	bucket := s3test.New(t)
	proxy := s3test.Proxy(t, bucket.Endpoint)
	bucket.Endpoint = proxy.Endpoint
	env = withConfig(t, onS3(env, bucket), `[templates.behind]
extends = "demo"
`+strings.Join(settings, "\n")+`
[[templates.behind.hooks]]
phase = "stream_finish"
command = "echo $BERTH_TURN_ID $BERTH_VERSION >> /home/agent/saved"
`)
	h := &hanging{T: t, env: env, proxy: proxy, p: start(t, env)}
	conv, _, err := h.client().Conversations.Create(t.Context(), api.CreateConversation{Template: "behind"})
	if err != nil {
		t.Fatal(err)
	}
	h.conv = conv
	h.work()
	h.settle()
	if h.conv, err = h.client().Conversations.Get(t.Context(), conv.ID); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hanging) client() *client.Client { return h.p.client(h.T) }

// hang makes the store take connections and never answer.
func (h *hanging) hang() { h.proxy.Set(s3test.Faults{Slow: 1, Delay: time.Hour}) }

func (h *hanging) answer() { h.proxy.Set(s3test.Faults{}) }

// work takes a turn that adds one file, and returns its last event.
func (h *hanging) work() api.TurnEvent {
	h.Helper()
	n := len(h.turns)
	turn := prompted(h.T, h.client(), h.conv.ID, fmt.Sprintf("run echo %d > file-%d", n, n))
	h.turns = append(h.turns, turn)
	end := lastEvent(h.T, readTurn(h.T, h.client(), h.conv.ID, turn, 0))
	if end.Status != api.TurnCompleted {
		h.Errorf("turn %d ended with %+v", n, end)
	}
	return end
}

// settle waits until every turn has its version.
func (h *hanging) settle() {
	h.Helper()
	testkit.Eventually(h, 3*time.Minute, func() error {
		for i, id := range h.turns {
			t, err := h.client().Conversations.Turn(h.Context(), h.conv.ID, id)
			if err != nil || t.VersionPending || t.Version == "" {
				return fmt.Errorf("turn %d: %+v, %v", i, t, err)
			}
		}
		return nil
	})
}

// check checks that there is exactly one version for each turn, with exactly the files that were there when the
// turn ended, in order, and that the hook behind the save ran once for each.
func (h *hanging) check() {
	h.Helper()
	b := box{h.T, h.client(), h.conv.SandboxID}
	all := b.versions()
	slices.Reverse(all)
	if len(all) != len(h.turns) {
		h.Fatalf("%d versions of %d turns: %+v", len(all), len(h.turns), all)
	}
	var ran []string
	for i, id := range h.turns {
		t, err := h.client().Conversations.Turn(h.Context(), h.conv.ID, id)
		// On a starved machine a capture may take too long. The turn says so, and its version may be a later one.
		late := slices.ContainsFunc(t.Warnings, func(w string) bool { return strings.Contains(w, "captured after it had ended") })
		if err != nil || (t.Version != all[i].ID || len(t.Warnings) > 0) && !late {
			h.Errorf("turn %d has version %s, want %s; warnings %v, %v", i, t.Version, all[i].ID, t.Warnings, err)
		}
		if all[i].Files != all[0].Files+i {
			h.Errorf("version %d has %d files, the first had %d", i, all[i].Files, all[0].Files)
		}
		ran = append(ran, id+" "+t.Version)
	}
	testkit.Eventually(h, time.Minute, func() error {
		if got := strings.Split(strings.TrimSpace(b.sh("cat /home/agent/saved").Stdout), "\n"); !slices.Equal(got, ran) {
			return fmt.Errorf("the hook behind the save ran for\n%v, want\n%v", got, ran)
		}
		return nil
	})
	if v, err := h.client().Sandboxes.Verify(h.Context(), h.conv.SandboxID); err != nil || len(v.Problems) != 0 {
		h.Errorf("%+v, %v", v, err)
	}
}

// A store that takes connections and never answers holds up no turn, no prompt and no cancel. When it answers
// again, each turn has its own version, once.
func TestTurnsGoOnWhileTheStoreHangs(t *testing.T) {
	testkit.Proves(t, "S7", "H4")
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "DATABASE_URL=" },
		"postgres": func(t *testing.T) string { return "DATABASE_URL=" + storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOnWhileTheStoreHangs(newHanging(t, append(local(t), database(t))))
		})
	}
}

func goOnWhileTheStoreHangs(h *hanging) {
	h.hang()
	for range 3 {
		if end := h.work(); !end.VersionPending || end.Version != "" || !strings.Contains(fmt.Sprint(end.Warnings), "not in the object store yet") ||
			strings.Contains(fmt.Sprint(end.Warnings), "127.0.0.1") {
			h.Errorf("the turn ended with %+v", end)
		}
	}
	h.cancelled()
	h.metric("berth_saves_pending 4")
	h.answer()
	h.settle()
	h.check()
	h.metric("berth_saves_pending 0")
}

// metric waits until the server's metrics have a line.
func (h *hanging) metric(line string) {
	h.Helper()
	testkit.Eventually(h, time.Minute, func() error {
		req, err := http.NewRequestWithContext(h.Context(), http.MethodGet, h.p.url+"/metrics", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+testKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && !strings.Contains(string(text), line) {
			err = fmt.Errorf("the metrics do not say %q", line)
		}
		return err
	})
}

// cancelled takes a turn that is cancelled.
func (h *hanging) cancelled() {
	h.Helper()
	stream, err := h.client().Conversations.Prompt(h.Context(), h.conv.ID, api.Prompt{Prompt: fmt.Sprintf("run echo x > file-%d; sleep 600", len(h.turns))})
	if err != nil {
		h.Fatal(err)
	}
	var end api.TurnEvent
	for e, err := range stream.Events() {
		if err != nil {
			h.Fatal(err)
		}
		switch e.Type {
		case api.EventTurnStarted:
			h.turns = append(h.turns, e.TurnID)
		case api.EventToolCall:
			b := box{h.T, h.client(), h.conv.SandboxID}
			testkit.Eventually(h, time.Minute, func() error {
				if b.sh(fmt.Sprintf("ls file-%d 2>&1", len(h.turns)-1)).ExitCode != 0 {
					return fmt.Errorf("the agent has not begun")
				}
				return nil
			})
			if _, err := h.client().Conversations.Cancel(h.Context(), h.conv.ID, h.turns[len(h.turns)-1]); err != nil {
				h.Fatal(err)
			}
		}
		end = e
	}
	if end.Status != api.TurnCancelled || !end.VersionPending {
		h.Errorf("the cancelled turn ended with %+v", end)
	}
}

// A server that is killed while saves are owed, or in the middle of one, leaves them to the next: no version is
// missing and none is there twice.
func TestKilledServerOwesItsSaves(t *testing.T) {
	testkit.Proves(t, "C4", "S7")
	t.Parallel()
	for _, point := range []string{"captured", "owed", "before-commit", "after-commit", "saved", "recorded", "released"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHanging(t, local(t))
			h.hang()
			h.work()
			h.work()
			if err := h.p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.p.cmd.Wait()
			h.answer()
			h.p = start(t, append(h.env, killEnv+"="+point+" 1"))
			h.asked() // for the points at the end of a turn
			_ = h.p.cmd.Wait()
			h.p = start(t, h.env)
			h.list()
			h.settle()
			h.check()
		})
	}
}

// asked takes a turn at a server that is killed before or in it.
func (h *hanging) asked() {
	h.Helper()
	n := len(h.turns)
	once := h.p.client(h.T, client.WithAttempts(1))
	stream, err := once.Conversations.Prompt(h.Context(), h.conv.ID, api.Prompt{Prompt: fmt.Sprintf("run echo %d > file-%d", n, n)})
	if err != nil {
		return
	}
	for _, err := range stream.Events() {
		if err != nil {
			return
		}
	}
}

// list finds out which turns there are.
func (h *hanging) list() {
	h.Helper()
	h.turns = nil
	for turn, err := range h.client().Conversations.Turns(h.Context(), h.conv.ID) {
		if err != nil {
			h.Fatal(err)
		}
		h.turns = append(h.turns, turn.ID)
	}
	slices.Reverse(h.turns)
}

// Turns that cannot be captured, because the spool is full or the layout is plain, are saved together once the store
// answers. Every turn has a version, and where it is not the turn's alone the turn and the history say so.
func TestTurnsThatCannotBeCapturedAreSavedTogether(t *testing.T) {
	testkit.Proves(t, "S7")
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *hanging{
		"full spool":   func(t *testing.T) *hanging { return newHanging(t, append(local(t), "BERTH_SAVE_SPOOL_BYTES=1")) },
		"plain layout": func(t *testing.T) *hanging { return newHanging(t, local(t), `layout = "plain"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			h.hang()
			for range 3 {
				if end := h.work(); !end.VersionPending {
					t.Errorf("the turn ended with %+v", end)
				}
			}
			h.answer()
			h.settle()
			h.savedTogether()
		})
	}
}

func (h *hanging) savedTogether() {
	h.Helper()
	all := box{h.T, h.client(), h.conv.SandboxID}.versions()
	if first := all[len(all)-1]; all[0].Files != first.Files+3 {
		h.Errorf("%+v", all)
	}
	const words = "its version also has what later turns changed"
	together, next := 0, all[0].ID
	for i, id := range slices.Backward(h.turns[1:]) {
		t, err := h.client().Conversations.Turn(h.Context(), h.conv.ID, id)
		shared := strings.Contains(fmt.Sprint(t.Warnings), words)
		if err != nil || shared != (i < 2 && t.Version == next) || i == 2 && t.Version != next {
			h.Errorf("turn %d has version %s, the next has %s; warnings %v, %v", i, t.Version, next, t.Warnings, err)
		}
		if next = t.Version; shared {
			together++
		}
	}
	said := 0
	for entry, err := range h.client().Sandboxes.History(h.Context(), h.conv.SandboxID) {
		if err != nil {
			h.Fatal(err)
		}
		if strings.Contains(entry.Reason, words) {
			said++
		}
	}
	if said != together || said == 0 {
		h.Errorf("the history says it of %d turns, not %d", said, together)
	}
}

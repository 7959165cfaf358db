package slacktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/npm"
)

// saw is what the published clients of Slack saw.
type saw struct {
	Auth            struct{ Team_id, User_id, Bot_id string }
	Root, Stream    string
	Texts           []string
	WithoutMetadata bool

	Twice, Email, UnknownChannel, Empty, BadToken, UnknownMethod, Ephemeral string
	Both, BadChunk, EditOfStream, StopTwice, Edited                         string
	AfterStop, NoRecipient                                                  string
	File, Download, DownloadWithout                                         string

	Events, Clicks []string
	Connected      int
}

// TestPublishedClients drives the server with the clients that Slack publishes for Node, unchanged.
func TestPublishedClients(t *testing.T) {
	dir, err := npm.EnsureAll(npm.Package{Name: "@slack/socket-mode", Version: "2.0.7"}, npm.Package{Name: "@slack/web-api", Version: "7.19.0"})
	if err != nil {
		t.Fatal(err)
	}
	s := New(t)
	s.AckTime = time.Second
	team := s.AddTeam("T1")
	team.AddUser("U1", "ann", "ann@example.com")
	team.AddChannel("C1", "U1")
	team.Fail(Fault{Method: "chat.postMessage", RetryAfter: 1})
	script, err := filepath.Abs("testdata/drive.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", script, s.APIURL(), team.BotToken, team.AppToken, "C1", "U1", "T1")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	var stdout, stderr safeBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	wait := func(what string, check func() bool) {
		t.Helper()
		testkit.Eventually(t, 90*time.Second, func() error {
			if check() {
				return nil
			}
			return fmt.Errorf("no %s; the clients said: %s", what, stderr.String())
		})
	}

	wait("connection", func() bool { return strings.Contains(stderr.String(), "ready") && team.Connections() == 1 })
	first := team.Say("U1", "C1", "", "<@"+team.BotUser+"> hello")
	wait("answer", func() bool { return len(team.Thread("C1", first)) == 2 })
	second := team.Say("U1", "C1", "", "<@"+team.BotUser+"> unacked")
	wait("answer to the retry", func() bool { return len(team.Thread("C1", second)) == 2 })
	// The client ends the whole process when it cannot send an acknowledgement.
	quiet := func() bool {
		for _, d := range team.Deliveries() {
			if d.Acked == 0 {
				return false
			}
		}
		return true
	}
	wait("acknowledgement of all events", quiet)
	team.Refresh()
	wait("new connection", func() bool { return team.Connections() == 1 })
	third := team.Say("U1", "C1", "", "<@"+team.BotUser+"> after the refresh")
	wait("answer on the new connection", func() bool { return len(team.Thread("C1", third)) == 2 })
	wait("acknowledgement of all events", quiet)
	team.Break()
	wait("connection after a break", func() bool { return team.Connections() == 1 })
	team.Click("U1", "C1", first, "berth_stop", "v")
	wait("click", func() bool {
		for _, d := range team.Deliveries() {
			if d.Kind == "interactive" && d.Acked == 1 {
				return true
			}
		}
		return false
	})
	if _, err := io.WriteString(stdin, "done\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got saw
	if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil {
		t.Fatalf("%v in %q", err, stdout.String())
	}
	check(t, team, got)
}

func check(t *testing.T, team *Team, got saw) {
	t.Helper()
	for what, c := range map[string][2]string{
		"team": {got.Auth.Team_id, "T1"}, "user": {got.Auth.User_id, team.BotUser}, "bot": {got.Auth.Bot_id, team.BotID},
		"texts":             {strings.Join(got.Texts, "|"), "root, edited+berth_reply|reply 0|reply 1|reply 2|reply 3"},
		"a second reaction": {got.Twice, "already_reacted"}, "e-mail": {got.Email, "ann@example.com"},
		"unknown channel": {got.UnknownChannel, "channel_not_found"}, "empty message": {got.Empty, "no_text"},
		"bad token": {got.BadToken, "invalid_auth"}, "unknown method": {got.UnknownMethod, "unknown_method"}, "ephemeral": {got.Ephemeral, "ok"},
		"append after the stop": {got.AfterStop, "message_not_in_streaming_state"}, "stream without a recipient": {got.NoRecipient, "missing_recipient_team_id"},
		"text and chunks": {got.Both, "cannot_provide_both_markdown_text_and_chunks"}, "task without an id": {got.BadChunk, "invalid_chunks"},
		"edit of a stream": {got.EditOfStream, "streaming_state_conflict"}, "second stop": {got.StopTwice, "message_not_in_streaming_state"},
		"download": {got.Download, "content of a"}, "download without a token": {got.DownloadWithout, "<!DOCTYPE html>"},
		"clicks": {strings.Join(got.Clicks, " "), "berth_stop"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %q, want %q", what, c[0], c[1])
		}
	}
	if got.WithoutMetadata {
		t.Error("metadata was shown to a client that did not ask for it")
	}
	if got.Connected < 3 {
		t.Errorf("the client connected %d times, want 3", got.Connected)
	}
	if len(got.Events) != 4 || !strings.HasSuffix(got.Events[2], " 1") {
		t.Errorf("events %q: want four, the third of them a retry", got.Events)
	}
	for _, m := range team.Messages("C1") {
		if m.TS == got.Stream && (m.Text != "**one** two" || m.Streaming || m.Tasks["t1"].Title != "Run ls" || m.Metadata == nil) {
			t.Errorf("the streamed message is %+v", m)
		}
		if m.TS == got.Edited && (m.Text != "edited" || m.Tasks["t"].Status != "complete") {
			t.Errorf("the edited stream is %+v", m)
		}
	}
	if limited := team.Calls("chat.postMessage")[0]; limited.Error != "ratelimited" {
		t.Errorf("the first call ended with %q", limited.Error)
	}
}

// TestRepeatedPostIsThereTwice checks that the server does not hide a repetition from its tests.
func TestRepeatedPostIsThereTwice(t *testing.T) {
	s := New(t)
	team := s.AddTeam("T1")
	team.AddChannel("C1")
	post := func() error {
		res, err := http.PostForm(s.APIURL()+"chat.postMessage", map[string][]string{"token": {team.BotToken}, "channel": {"C1"}, "text": {"x"}})
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	team.Fail(Fault{Method: "chat.postMessage", Lost: true})
	if err := post(); err == nil {
		t.Error("the answer was not lost")
	}
	if err := post(); err != nil {
		t.Error(err)
	}
	if all := team.Messages("C1"); len(all) != 2 {
		t.Errorf("%d messages, want 2", len(all))
	}
}

// TestEventsOverHTTP checks that events are signed, sent again until they are acknowledged, and can be replayed.
func TestEventsOverHTTP(t *testing.T) {
	s := New(t)
	s.Retries = []time.Duration{0, 0, 0}
	team := s.AddTeam("T1")
	team.AddChannel("C1", "U1")
	var mu sync.Mutex
	var seen []string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e struct{ Challenge, Event_id string }
		_ = json.Unmarshal(body, &e)
		if e.Challenge != "" {
			_, _ = io.WriteString(w, e.Challenge)
			return
		}
		want := http.Header{}
		team.Sign(want, body, time.Now())
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, e.Event_id+" "+r.Header.Get("X-Slack-Retry-Num"))
		if len(seen) == 1 || !strings.HasPrefix(r.Header.Get("X-Slack-Signature"), "v0=") {
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(app.Close)
	if err := team.Verify(app.URL); err != nil {
		t.Fatal(err)
	}
	team.SendTo(app.URL, app.URL)
	team.Say("U1", "C1", "", "hi")
	acked := func(n int) func() error {
		return func() error {
			total := 0
			for _, d := range team.Deliveries() {
				total += d.Acked
			}
			if total != n {
				return fmt.Errorf("%d acknowledged, want %d", total, n)
			}
			return nil
		}
	}
	testkit.Eventually(t, time.Minute, acked(1))
	team.Replay(team.Deliveries()[0].EventID)
	testkit.Eventually(t, time.Minute, acked(2))
	mu.Lock()
	defer mu.Unlock()
	if id := team.Deliveries()[0].EventID; strings.Join(seen, ",") != id+" ,"+id+" 1,"+id+" " {
		t.Errorf("the app saw %q", seen)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

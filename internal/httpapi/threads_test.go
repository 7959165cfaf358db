package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

const (
	threadsPath = "/api/v1/threads"
	slackThread = threadsPath + "/C1:17.5"
)

// say sends a message of a thread and waits for its answer.
func (w *talks) say(path, text string) api.Answer {
	w.t.Helper()
	joint := "?"
	if strings.Contains(path, "?") {
		joint = "&"
	}
	return into[api.Answer](w.post(path+joint+"wait=true", promptBody(text)).is(http.StatusOK))
}

// threadsOnBoth runs the test over both databases, with sandboxes that have files.
func threadsOnBoth(t *testing.T, test func(t *testing.T, w *talks)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newTalksWithFiles(t, store.Options{DataDir: t.TempDir()}))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newTalksWithFiles(t, store.Options{DatabaseURL: storetest.Postgres(t)}))
	})
}

func TestThreadOverHTTP(t *testing.T) {
	testkit.Proves(t, "T1", "T5", "T6")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		w.get(slackThread).fails(api.CodeNotFound)
		first := w.say(slackThread+"/messages?channel=C1", "good morning")
		if first.Turn.Status != api.TurnCompleted || first.Text != "good\n\nmorning" || len(first.Content) != 2 {
			t.Errorf("the answer is %+v", first)
		}
		again := w.say(slackThread+"/messages", "and again")
		if again.Turn.SandboxID != first.Turn.SandboxID || again.Turn.ConversationID != first.Turn.ConversationID {
			t.Errorf("the second message went to %+v, the first to %+v", again.Turn, first.Turn)
		}
		other := w.say(slackThread+"/messages?workspace=T2", "hello")
		if other.Turn.SandboxID == first.Turn.SandboxID {
			t.Error("two workspaces share the sandbox of a thread")
		}
		got := into[api.Thread](w.get(slackThread).is(http.StatusOK))
		if got.ThreadID != "C1:17.5" || got.ChannelID != "C1" || got.Status != "active" || got.SandboxID != first.Turn.SandboxID ||
			got.ConversationID != first.Turn.ConversationID || got.Stats.MessagesExchanged != 4 || got.PausedAt != nil {
			t.Errorf("the thread is %+v", got)
		}
		if s := into[api.Sandbox](w.get(sandboxesPath + "/" + got.SandboxID).is(http.StatusOK)); s.Owner.Kind != "thread" || s.Owner.ID != "C1:17.5" {
			t.Errorf("the sandbox belongs to %+v", s.Owner)
		}
		messages := into[api.List[api.Message]](w.get(slackThread + "/messages?order=desc&limit=2").is(http.StatusOK))
		if len(messages.Items) != 2 || messages.Items[1].Text() != "and again" || messages.NextCursor == "" {
			t.Errorf("the newest messages are %+v", messages)
		}
		all := into[api.List[api.Thread]](w.get(threadsPath).is(http.StatusOK)).Items
		ours := into[api.List[api.Thread]](w.get(threadsPath + "?channel=C1").is(http.StatusOK)).Items
		if len(all) != 2 || len(ours) != 1 || ours[0].ConversationID != got.ConversationID || ours[0].Status != "active" {
			t.Errorf("threads are %+v, those of the channel %+v", all, ours)
		}
	})
}

// A stop cancels the turn and the messages that wait, and keeps the files; the next message goes on.
func TestStopOfAThread(t *testing.T) {
	testkit.Proves(t, "T6")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		running := w.prompt(slackThread+"/messages", "begin wait:x")
		running.upTo("begin")
		watched := []turnWatcher{running}
		for range 2 {
			watched = append(watched, w.prompt(slackThread+"/messages", "later"))
		}
		w.do(call{method: http.MethodPost, path: slackThread + "/messages?queue=false", key: w.admin, body: promptBody("now")}).fails(api.CodeTurnRunning)
		got := into[api.Thread](w.post(slackThread+"/stop", "").is(http.StatusOK))
		if got.Status != "paused" || got.PausedAt == nil || got.TurnID != "" {
			t.Errorf("the stopped thread is %+v", got)
		}
		for _, s := range watched {
			if events := s.rest(); events[len(events)-1].Status != api.TurnCancelled {
				t.Errorf("a turn of the stopped thread ends as %+v", events[len(events)-1])
			}
		}
		if again := into[api.Thread](w.post(slackThread+"/stop", "").is(http.StatusOK)); again.Status != "paused" || !again.PausedAt.Equal(*got.PausedAt) {
			t.Errorf("a second stop gives %+v", again)
		}
		w.say(slackThread+"/messages", "back")
		back := into[api.Thread](w.get(slackThread).is(http.StatusOK))
		if back.Status != "active" || back.ResumedAt == nil || !back.ResumedAt.After(*back.PausedAt) || back.SandboxID != got.SandboxID {
			t.Errorf("after the next message the thread is %+v", back)
		}
	})
}

// A thread that was deleted begins anew, in another sandbox, once the old one is gone.
func TestDeletedThreadBeginsAnew(t *testing.T) {
	testkit.Proves(t, "T1", "X6")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		seen := map[string]bool{}
		for range 3 {
			a := w.say(slackThread+"/messages", "hello")
			if seen[a.Turn.ConversationID] || seen[a.Turn.SandboxID] {
				t.Errorf("a deleted thread goes on: %+v", a.Turn)
			}
			seen[a.Turn.ConversationID], seen[a.Turn.SandboxID] = true, true
			if n := len(into[api.List[api.Message]](w.get(slackThread + "/messages").is(http.StatusOK)).Items); n != 2 {
				t.Errorf("the new thread has %d messages", n)
			}
			w.remove(slackThread).is(http.StatusNoContent)
			w.get(slackThread).fails(api.CodeNotFound)
			w.remove(slackThread).fails(api.CodeNotFound)
		}
	})
}

// A sandbox that the delete of a thread keeps is that of the thread that begins anew.
func TestDeletedThreadLeavesItsSandbox(t *testing.T) {
	testkit.Proves(t, "T1")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		first := w.say(slackThread+"/messages?workspace=T1", "hello")
		w.remove(slackThread + "?workspace=T1&terminate_sandbox=false").is(http.StatusNoContent)
		second := w.say(slackThread+"/messages?workspace=T1", "hello again")
		if second.Turn.SandboxID != first.Turn.SandboxID || second.Turn.ConversationID == first.Turn.ConversationID {
			t.Errorf("first %+v, then %+v", first.Turn, second.Turn)
		}
		w.remove(slackThread + "?workspace=T1").is(http.StatusNoContent)
		testkit.Eventually(t, time.Minute, func() error {
			if a := w.get(sandboxesPath + "/" + first.Turn.SandboxID); a.status != http.StatusGone {
				return fmt.Errorf("the sandbox of the deleted thread: %d %s", a.status, a.body)
			}
			return nil
		})
		if third := w.say(slackThread+"/messages?workspace=T1", "anew"); third.Turn.SandboxID == first.Turn.SandboxID {
			t.Error("the deleted sandbox goes on")
		}
	})
}

// A conversation that works in the sandbox of a thread keeps it when the thread is deleted, and ends it when it goes last.
func TestLastUserOfAThreadsSandbox(t *testing.T) {
	testkit.Proves(t, "T1")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		box := w.say(slackThread+"/messages?workspace=T1", "hello").Turn.SandboxID
		path, _ := w.new(`{"sandbox_id":"` + box + `"}`)
		w.remove(slackThread + "?workspace=T1").is(http.StatusNoContent)
		w.get(sandboxesPath + "/" + box).is(http.StatusOK)
		w.remove(path).is(http.StatusNoContent)
		testkit.Eventually(t, time.Minute, func() error {
			if a := w.get(sandboxesPath + "/" + box); a.status != http.StatusGone {
				return fmt.Errorf("the sandbox without users: %d %s", a.status, a.body)
			}
			return nil
		})
	})
}

// While the sandbox of a deleted thread is still to be deleted, the thread does not begin anew in it.
func TestThreadWaitsForTheDeleteBeforeIt(t *testing.T) {
	testkit.Proves(t, "T1", "X6")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		first := w.say(slackThread+"/messages", "hello").Turn
		end := store.Message{Kind: "end_sandbox", Ref: first.ConversationID, Payload: []byte(`{"Sandbox":"` + first.SandboxID + `"}`)}
		if _, err := w.db.In("acme").DeleteConversation(t.Context(), first.ConversationID, end); err != nil { // as by a server that dies then
			t.Fatal(err)
		}
		w.post(slackThread+"/messages", promptBody("hello")).fails(api.CodeDeleting)
		if err := w.outbox.Flush(t.Context(), first.ConversationID); err != nil {
			t.Fatal(err)
		}
		if second := w.say(slackThread+"/messages", "hello").Turn; second.SandboxID == first.SandboxID {
			t.Error("the thread goes on in the sandbox of the deleted one")
		}
	})
}

// However many first messages of a thread come at once, it has one conversation and one sandbox, and all are answered.
func TestFirstMessagesOfAThread(t *testing.T) {
	testkit.Proves(t, "T1")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		answers := make([]answer, 3) // one runs and two wait, which is the limit here
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				answers[i], _ = w.send(t.Context(), call{method: http.MethodPost, path: slackThread + "/messages?wait=true", key: w.admin, body: promptBody(fmt.Sprintf("number %d", i))})
			})
		}
		all.Wait()
		first := into[api.Answer](answers[0].is(http.StatusOK))
		for i, a := range answers {
			got := into[api.Answer](a.is(http.StatusOK))
			if got.Text != fmt.Sprintf("number\n\n%d", i) || got.Turn.ConversationID != first.Turn.ConversationID || got.Turn.SandboxID != first.Turn.SandboxID {
				t.Errorf("message %d was answered with %+v", i, got)
			}
		}
		if boxes := into[api.List[api.Sandbox]](w.get(sandboxesPath).is(http.StatusOK)).Items; len(boxes) != 1 {
			t.Errorf("there are %d sandboxes", len(boxes))
		}
	})
}

// What a turn changes below output/display is its artifacts, also if it fails, and nothing else is.
func TestArtifacts(t *testing.T) {
	testkit.Proves(t, "T5")
	threadsOnBoth(t, func(t *testing.T, w *talks) {
		paths := func(artifacts []api.Artifact) string {
			var all []string
			for _, a := range artifacts {
				all = append(all, strings.TrimPrefix(a.Path, chat.DisplayDir+"/"))
			}
			return strings.Join(all, " ")
		}
		gate, turns := 0, []string{}
		turn := func(end string, change func(box string)) api.TurnEvent {
			t.Helper()
			gate++
			s := w.prompt(slackThread+"/messages", fmt.Sprintf("begin wait:%d %s", gate, end))
			s.upTo("begin")
			turns = append(turns, s.turn())
			change(sandboxesPath + "/" + s.res.Header.Get(api.HeaderSandboxID) + "/files/")
			w.agents.open(fmt.Sprint(gate))
			events := s.rest()
			return events[len(events)-1].TurnEvent
		}
		put := func(path, content string) {
			t.Helper()
			if a := w.do(call{method: http.MethodPut, path: path, key: w.admin, body: content, header: map[string]string{"Content-Type": "application/octet-stream"}}); a.status/100 != 2 {
				t.Fatalf("put %s: %d %s", path, a.status, a.body)
			}
		}
		if end := turn("done", func(string) {}); end.Artifacts != nil {
			t.Errorf("a turn that showed nothing has %+v", end.Artifacts)
		}
		end := turn("done", func(box string) {
			put(box+"output/display/a%20b.csv", "a;b")
			put(box+"output/display/deep/er/pic.png", "\x89PNG\r\n\x1a\n…")
			put(box+"output/other.txt", "not shown")
		})
		if got := paths(end.Artifacts); got != "a b.csv deep/er/pic.png" || end.Status != api.TurnCompleted {
			t.Fatalf("the turn shows %q and ends %s", got, end.Status)
		}
		a, pic := end.Artifacts[0], end.Artifacts[1]
		if a.Name != "a b.csv" || a.Size != 3 || len(a.SHA256) != 64 || !strings.HasPrefix(a.MediaType, "text/") || pic.MediaType != "image/png" {
			t.Errorf("the artifacts are %+v", end.Artifacts)
		}
		if got := w.get(a.URL).is(http.StatusOK); string(got.body) != "a;b" {
			t.Errorf("its URL gives %q", got.body)
		}
		end = turn("fail", func(box string) {
			put(box+"output/display/a%20b.csv", "a;b") // written again, with the same content
			put(box+"output/display/new.txt", "late")
		})
		if got := paths(end.Artifacts); got != "new.txt" || end.Status != api.TurnFailed {
			t.Errorf("the failed turn shows %q and ends %s", got, end.Status)
		}
		end = turn("done", func(box string) { put(box+"output/display/a%20b.csv", "a;c") })
		if got := paths(end.Artifacts); got != "a b.csv" {
			t.Errorf("after a change the turn shows %q", got)
		}
		listed := into[api.List[api.TurnArtifact]](w.get(slackThread + "/artifacts?limit=2").is(http.StatusOK))
		if len(listed.Items) != 2 || listed.Items[0].TurnID != turns[3] || listed.Items[1].Name != "new.txt" || listed.NextCursor == "" {
			t.Errorf("the newest artifacts are %+v of turns %v", listed, turns)
		}
		rest := into[api.List[api.TurnArtifact]](w.get(slackThread + "/artifacts?cursor=" + listed.NextCursor).is(http.StatusOK))
		if len(rest.Items) != 2 || rest.Items[0].TurnID != turns[1] || rest.NextCursor != "" {
			t.Errorf("the other artifacts are %+v", rest)
		}
	})
}

func TestThreadsRefuseBadInput(t *testing.T) {
	testkit.Proves(t, "T1", "T10")
	w := newTalks(t)
	for _, key := range []string{strings.Repeat("k", 191), "a%2Fb", "a%00b", "a%0Ab", "%FF"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if got := w.do(call{method: method, path: threadsPath + "/" + key, key: w.admin}); got.status/100 != 4 {
				t.Errorf("%s of the key %q: %d %s", method, key, got.status, got.body)
			}
		}
		if got := w.post(threadsPath+"/"+key+"/messages", promptBody("hello")); got.status/100 != 4 {
			t.Errorf("a message to the key %q: %d %s", key, got.status, got.body)
		}
	}
	w.post(slackThread+"/messages?workspace="+url.QueryEscape("a/b"), promptBody("hello")).fails(api.CodeInvalidID)
	w.post(slackThread+"/messages?queue=perhaps", promptBody("hello")).fails(api.CodeInvalidRequest)
	w.post(slackThread+"/messages?chanel=C1", promptBody("hello")).fails(api.CodeInvalidRequest)
	w.post(slackThread+"/messages", `{"prompt":"hello","template":"no-such"}`).fails(api.CodeUnknownTemplate)
	w.post(slackThread+"/messages", `{"prompt":""}`).fails(api.CodeInvalidRequest)
	w.get(slackThread).fails(api.CodeNotFound) // a refused message creates nothing
	w.do(call{method: http.MethodPost, path: slackThread + "/messages", key: w.read, body: promptBody("hello")}).fails(api.CodeForbidden)
	ann, bob := w.member("ann"), w.member("bob")
	ann.do(http.MethodPost, slackThread+"/messages?wait=true", promptBody("hello")).is(http.StatusOK)
	bob.do(http.MethodGet, slackThread, "").fails(api.CodeNotFound)
	bob.do(http.MethodPost, slackThread+"/messages", promptBody("hello")).fails(api.CodeNotFound)
	bob.do(http.MethodPost, slackThread+"/stop", "").fails(api.CodeNotFound)
	foreign := w.newKey("rival", api.ScopeAdmin)
	w.do(call{path: slackThread, key: foreign}).fails(api.CodeNotFound)
}

func TestThreadsCanBeSwitchedOff(t *testing.T) {
	testkit.Proves(t, "T10")
	w := newTalks(t, func(o *Options) { o.ThreadsOff = true })
	w.get(threadsPath).fails(api.CodeRuntimeDisabled)
	w.get(slackThread).fails(api.CodeRuntimeDisabled)
	w.get(slackThread + "/messages").fails(api.CodeRuntimeDisabled)
	w.get(slackThread + "/artifacts").fails(api.CodeRuntimeDisabled)
	w.post(slackThread+"/messages", promptBody("hello")).fails(api.CodeRuntimeDisabled)
	w.post(slackThread+"/stop", "").fails(api.CodeRuntimeDisabled)
	w.remove(slackThread).fails(api.CodeRuntimeDisabled)
	path, _ := w.new("")
	w.say(path+"/messages", "hello") // conversations work
}

// Attachments may be given by their URL; only public servers are asked, and redirects are not followed.
func TestAttachmentsByURL(t *testing.T) {
	testkit.Proves(t, "T5")
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/notes.csv":
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			_, _ = w.Write([]byte("a;b"))
		case "/moved":
			http.Redirect(w, r, "/notes.csv", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 11<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	defer files.Close()
	public := "http://files.example.com"
	w := &talks{agents: &scripted{gates: map[string]chan struct{}{}, cancelled: map[string]chan struct{}{}}}
	w.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "files.example.com:80" {
			return nil, fmt.Errorf("%s is no public server", address)
		}
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(files.URL, "http://"))
	}
	w.on(newSiteOn(t, store.Options{DataDir: t.TempDir()}, t.TempDir(), func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver { return &fake.Filed{Driver: f} })
	}, w.talk))
	c, err := berth.New(w.server.URL, w.admin)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Threads("T1").Prompt(t.Context(), "C1:17.5", api.Prompt{Prompt: "look", Attachments: []api.PromptFile{{Name: "notes.csv", URL: public + "/notes.csv"}}}, berth.InChannel("C1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
	}
	thread, err := c.Threads("T1").Get(t.Context(), "C1:17.5")
	if err != nil || thread.ChannelID != "C1" || thread.ConversationID != stream.ConversationID {
		t.Errorf("the thread is %+v (%v), the stream's conversation %s", thread, err, stream.ConversationID)
	}
	var sent []api.Attachment
	for m, err := range c.Threads("T1").Messages(t.Context(), "C1:17.5") {
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, m.Attachments...)
	}
	if len(sent) != 1 || sent[0].MediaType != "text/csv" || sent[0].Size != 3 {
		t.Fatalf("the attachments are %+v", sent)
	}
	if got := w.get(sandboxesPath + "/" + thread.SandboxID + "/files/" + sent[0].Path).is(http.StatusOK); string(got.body) != "a;b" {
		t.Errorf("the file in the sandbox is %q", got.body)
	}
	one := func(file string) string { return `{"prompt":"look","attachments":[` + file + `]}` }
	for file, code := range map[string]api.Code{
		`{"name":"x","url":"` + public + `/moved"}`:                           api.CodeAttachmentFetch,
		`{"name":"x","url":"` + public + `/none"}`:                            api.CodeAttachmentFetch,
		`{"name":"x","url":"http://private.example.com/x"}`:                   api.CodeAttachmentFetch,
		`{"name":"x","url":"` + public + `/large"}`:                           api.CodeLargeAttachment,
		`{"name":"x","url":"file:///etc/passwd"}`:                             api.CodeInvalidRequest,
		`{"name":"x","url":"http://user:secret@files.example.com/notes.csv"}`: api.CodeInvalidRequest,
		`{"name":"x","url":"` + public + `/notes.csv","data":"aGVsbG8="}`:     api.CodeInvalidRequest,
		`{"name":"x","url":"http:///notes.csv"}`:                              api.CodeInvalidRequest,
	} {
		if p := w.post(slackThread+"/messages", one(file)).fails(code); strings.Contains(p.Detail, "secret") {
			t.Errorf("the problem of %s shows a secret: %s", file, p.Detail)
		}
	}
	w.get(slackThread).fails(api.CodeNotFound)
}

// Without other settings, the server fetches nothing from its own machine.
func TestAttachmentsComeFromPublicAddresses(t *testing.T) {
	testkit.Proves(t, "T5")
	asked := false
	own := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer own.Close()
	w := newTalks(t)
	w.post(slackThread+"/messages", `{"prompt":"look","attachments":[{"name":"x","url":"`+own.URL+`/x"}]}`).fails(api.CodeAttachmentFetch)
	if asked {
		t.Error("the server fetched an attachment from its own machine")
	}
}

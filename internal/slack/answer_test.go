package slack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/slacktest"
)

// one returns the app's only message in a thread.
func (w *world) one(channel, thread string) slacktest.Message {
	w.Helper()
	all := w.ours(channel, thread)
	if len(all) != 1 {
		w.Fatalf("%d messages of the app, want 1: %s", len(all), w.show(channel, thread))
	}
	return all[0]
}

func TestMention(t *testing.T) {
	testkit.Proves(t, "T7")
	w, _ := served(t)
	ts := w.mention("hello &amp; goodbye")
	w.settled("C1", ts, "white_check_mark")
	m := w.one("C1", ts)
	if !strings.Contains(m.Text, "answer to: hello &amp; goodbye") || !strings.Contains(string(m.Blocks), "1 step · 15 tokens") || !strings.Contains(string(m.Blocks), "berth_usage") {
		t.Errorf("the answer is %q with the blocks %s", m.Text, m.Blocks)
	}
	p := w.turns.prompts()
	if len(p) != 1 || p[0].Text != "hello & goodbye" || p[0].Thread.Key != "C1:"+ts || p[0].User.Email != "ann@example.com" || p[0].User.ID != "U1" {
		t.Errorf("the prompts are %+v", p)
	}
}

// TestThreads checks which messages are answered, and which sandbox they get.
func TestThreads(t *testing.T) {
	w, _ := served(t)
	w.team.Say("U1", "C1", "", "not for the app")
	root := w.team.Say("U2", "C1", "", "a thread of people")
	w.team.Say("U1", "C1", root, "still not")
	called := w.team.Say("U1", "C1", root, "now <@"+w.team.BotUser+"> help")
	w.settled("C1", called, "white_check_mark")
	after := w.team.Say("U2", "C1", root, "and this")
	w.settled("C1", after, "white_check_mark")
	w.team.Say("U2", "C1", root, "<@U1> what do you think?")
	direct := w.team.Say("U1", w.team.DM("U1"), "", "hi there")
	w.settled(w.team.DM("U1"), direct, "white_check_mark")
	again := w.team.Say("U1", w.team.DM("U1"), "", "hi again")
	w.settled(w.team.DM("U1"), again, "white_check_mark")
	help := w.mention("")
	w.settled("C1", help, "white_check_mark")
	var got []string
	for _, p := range w.turns.prompts() {
		got = append(got, p.Thread.Key+" "+p.Text)
	}
	want := []string{"C1:" + root + " now  help", "C1:" + root + " and this", "dm:U1 hi there", "dm:U1 hi again"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the prompts are %q, want %q", got, want)
	}
	if m := w.one("C1", help); !strings.Contains(m.Text, "Write me what to do") {
		t.Errorf("a mention without a text got %q", m.Text)
	}
}

// taken waits until there are n turns.
func (w *world) taken(n int) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		if got := len(w.turns.prompts()); got != n {
			return fmt.Errorf("%d prompts, want %d", got, n)
		}
		return nil
	})
}

func TestQueueIsSaid(t *testing.T) {
	w, _ := served(t)
	first := w.mention("slow slow one")
	w.taken(1)
	second := w.team.Say("U2", "C1", first, "second")
	third := w.team.Say("U1", "C1", first, "third")
	testkit.Eventually(t, patience, func() error {
		n := 0
		for _, c := range w.team.Calls("chat.postMessage") {
			if strings.Contains(c.Args["text"], "Queued") {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d messages say that they wait", n)
		}
		return nil
	})
	for _, ts := range []string{first, second, third} {
		w.settled("C1", ts, "white_check_mark")
	}
	var texts []string
	for _, m := range w.ours("C1", first) {
		texts = append(texts, m.Text)
	}
	if got := strings.Join(texts, "|"); got != "answer to: slow slow one|answer to: second|answer to: third" {
		t.Errorf("the answers are %q", got)
	}
}

// TestLiveEdits checks the progress where Slack refuses streams. It is asked once.
func TestLiveEdits(t *testing.T) {
	w, _ := served(t)
	w.team.RefuseStreams(true)
	w.settled("C1", w.mention("hello"), "white_check_mark")
	ts := w.mention("slow")
	testkit.Eventually(t, patience, func() error {
		for _, c := range w.team.Calls("chat.update") {
			if strings.Contains(c.Args["text"], "half of") && strings.Contains(c.Args["blocks"], "berth_stop") {
				return nil
			}
		}
		return fmt.Errorf("no progress is shown")
	})
	w.settled("C1", ts, "white_check_mark")
	edits := w.one("C1", ts).Edits
	for i := 2; i < len(edits); i++ { // the last one follows at once
		if gap := edits[i-1].Sub(edits[i-2]); gap < 900*time.Millisecond {
			t.Errorf("two edits are %v apart", gap)
		}
	}
	if n := len(w.team.Messages("C1")); n != 4 {
		t.Errorf("%d messages, want two and their answers", n)
	}
}

// streamed waits until a text is in a stream.
func (w *world) streamed(text string) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		for _, c := range w.team.Calls("chat.appendStream") {
			if c.Error == "" && strings.Contains(c.Args["chunks"], text) {
				return nil
			}
		}
		return fmt.Errorf("%q is not streamed", text)
	})
}

// TestStream checks that an answer is written as a stream, with its tools as tasks, and is complete at its end.
func TestStream(t *testing.T) {
	testkit.Proves(t, "T7")
	w, _ := served(t)
	ts := w.mention("slow")
	w.streamed("half of ")
	m := w.one("C1", ts)
	if !m.Streaming || m.Text != "half of " || m.Tasks["1"] != (slacktest.Task{Title: "bash ls -l", Status: "complete"}) || m.Tasks["0"].Status != "complete" || !strings.Contains(string(m.Blocks), "berth_stop") {
		t.Errorf("the stream is %+v", m)
	}
	w.settled("C1", ts, "white_check_mark")
	if m := w.one("C1", ts); m.Streaming || m.Text != "answer to: slow" || !strings.Contains(string(m.Blocks), "berth_usage") {
		t.Errorf("the answer is %+v", m)
	}
	calls := w.team.Calls("chat.appendStream")
	for i := 1; i < len(calls); i++ {
		if gap := calls[i].At.Sub(calls[i-1].At); gap < 900*time.Millisecond {
			t.Errorf("two appends are %v apart", gap)
		}
	}
	if n := len(w.team.Calls("chat.update")); n != 1 {
		t.Errorf("%d edits, want the last one alone", n)
	}
	direct := w.team.Say("U1", w.team.DM("U1"), "", "slow hostile")
	w.settled(w.team.DM("U1"), direct, "white_check_mark")
	if n := len(w.team.Calls("chat.startStream")); n != 2 {
		t.Errorf("%d streams, want 2", n)
	}
}

// TestStreamEnds checks that an answer whose stream ended early goes on as edits.
func TestStreamEnds(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"expired":      func(w *world) { w.team.ExpireStreams() },
		"lost append":  func(w *world) { w.team.Fail(slacktest.Fault{Method: "chat.appendStream", Lost: true}) },
		"no streams":   func(w *world) { w.team.RefuseStreams(true) },
		"limited":      func(w *world) { w.team.Fail(slacktest.Fault{Method: "chat.appendStream", RetryAfter: 1}) },
		"lost stop":    func(w *world) { w.team.Fail(slacktest.Fault{Method: "chat.stopStream", Lost: true}) },
		"limited stop": func(w *world) { w.team.Fail(slacktest.Fault{Method: "chat.stopStream", RetryAfter: 1}) },
		"removed":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := served(t)
			ts := w.mention("slow")
			w.streamed("bash ls -l")
			if fault != nil {
				fault(w)
			} else {
				w.team.Delete("C1", w.one("C1", ts).TS)
			}
			if name == "no streams" {
				w.team.ExpireStreams() // or it could never be edited
			}
			w.settled("C1", ts, "white_check_mark")
			if m := w.one("C1", ts); m.Streaming || m.Text != "answer to: slow" {
				t.Errorf("the answer is %+v", m)
			}
		})
	}
}

func TestStop(t *testing.T) {
	for _, by := range []string{"message", "button"} {
		t.Run(by, func(t *testing.T) {
			w, _ := served(t)
			ts := w.mention("very slow")
			w.taken(1)
			waiting := w.team.Say("U1", "C1", ts, "never answered")
			if by == "message" {
				stop := w.team.Say("U2", "C1", ts, "Stop!")
				w.settled("C1", stop, "white_check_mark")
			} else {
				w.team.Click("U2", "C1", w.ours("C1", ts)[0].TS, "berth_stop", w.turns.prompts()[0].Turn)
			}
			w.settled("C1", ts, "x")
			testkit.Eventually(t, patience, func() error {
				all := w.ours("C1", ts)
				if len(all) != 2 || !strings.Contains(all[0].Text, "Stopped") || !strings.Contains(all[1].Text, "files are kept") {
					return fmt.Errorf("%s", w.show("C1", ts))
				}
				return nil
			})
			if got := w.turns.prompts(); len(got) != 1 || len(w.turns.stopped) != 1 || w.turns.stopped[0] != "C1:"+ts {
				t.Errorf("%d prompts; stopped %q", len(got), w.turns.stopped)
			}
			for _, m := range w.team.Messages("C1") {
				if m.TS == waiting && len(m.Reactions) > 0 {
					t.Errorf("the message that is not answered has %v", m.Reactions)
				}
			}
		})
	}
}

func TestFilesBothWays(t *testing.T) {
	w, _ := served(t)
	small := w.team.AddFile("notes.txt", "text/plain", []byte("the notes"))
	large := w.team.AddFile("film.mp4", "video/mp4", make([]byte, 2<<20))
	ts := w.mention("artifact please", small, large)
	w.settled("C1", ts, "white_check_mark")
	p := w.turns.prompts()[0]
	if len(p.Files) != 1 || p.Files[0].Name != "notes.txt" || string(p.Files[0].Data) != "the notes" || !strings.Contains(p.Text, "film.mp4 (larger than 1 MiB)") {
		t.Errorf("the agent got %+v", p)
	}
	all := w.ours("C1", ts)
	if len(all) != 3 || len(all[1].Files) != 1 || len(all[2].Files) != 1 || !strings.Contains(all[0].Text, "film.mp4 (larger than 1 MiB)") {
		t.Fatal(w.show("C1", ts))
	}
	f := w.team.Files()[all[1].Files[0]]
	if f.Name != "0.txt" || string(f.Content) != "content of output/display/0.txt" {
		t.Errorf("uploaded %+v", f)
	}
}

// TestFaultsOfSlack checks that a lost answer, a refusal for a time and an error of Slack change nothing in the result.
func TestFaultsOfSlack(t *testing.T) {
	for name, f := range map[string]slacktest.Fault{
		"lost stream": {Method: "chat.startStream", Lost: true}, "limited stream": {Method: "chat.startStream", RetryAfter: 1}, "broken stream": {Method: "chat.startStream", Status: 503, Times: 2},
		"refused stream": {Method: "chat.startStream", Error: "channel_type_not_supported"}, "error of stream": {Method: "chat.startStream", Error: "internal_error"},
		"lost post": {Method: "chat.postMessage", Lost: true}, "lost edit": {Method: "chat.update", Lost: true}, "lost upload": {Method: "files.completeUploadExternal", Lost: true},
		"limited post": {Method: "chat.postMessage", RetryAfter: 1}, "limited edits": {Method: "chat.update", RetryAfter: 1, Times: 3},
		"limited reactions": {Method: "reactions.add", RetryAfter: 1}, "limited upload": {Method: "files.completeUploadExternal", RetryAfter: 1},
		"broken post": {Method: "chat.postMessage", Status: 503, Times: 2}, "error of upload": {Method: "files.completeUploadExternal", Error: "internal_error"},
		"lost upload address": {Method: "files.getUploadURLExternal", Lost: true}, "broken list": {Method: "conversations.replies", Status: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := served(t)
			w.team.RefuseStreams(!strings.HasSuffix(name, "stream"))
			w.team.Fail(f)
			if name == "broken list" {
				w.team.Fail(slacktest.Fault{Method: "chat.postMessage", Lost: true})
			}
			ts := w.mention("slow artifact")
			w.settled("C1", ts, "white_check_mark")
			if all := w.ours("C1", ts); len(all) != 3 || !strings.Contains(all[0].Text, "answer to: slow artifact") {
				t.Errorf("%d messages: %s", len(all), w.show("C1", ts))
			}
		})
	}
}

func TestFailuresAreSaid(t *testing.T) {
	w, _ := served(t)
	ts := w.mention("fail")
	w.settled("C1", ts, "x")
	if text := string(w.one("C1", ts).Blocks); !strings.Contains(text, "This failed") || !strings.Contains(text, "&lt;refuses&gt; the key") && !strings.Contains(text, `\u0026lt;refuses`) || !strings.Contains(text, "model_key_missing") {
		t.Errorf("the failure is said with %s", text)
	}
	w.turns.mu.Lock()
	w.turns.refuse = fault.Errorf("post", api.CodeQuotaExceeded, "there are too many turns")
	w.turns.mu.Unlock()
	ts = w.mention("refused")
	w.settled("C1", ts, "x")
	if text := w.one("C1", ts).Text; !strings.Contains(text, "I could not begin") || !strings.Contains(text, "too many turns") {
		t.Errorf("the refusal is said with %q", text)
	}
}

func TestLongAndHostileAnswers(t *testing.T) {
	w, _ := served(t)
	ts := w.mention("long")
	w.settled("C1", ts, "white_check_mark")
	all := w.ours("C1", ts)
	if len(all) < 3 {
		t.Fatalf("%d messages", len(all))
	}
	var text strings.Builder
	for _, m := range all {
		text.Write(m.Blocks)
	}
	if n := strings.Count(text.String(), "A paragraph of many words."); n != 1_500 {
		t.Errorf("%d of 1,500 paragraphs are there", n)
	}
	if strings.Count(text.String(), "berth_usage") != 1 {
		t.Error("the buttons are not under the last message alone")
	}
	ts = w.mention("hostile")
	w.settled("C1", ts, "white_check_mark")
	if b := string(w.one("C1", ts).Blocks); strings.Contains(b, "<!") || strings.Contains(b, `\u003c!`) || !strings.Contains(b, "*bold*") {
		t.Errorf("the answer is %s", b)
	}
}

// TestEditedAndDeleted checks that a message that waits can be changed and taken back.
func TestEditedAndDeleted(t *testing.T) {
	w, _ := served(t)
	first := w.mention("very slow")
	w.taken(1)
	second := w.team.Say("U1", "C1", first, "old text")
	third := w.team.Say("U1", "C1", first, "taken back")
	testkit.Eventually(t, patience, func() error {
		if n := len(w.ours("C1", first)); n != 3 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	w.team.Edit("C1", second, "new text")
	w.team.Delete("C1", third)
	quiet(w)
	w.team.Delete("C1", first) // a running turn ends
	w.settled("C1", second, "white_check_mark")
	last := w.team.Say("U1", "C1", first, "last")
	w.settled("C1", last, "white_check_mark")
	var got []string
	for _, p := range w.turns.prompts() {
		got = append(got, p.Text)
	}
	if strings.Join(got, "|") != "very slow|new text|last" {
		t.Errorf("the prompts are %q", got)
	}
}

// quiet waits until Slack has sent all events.
func quiet(w *world) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		for _, d := range w.team.Deliveries() {
			if d.Acked == 0 {
				return fmt.Errorf("event %s is not acknowledged", d.EventID)
			}
		}
		return nil
	})
}

func TestButtons(t *testing.T) {
	w, _ := served(t)
	ts := w.mention("hello")
	w.settled("C1", ts, "white_check_mark")
	at := w.one("C1", ts).TS
	reply := w.turns.prompts()[0].Turn
	for action, want := range map[string]string{"berth_preview": "http://3000-box", "berth_files": "output/display/a.txt", "berth_usage": "10 tokens in"} {
		w.team.Click("U2", "C1", at, action, reply)
		testkit.Eventually(t, patience, func() error {
			for _, m := range w.team.Ephemeral() {
				if strings.Contains(m.Text, want) && m.User == "U2" && m.ThreadTS == ts {
					return nil
				}
			}
			return fmt.Errorf("%s is not answered", action)
		})
	}
	w.team.Click("U2", "C1", at, "berth_stop", "11111111-1111-1111-1111-111111111111") // forged
	quiet(w)
}

// TestPlacesThatGoAway checks that an answer without a place is given up, and that others go on.
func TestPlacesThatGoAway(t *testing.T) {
	w, r := served(t)
	w.team.AddChannel("C2", "U1")
	ts := w.team.Say("U1", "C2", "", "<@"+w.team.BotUser+"> very slow")
	w.taken(1)
	w.team.RemoveBot("C2")
	testkit.Eventually(t, patience, func() error {
		w.turns.mu.Lock()
		defer w.turns.mu.Unlock()
		for _, turn := range w.turns.all {
			if turn.cancelled {
				return nil
			}
		}
		return fmt.Errorf("the turn of %s goes on", ts)
	})
	other := w.mention("hello")
	w.settled("C1", other, "white_check_mark")
	w.team.Uninstall()
	testkit.Eventually(t, patience, func() error {
		list, err := r.List(t.Context(), tenant)
		if err == nil && (len(list) != 1 || list[0].Failure == "") {
			err = fmt.Errorf("the workspaces are %+v", list)
		}
		return err
	})
	testkit.Eventually(t, patience, func() error {
		if n := w.team.Connections(); n != 0 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
}

// TestLeftChannel checks that the turns of a channel end when the app leaves it, and that it may come back.
func TestLeftChannel(t *testing.T) {
	w, _ := served(t)
	ts := w.mention("very slow")
	w.taken(1)
	waiting := w.team.Say("U1", "C1", ts, "never answered")
	quiet(w)
	w.team.Event(map[string]any{"type": "channel_left", "channel": "C1", "actor_id": "U1", "event_ts": waiting + "5"})
	w.settled("C1", ts, "x")
	after := w.mention("hello again")
	w.settled("C1", after, "white_check_mark")
	if got := w.turns.prompts(); len(got) != 2 {
		t.Errorf("the prompts are %+v", got)
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

const toolsAnswer = "One.\n\nTwo words.\n"

const toolsAside = `· trying once more: it was busy
⏺ bash: ls -la …
⏺ task: {"n":1}
  ⏺ grep
  ⎿ bash: a
    b
    c
    … 2 more lines
  ⎿ task: (no output)
berth: warning: a hook failed
↑ 1,234 in · 56 out · cache 7,890 · $0.0123 · 3.2s · version ` + talkVersion + "\n"

// TestChatInAPipe: the answer alone is on stdout, and what the agent did on stderr.
func TestChatInAPipe(t *testing.T) {
	f, k := newTalking(t)
	r := newShell(t, f).berth("chat", "--model", "m1", "tools", "please")
	if r.code != 0 || r.out != toolsAnswer || r.err != toolsAside {
		t.Errorf("exit %d\nstdout %q\nstderr\n%s", r.code, r.out, r.err)
	}
	if fmt.Sprint(k.asked) != "[tools please m1]" || k.convs[0].Title != "tools please" {
		t.Errorf("asked %q of %+v", k.asked, k.convs)
	}
	r = newShell(t, f).berth("chat", "--continue", "again")
	if r.code != 0 || r.out != "You said: again\n" || len(k.convs) != 1 {
		t.Errorf("%+v, %d conversations", r, len(k.convs))
	}
	if r = newShell(t, f).berth("chat", "-c", "c1", "once more"); r.code != 0 || r.out != "You said: once more\n" || len(k.convs) != 1 {
		t.Errorf("%+v, %d conversations", r, len(k.convs))
	}
}

// The files of --file go with the prompt, at a terminal with the first one. What cannot be attached is refused before
// anything is sent.
func TestChatSendsFiles(t *testing.T) {
	f, k := newTalking(t)
	dir := t.TempDir()
	for name, data := range map[string]string{"größe 1.png": "\x89PNG", "b.txt": "", "..c": "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return "--file=" + filepath.Join(dir, name) }
	if r := newShell(t, f).berth("chat", at("größe 1.png"), "look", at("b.txt"), at("..c"), at("b.txt")); r.code != 0 || r.out != "You said: look\n" {
		t.Errorf("%+v", r)
	}
	want := []api.PromptFile{{Name: "größe 1.png", Data: []byte("\x89PNG")}, {Name: "b.txt", Data: []byte{}}, {Name: "..c", Data: []byte("c")}, {Name: "b.txt", Data: []byte{}}}
	if diff := cmp.Diff([][]api.PromptFile{want}, k.sent); diff != "" {
		t.Errorf("sent %s", diff)
	}
	for args, says := range map[string]string{
		at("none"): "there is no file", "--file=" + dir: "is a folder, and only files can be attached", at("pipe"): "is not a regular file", "--file=": "there is no file",
	} {
		if r := newShell(t, f).berth("chat", args, "look"); r.code != 125 || !strings.Contains(r.err, says) || len(k.sent) != 1 {
			t.Errorf("%s: %+v; %d prompts", args, r, len(k.sent))
		}
	}
	m := newTerminal(t)
	if r := sit(t, f, m, func() {
		m.Wait("Ctrl-D leaves.")
		m.Type("first\r")
		m.Wait("You said: first\n")
		m.Wait("version …a1b2c3")
		m.Type("second\r")
		m.Wait("You said: second\n")
		m.Type("\x04")
	}, "chat", at("b.txt")); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	if n := len(k.sent); n != 3 || len(k.sent[1]) != 1 || k.sent[2] != nil {
		t.Errorf("sent %+v", k.sent)
	}
}

func TestChatAsJSONIsTheEvents(t *testing.T) {
	f, _ := newTalking(t)
	r := newShell(t, f).berth("chat", "--json", "hostile")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 0 || r.err != "" || strings.ContainsAny(r.out, "\x1b\u202e") {
		t.Errorf("%+v", r)
	}
	first, last := decode[api.TurnEvent](t, lines[0]), decode[api.TurnEvent](t, lines[len(lines)-1])
	if first.Type != api.EventTurnStarted || last.Type != api.EventTurnFinished || last.Usage.InputTokens != 1234 {
		t.Errorf("%+v … %+v", first, last)
	}
}

func TestChatEndsAsItsTurnDoes(t *testing.T) {
	f, k := newTalking(t)
	s := newShell(t, f)
	if r := s.berth("chat", "fail"); r.code != 1 || !strings.Contains(r.err, `berth: the agent broke\x1b[2J`) || !strings.Contains(r.err, "hint: The detail has") {
		t.Errorf("%+v", r)
	}
	go func() {
		k.until(func() bool { return k.turns["turn-2"] != nil && len(k.turns["turn-2"].log) > 1 })
		k.mu.Lock()
		defer k.mu.Unlock()
		k.turns["turn-2"].cancel = true
		k.happened()
	}()
	if r := s.berth("chat", "wait"); r.code != 130 || r.out != "I wait\n" || !strings.Contains(r.err, "the turn was cancelled\n") {
		t.Errorf("%+v", r)
	}
	for want, args := range map[string][]string{
		"there is no template":                        {"chat", "--template", "nosuch", "x"},
		"'berth conversation ls' lists":               {"chat", "-c", "c99", "x"},
		"'berth ls' lists the sandboxes":              {"chat", "--sandbox", "nosuch", "x"},
		"the prompt is empty":                         {"chat", " "},
		"give one of them":                            {"chat", "--continue", "-c", "c1", "x"},
		"a conversation keeps its agent":              {"chat", "--continue", "--template", "demo", "x"},
		"Say what to do: berth chat":                  {"chat"},
		"must be an integer ≥ 1":                      {"conv", "ls", "--limit", "0"},
		"the prompt has more than 1.0 MiB":            {"chat", strings.Repeat("x", 1<<20+1)},
		"No API key was found":                        nil,
		"'berth chat PROMPT' begins one":              {"none"},
		"--queue lets the prompt wait for its end.\n": {"busy"},
	} {
		s, args := s, args
		switch {
		case args == nil:
			s, args = s.without("BERTH_API_KEY"), []string{"chat", "x"}
		case args[0] == "none":
			empty, _ := newTalking(t)
			s, args = newShell(t, empty), []string{"chat", "--continue", "x"}
		case args[0] == "busy":
			k.mu.Lock()
			k.convs[0].TurnID = "turn-1"
			k.mu.Unlock()
			args = []string{"chat", "--continue", "x"}
		}
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%.60q: %+v; want %q", args, r, want)
		}
	}
	if r := s.berth("chat", "--continue", "--queue", "x"); r.code != 0 || k.asked[len(k.asked)-1] != "x  queue=true" {
		t.Errorf("%+v, asked %q", r, k.asked)
	}
}

func TestChatTakesItsPromptFromAPipe(t *testing.T) {
	f, k := newTalking(t)
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"chat"}, "piped\nlines"}, {[]string{"chat", "look", "at:", "-"}, "look at:\n\npiped\nlines"}, {[]string{"chat", "-"}, "piped\nlines"}} {
		s := newShell(t, f)
		s.deps.Stdin = strings.NewReader("piped\nlines\n")
		if r := s.berth(c.args...); r.code != 0 || r.out != "You said: "+c.want+"\n" {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	_, _ = out.WriteString("unread")
	s := newShell(t, f)
	s.deps.Stdin = in
	if r := s.berth("chat", "alone"); r.code != 0 || !strings.Contains(r.err, "a - behind the prompt sends it") || k.asked[len(k.asked)-1] != "alone" {
		t.Errorf("%+v", r)
	}
}

// TestChatSurvivesALostServer: the connection ends three times in the middle.
func TestChatSurvivesALostServer(t *testing.T) {
	testkit.Proves(t, "C3")
	f, _ := newTalking(t)
	m := newTerminal(t)
	if r := newShell(t, f).at(m).berth("chat", "cut me"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("'berth chat --continue' continues")
	contains(t, "screen", m.Text(), "the connection was lost; trying to come back", "You said: \n", "cut me\n")
}

// spun is what the spinner and its clearing leave on the screen, and the switching of pastes.
var spun = regexp.MustCompile(`(\r\x1b\[K[^\r]*)?\r\x1b\[K`)

func TestChatOnAScreen(t *testing.T) {
	f, _ := newTalking(t)
	m := newTerminal(t)
	m.Resize(60, 20)
	if r := newShell(t, f).at(m).with("NO_COLOR", "1").berth("chat", "tools"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("'berth chat --continue' continues it\n")
	testkit.Golden(t, "testdata/output/chat.txt", spun.ReplaceAllString(m.Text(), ""))
}

// TestChatShowsHostileOutputAsText: what comes out of a sandbox cannot make the terminal do anything.
func TestChatShowsHostileOutputAsText(t *testing.T) {
	f, k := newTalking(t)
	m := newTerminal(t)
	if r := newShell(t, f).at(m).with("NO_COLOR", "1").berth("chat", "hostile"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	k.said["c1"] = []api.Message{{ID: "m\x1b]52;x\a", Role: "user\x1b[2J", Status: "odd\x1b[2J", Model: "\x1b[2J", Error: "\x1b[2J", Content: []api.Block{
		{Type: api.BlockText, Text: "\x1b]52;c;aGk=\a"}, {Type: api.BlockThinking, Text: "\x1b[2J"}, {Type: api.BlockToolUse, Name: "\x1b[2J", Input: quoteJSON("path", "\x1b[2J")},
		{Type: api.BlockToolResult, Text: "\x1b[2J\n\x1b[2J", IsError: true}}}}
	k.convs[0].Title = "\x1b[2J"
	for _, args := range [][]string{{"messages"}, {"messages", "-q"}, {"show"}, {"ls"}, {"export"}} {
		newShell(t, f).at(m).with("NO_COLOR", "1").berth(append([]string{"conv"}, args...)...)
	}
	m.Wait("exported as json")
	text := spun.ReplaceAllString(m.Text(), "")
	if i := strings.IndexAny(text, "\x1b\a\u202e"); i >= 0 {
		t.Errorf("the terminal was told %q", text[i:min(i+30, len(text))])
	}
	contains(t, "screen", text, `\x1b]52;c;aGk=\a\x1b[2J`, `⏺ tool\x1b]52`, `warning \x1b]52`, `think \x1b]52`, `\u202e`)
}

func TestInterruptCancelsTheTurn(t *testing.T) {
	f, k := newTalking(t)
	m := newTerminal(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Wait("I wait")
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		m.Wait("cancelling the turn; Ctrl-C again leaves")
	}()
	if r := newShell(t, f).at(m).berth("chat", "wait"); r.code != 130 {
		t.Errorf("exit %d", r.code)
	}
	<-done
	m.Wait("the turn was cancelled")
	if !k.turns["turn-1"].cancel {
		t.Error("the turn was not cancelled")
	}
}

// TestSecondInterruptLeaves: the server does not get round to cancelling.
func TestSecondInterruptLeaves(t *testing.T) {
	f, k := newTalking(t)
	k.convs = []api.Conversation{{ID: "c1", TurnID: "stuck"}}
	k.turns["stuck"] = &fakeTurn{id: "stuck", conv: "c1", log: []api.TurnEvent{{Type: api.EventTurnStarted, At: &birth}, {Type: api.EventToolCall, ID: "1", Name: "bash"}}}
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("⏺ bash")
		m.Wait("running bash") // the spinner
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		m.Wait("Ctrl-C again leaves")
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}, "chat", "--continue")
	if r.code != 130 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("left; the turn was asked to end: 'berth conversation show c1' shows its result")
}

func TestConversationAtATerminal(t *testing.T) {
	f, k := newTalking(t)
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("Ctrl-D leaves.")
		m.Type("first\r")
		m.Wait("You said: first\n")
		m.Wait("version …a1b2c3")
		m.Type("\x1b[200~two\rlines\x1b[201~") // a paste
		m.Wait("lines")
		m.Type("\r")
		m.Wait("You said: two\nlines\n")
		m.Type("\x1b[A\x1b[A\x1b[A again\r") // perhaps while the turn still runs: the paste's lines, and then the prompt before it
		m.Wait("You said: first again\n")
		m.Type("three\rfour\r") // a paste at a terminal that does not say so
		m.Wait("You said: three\nfour\n")
		m.Type("\r")
		m.Type("fail\r")
		m.Wait("the agent broke")
		m.Type("\x04")
	}, "chat")
	if r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m.Wait("'berth chat -c c1' goes on with it")
	var want bytes.Buffer
	_ = json.NewEncoder(&want).Encode([]string{"first", "two\nlines", "first again", "three\nfour", "fail"})
	got, _ := json.Marshal(k.asked)
	if string(got) != strings.TrimSpace(want.String()) {
		t.Errorf("asked %s", got)
	}
}

func TestLeavingAConversation(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(m *ptytest.Terminal)
		code int
	}{
		"Ctrl-D":             {func(m *ptytest.Terminal) { m.Type("\x04") }, 0},
		"Ctrl-C":             {func(m *ptytest.Terminal) { m.Type("\x03") }, 130},
		"Ctrl-C twice":       {func(m *ptytest.Terminal) { m.Type("x"); m.Wait("> x"); m.Type("\x03"); m.Type("\x03") }, 130},
		"a signal":           {func(*ptytest.Terminal) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }, 130},
		"no server any more": {func(m *ptytest.Terminal) { m.Type("x\r"); m.Wait("no answer from"); m.Type("\x04") }, 0},
	} {
		f, _ := newTalking(t)
		if name == "no server any more" {
			f.URL = "http://127.0.0.1:1"
		}
		m := newTerminal(t)
		if r := sit(t, f, m, func() { m.Wait("> "); c.do(m) }, "chat"); r.code != c.code {
			t.Errorf("%s: exit %d\n%s", name, r.code, m.Text())
		}
	}
}

func TestDumbTerminalsTypeLines(t *testing.T) {
	f, _ := newTalking(t)
	m := newTerminal(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Wait("> ")
		m.Type("hello\n")
		m.Wait("You said: hello\n")
		m.Type("\x04")
	}()
	if r := newShell(t, f).at(m).with("TERM", "dumb").berth("chat"); r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	<-done
	if strings.Contains(m.Text(), "\x1b") {
		t.Errorf("the screen has escapes: %q", m.Text())
	}
}

// TestChatComesBackToATurn: it runs, has ended meanwhile, or is not kept any more.
func TestChatComesBackToATurn(t *testing.T) {
	f, k := newTalking(t)
	k.convs = []api.Conversation{{ID: "c1", Title: "Notes", TurnID: "old"}}
	k.turns["old"] = &fakeTurn{id: "old", conv: "c1", gone: true}
	k.said["c1"] = []api.Message{{TurnID: "old", Role: "user"}, {TurnID: "old", Role: "assistant", Status: "completed", Content: []api.Block{{Type: "text", Text: "It was kept."}}}}
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("It was kept.\n")
		m.Wait("Going on with Notes.")
		m.Type("\x04")
	}, "chat", "-c", "c1")
	if r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	k.said["c1"] = nil
	if r := newShell(t, f).at(newTerminal(t)).berth("chat", "-c", "c1"); r.code != 125 {
		t.Errorf("exit %d", r.code)
	}
}

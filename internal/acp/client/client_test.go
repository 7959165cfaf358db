package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// agent is a shell that plays an agent: answer ID RESULT and update TEXT print messages, and each line that it reads is
// in $line.
const agent = `answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"theirs","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$1"; }
offer='{"loadSession":true}'; [ -z "$CAPABILITIES" ] || offer=$CAPABILITIES
read -r line; answer 1 '{"agentCapabilities":'"$offer"'}'
`

// runs runs a turn with an agent that goes on with a script.
func runs(t *testing.T, turn Turn, script string, signals ...os.Signal) (code int, out string) {
	t.Helper()
	turn.Command, turn.Session = []string{"sh", "-c", agent + script}, "ours"
	if turn.StateDir == "" {
		turn.StateDir = t.TempDir()
	}
	var b bytes.Buffer
	queue := make(chan os.Signal, 8)
	for _, sig := range signals {
		time.AfterFunc(300*time.Millisecond, func() { queue <- sig })
	}
	c := &client{turn: turn, out: newPrinter(&b), signals: queue, env: environment(turn, "mark")}
	code = c.run()
	c.out.flush()
	return code, b.String()
}

func TestSessionsAreRemembered(t *testing.T) {
	state := t.TempDir()
	turn := Turn{StateDir: state, Prompt: "short", Fresh: "with history", Files: map[string]string{"a/b": "text"}}
	whole := `read -r line; answer 2 '{"sessionId":"theirs","models":{"currentModelId":"m"}}'
read -r line; case $line in *history*) update fresh;; esac; answer 3 '{"stopReason":"end_turn"}'; cat >/dev/null`
	code, out := runs(t, turn, whole)
	if code != 0 || !strings.Contains(out, `"session":"theirs","model":"m"`) || !strings.Contains(out, `{"acp":"text","text":"fresh"}`) {
		t.Errorf("%d %s", code, out)
	}
	if id, err := os.ReadFile(filepath.Join(state, sessions, "ours")); string(id) != "theirs\n" {
		t.Errorf("%q %v", id, err)
	}
	if text, err := os.ReadFile(filepath.Join(state, "a", "b")); string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
	// The next turn loads it. Repetitions, also those behind the answer, are dropped.
	turn.Resume, turn.QuietMS = true, 50
	load := `read -r line; update old; answer 2 '{}'; update old; read -r line; case $line in *short*) update new;; esac; answer 3 '{"stopReason":"end_turn"}'`
	if code, out = runs(t, turn, load); code != 0 || strings.Contains(out, "old") || !strings.Contains(out, `{"acp":"text","text":"new"}`) {
		t.Errorf("%d %s", code, out)
	}
	// A first turn that is tried again may find its session gone.
	turn.Resume = false
	again := `read -r line; printf '{"id":2,"error":{"code":-32002,"message":"gone"}}\n'; read -r line; answer 3 '{"sessionId":"other"}'
read -r line; answer 4 '{"stopReason":"end_turn"}'`
	if code, out = runs(t, turn, again); code != 0 || !strings.Contains(out, `"session":"other"`) {
		t.Errorf("%d %s", code, out)
	}
	turn.Resume, turn.StateDir = true, t.TempDir()
	if code, out = runs(t, turn, ""); code != 0 || !strings.Contains(out, `{"berth":"no_session"}`) {
		t.Errorf("%d %s", code, out)
	}
}

func TestSignals(t *testing.T) {
	hangs := `read -r line; answer 2 '{"sessionId":"theirs"}'; read -r line; update before; sleep 60`
	code, out := runs(t, Turn{}, hangs, syscall.SIGINT, syscall.SIGINT)
	if code != 0 || !strings.Contains(out, `{"acp":"cancel"}`) || !strings.Contains(out, `{"berth":"cancelled"}`) {
		t.Errorf("%d %s", code, out)
	}
	if code, out = runs(t, Turn{}, hangs, syscall.SIGTERM); code != 143 || strings.Contains(out, "berth") || !strings.Contains(out, "before") {
		t.Errorf("%d %s", code, out)
	}
	if code, out = runs(t, Turn{}, `sleep 60`, syscall.SIGINT); code != 0 || !strings.Contains(out, `{"berth":"cancelled"}`) {
		t.Errorf("%d %s", code, out)
	}
}

func TestAgentsThatEnd(t *testing.T) {
	if code, out := runs(t, Turn{}, `exit 7`); code != 7 || out != "" {
		t.Errorf("%d %s", code, out)
	}
	if code, _ := runs(t, Turn{}, `kill -9 $$`); code != 137 {
		t.Errorf("%d", code)
	}
	// One that closes its output and stays is ended.
	if code, _ := runs(t, Turn{}, `exec >&-; sleep 60`); code != 143 {
		t.Errorf("%d", code)
	}
	// One that the end of its sandbox reached first has not failed.
	if code, _ := runs(t, Turn{}, `exit 7`, syscall.SIGTERM); code != 143 {
		t.Errorf("%d", code)
	}
	refuses := `read -r line; printf '{"id":2,"error":{"code":-32000,"message":"log in"}}\n'; cat >/dev/null`
	if code, out := runs(t, Turn{Lingers: true}, refuses); code != 0 || !strings.Contains(out, `{"acp":"error","text":"session/new","answer":{"code":-32000,"message":"log in"}}`) {
		t.Errorf("%d %s", code, out)
	}
}

func TestTurnsThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"none": "", "torn": "{", "empty": "{}"} {
		file := filepath.Join(dir, name)
		if name != "none" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readTurn(file); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestProgramsAreFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tool")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nowhere", "PATH=" + dir}
	if got := findProgram("tool", env); got != "" {
		t.Errorf("found %s, which cannot be executed", got)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"tool": file, file: file, dir: "", "other": "", "/no/such": ""} {
		if got := findProgram(name, env); got != want {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// An agent gets the variables of the first key that is set, unless it was given another service.
func TestDefaultsOfKeys(t *testing.T) {
	turn := Turn{Env: []string{"OTHER=1"}, Defaults: []Default{
		{"KEY_A", []string{"SERVICE=a", "MODEL=of a"}}, {"KEY_B", []string{"SERVICE=b", "MODEL=of b"}},
	}}
	for _, c := range []struct{ given, want string }{
		{"", ""}, {"KEY_A=x", "a of a"}, {"KEY_B=x", "b of b"}, {"KEY_A=x KEY_B=x", "a of a"}, {"KEY_A=x MODEL=mine", "a mine"}, {"KEY_B=x SERVICE=mine", "mine"},
	} {
		t.Run(c.given, func(t *testing.T) {
			for given := range strings.FieldsSeq(c.given) {
				name, value, _ := strings.Cut(given, "=")
				t.Setenv(name, value)
			}
			cmd := exec.Command("/bin/sh", "-c", "echo $SERVICE $MODEL")
			cmd.Env = environment(turn, "mark")
			if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != c.want {
				t.Errorf("%q %v, want %q", out, err, c.want)
			}
		})
	}
}

func TestLongLinesAreSkipped(t *testing.T) {
	b := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", maxLine+1)+"\nshort\n"+strings.Repeat("y", 100_000)+"\n"), 4096)
	var got []int
	for {
		line, err := readLine(b)
		if len(line) > 0 {
			got = append(got, len(line))
		}
		if err != nil {
			break
		}
	}
	if len(got) != 2 || got[0] != 5 || got[1] != 100_000 {
		t.Errorf("lines of %v bytes", got)
	}
}

func TestLongAnswersAreShortened(t *testing.T) {
	long := `{"stopReason":"end_turn","usage":{"inputTokens":5,"totalTokens":7},"_meta":"` + strings.Repeat("x", maxAnswer) + `"}`
	var r struct {
		Stop  string `json:"stopReason"`
		Usage struct {
			Input int `json:"inputTokens"`
		} `json:"usage"`
	}
	if raw := bounded(json.RawMessage(long)); len(raw) > 1000 || json.Unmarshal(raw, &r) != nil || r.Stop != "end_turn" || r.Usage.Input != 5 {
		t.Errorf("%.200s", raw)
	}
	e := newError("x", json.RawMessage(`{"code":-1,"message":"`+strings.Repeat("m", maxAnswer)+`"}`))
	if raw := e.raw(); len(raw) > 2*maxNote || !strings.Contains(string(raw), `"code":-1`) {
		t.Errorf("%.200s", raw)
	}
}

// Of the files of a session the largest is kept, under the new name.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"session-1-abcdefgh.x": "much text", "session-2-abcdefgh.x": "", "session-1-other.x": "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := Rename{Dir: ".", From: "session-*-{id8}.x", To: "session-0-{id8}.x"}
	for range 2 {
		r.apply(dir, "abcdefgh-more")
		found, _ := filepath.Glob(filepath.Join(dir, "*"))
		text, _ := os.ReadFile(filepath.Join(dir, "session-0-abcdefgh.x"))
		if len(found) != 2 || string(text) != "much text" {
			t.Errorf("%v %q", found, text)
		}
	}
	r.apply(dir, "x")
}

const asking = `{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","kind":"KIND"},` +
	`"options":[{"optionId":"for ever","kind":"allow_always"},{"optionId":"once","kind":"allow_once"},{"optionId":"never","kind":"reject_once"}]}}`

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy     Policy
		kind, want string
	}{{AllowAll, "execute", "once"}, {AllowEdits, "edit", "once"}, {AllowEdits, "execute", "never"}, {AllowNone, "read", "never"}} {
		script := `read -r line; answer 2 '{"sessionId":"theirs"}'; read -r line; echo '` + strings.Replace(asking, "KIND", c.kind, 1) + `'
read -r line; case $line in *'"once"'*) update once;; *'"never"'*) update never;; esac
echo '{"jsonrpc":"2.0","id":7,"method":"terminal/create"}'; read -r line; case $line in *-32601*) update refused;; esac; answer 3 '{"stopReason":"end_turn"}'`
		if code, out := runs(t, Turn{Allow: c.policy}, script); code != 0 || !strings.Contains(out, `"text":"`+c.want+`refused"`) {
			t.Errorf("%+v: %d %s", c, code, out)
		}
	}
	c := &client{shaper: &shaper{print: func(Line) {}}, prompted: true, turn: Turn{Allow: AllowAll}}
	if got := c.permit(json.RawMessage(`{"options":[]}`)); got["outcome"] != "cancelled" {
		t.Errorf("%v without an option", got)
	}
	c.cancelled = true
	if got := c.permit(json.RawMessage(strings.Split(asking, `"params":`)[1])); got["outcome"] != "cancelled" {
		t.Errorf("%v behind a cancel", got)
	}
}

func TestRequestsBeforeThePrompt(t *testing.T) {
	turn := Turn{Calls: []Call{{Method: "session/set_mode", Params: map[string]any{"modeId": "free"}}}}
	refused := `read -r line; answer 2 '{"sessionId":"theirs"}'; read -r line; printf '{"id":3,"error":{"code":-32602,"message":"no mode"}}\n'
read -r line; update done; answer 4 '{"stopReason":"end_turn"}'`
	if code, out := runs(t, turn, refused); code != 0 || !strings.Contains(out, `{"acp":"notice","text":"session/set_mode: no mode (-32602)"}`) || !strings.Contains(out, `"done"`) {
		t.Errorf("%d %s", code, out)
	}
	turn.Calls[0].Must = true
	if code, out := runs(t, turn, refused); code != 0 || !strings.Contains(out, `{"acp":"error","text":"session/set_mode"`) || strings.Contains(out, "done") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := runs(t, Turn{}, `read -r line; answer 2 '{}'`); code != 1 || out != "" {
		t.Errorf("a session without an id: %d %s", code, out)
	}
}

// An interrupt while an agent repeats the conversation ends the turn.
func TestInterruptInARepetition(t *testing.T) {
	state := t.TempDir()
	turn := Turn{StateDir: state, Session: "ours", Resume: true, QuietMS: 60_000}
	c := &client{turn: turn, theirs: "theirs"}
	if err := c.remember(); err != nil {
		t.Fatal(err)
	}
	loads := `read -r line; answer 2 '{}'; while :; do update old; sleep 0.1; done`
	if code, out := runs(t, turn, loads, syscall.SIGINT); code != 0 || strings.Contains(out, "old") || !strings.Contains(out, "cancelled") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := runs(t, turn, `read -r line; answer 2 '{}'; exit 5`); code != 5 || out != "" {
		t.Errorf("%d %s", code, out)
	}
}

func TestGrokSaysThatItTriesAgain(t *testing.T) {
	turn := Turn{Shape: Shape{Retries: []string{"retry_state"}}}
	script := `read -r line; answer 2 '{"sessionId":"theirs"}'; read -r line; update ab
echo '{"jsonrpc":"2.0","method":"_x.ai/session_notification","params":{"update":{"sessionUpdate":"retry_state","reason":"cut"}}}'; update abc; answer 3 '{"stopReason":"end_turn"}'`
	if _, out := runs(t, turn, script); !strings.Contains(out, `{"acp":"retry","text":"cut"}`) || !strings.Contains(out, `{"acp":"text","text":"abc"}`) {
		t.Error(out)
	}
}

func TestAgentThatResumes(t *testing.T) {
	state := t.TempDir()
	c := &client{turn: Turn{StateDir: state, Session: "ours"}, theirs: "theirs"}
	if err := c.remember(); err != nil {
		t.Fatal(err)
	}
	turn := Turn{
		StateDir: state, Resume: true, Bin: "/usr/bin", Rename: &Rename{Dir: ".", From: "x", To: "y"}, Prompt: "p",
		Command: []string{"sh"}, Servers: []Server{{Name: "files", Command: "/bin/true"}},
	}
	script := `read -r line; case $line in *session/resume*files*) answer 2 '{"configOptions":[{"id":"model","currentValue":"large"}]}';; esac
read -r line; update done; answer 3 '{"stopReason":"end_turn"}'`
	turn.Command, turn.Session = []string{"sh", "-c", strings.Replace(agent, `"loadSession":true`, `"sessionCapabilities":{"resume":{}}`, 1) + script}, "ours"
	var b bytes.Buffer
	c = &client{turn: turn, out: newPrinter(&b), env: environment(turn, "mark")}
	if code := c.run(); code != 0 || !strings.Contains(b.String(), `"model":"large"`) || !strings.Contains(b.String(), `"done"`) {
		t.Errorf("%d %s", code, b.String())
	}
}

func TestTurnsThatCannotBegin(t *testing.T) {
	for name, turn := range map[string]Turn{
		"state": {StateDir: "/dev/null/x"}, "files": {StateDir: t.TempDir(), Files: map[string]string{strings.Repeat("x", 300): ""}},
	} {
		if code, out := runs(t, turn, ""); code != 1 || out != "" {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	var b bytes.Buffer
	c := &client{turn: Turn{Command: []string{"/no/such/agent"}, StateDir: t.TempDir(), Session: "s"}, out: newPrinter(&b)}
	if code := c.run(); code != exitNotInstalled {
		t.Errorf("%d", code)
	}
}

// Images go with the prompt to an agent that takes them. Paths that are no file any more are left out.
func TestImagesGoWithThePrompt(t *testing.T) {
	dir := t.TempDir()
	picture, pipe, link := filepath.Join(dir, "a.png"), filepath.Join(dir, "pipe.png"), filepath.Join(dir, "link.png")
	if err := errors.Join(os.WriteFile(picture, []byte("pixels"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Symlink(picture, link)); err != nil {
		t.Fatal(err)
	}
	turn := Turn{Prompt: "look", Images: []Image{
		{picture, "image/png"}, {pipe, "image/png"}, {link, "image/png"}, {filepath.Join(dir, "none.png"), "image/png"},
	}}
	script := `read -r line; answer 2 '{"sessionId":"theirs"}'
read -r line; printf '%s\n' "$line" >'` + dir + `/prompt'; update seen; answer 3 '{"stopReason":"end_turn"}'; cat >/dev/null`
	for capabilities, want := range map[string]int{`{}`: 1, `{"promptCapabilities":{"image":true}}`: 2} {
		turn.Env = []string{"CAPABILITIES=" + capabilities}
		if code, out := runs(t, turn, script); code != 0 {
			t.Fatalf("%d %s", code, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "prompt"))
		var m struct {
			Params struct {
				Prompt []map[string]string `json:"prompt"`
			} `json:"params"`
		}
		if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil || len(m.Params.Prompt) != want {
			t.Fatalf("%s: %v %s", capabilities, err, text)
		}
		if want == 2 && (m.Params.Prompt[1]["type"] != "image" || m.Params.Prompt[1]["mimeType"] != "image/png" || m.Params.Prompt[1]["data"] != "cGl4ZWxz") {
			t.Errorf("%s", text)
		}
	}
}

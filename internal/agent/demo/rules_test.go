package demo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

func TestUnderstand(t *testing.T) {
	for prompt, want := range map[string]string{
		"write notes.txt: buy milk":                   "write notes.txt=buy milk\n",
		"Write a file":                                "write hello.txt=Hello from Berth's demo agent.\n",
		"please write a file called a/b.md with x: y": "write a/b.md=x: y\n",
		"create file x.txt containing one\ntwo\n":     "write x.txt=one\ntwo\n",
		"Write a new file named \"my notes.txt\": hi": "write my notes.txt=hi\n",
		"make `it.txt` that says it's so":             "write it.txt=it's so\n",
		"read notes.txt":                              "read notes.txt=",
		"Show me the file 'my notes.txt'":             "read my notes.txt=",
		"cat x":                                       "read x=",
		"run ls -la":                                  "bash =ls -la",
		"$ ls\necho $HOME":                            "bash =ls\necho $HOME",
		"please run `make test`":                      "bash =make test",
		"list":                                        "list .=",
		"List the files.":                             "list .=",
		"what files are there?":                       "list .=",
		"write a poem":                                "",
		"hello":                                       "",
		"":                                            "",
		"How do you do, and why 42?":                  "",
		"read the whole book and tell me what you saw": "",
	} {
		got := ""
		if d := understand(prompt); d != nil {
			got = fmt.Sprintf("%s %s=%s%s", d.tool, d.input["path"], d.input["content"], d.input["command"])
		}
		if got != want {
			t.Errorf("%q is %q, not %q", prompt, got, want)
		}
	}
}

func TestProgram(t *testing.T) {
	turn := agent.Turn{Prompt: strings.Repeat("who knows ", 100)}
	p := program(turn)
	for _, word := range []string{"demo", "no", "model", "write", "…"} {
		if !strings.Contains(p, word) {
			t.Errorf("it does not say %q", word)
		}
	}
	turn.History = []api.Message{{}}
	if !strings.Contains(greeting(turn), "talked before") {
		t.Errorf("it says %q", greeting(turn))
	}
	turn.Session.Resume = true
	if greeting(turn) != "" {
		t.Error("it greets twice")
	}
	if jsonLine(func() {}) != "{}" {
		t.Error("no JSON")
	}
}

// A sandbox may print what it likes in its agent's name.
func TestLinesThatAreNone(t *testing.T) {
	r := &reader{turn: agent.Turn{Prompt: "a b"}}
	for line, ok := range map[string]bool{
		"x": false, "[]": false, `{"type":"delta","hex":"zz"}`: false, `{}`: false,
		`{"type":"whatever"}`: true, `{"type":"result","code":1,"hex":"ff00"}`: true,
	} {
		events, got := r.Line([]byte(line))
		if got != ok {
			t.Errorf("%s: %v", line, events)
		}
		if len(events) > 0 && events[0].Text != "\uFFFD\nexit code 1" {
			t.Errorf("%+v", events)
		}
	}
	if e, said := r.End(); said || e.Usage != (api.Usage{InputTokens: 2, Estimated: true}) {
		t.Errorf("%+v", e)
	}
	if _, err := read(agent.Turn{}, []byte("[]")); err == nil {
		t.Error("a state that is none was taken")
	}
}

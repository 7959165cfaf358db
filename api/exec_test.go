package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestCommandIsWordsOrAText(t *testing.T) {
	for text, want := range map[string]Command{
		`["a","b c"]`: {"a", "b c"},
		`"a | b"`:     {"/bin/sh", "-c", "a | b"},
		`""`:          nil,
		`[]`:          {},
	} {
		var got Command
		if err := json.Unmarshal([]byte(text), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`1`, `{}`, `["a",1]`, `[["a"]]`} {
		var got Command
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s became %q", text, got)
		}
	}
	if shell := LoginShell(); len(shell) != 3 || !strings.Contains(shell[2], "bash -l") {
		t.Errorf("%q", shell)
	}
}

func TestOutputIsTextWhereItCanBe(t *testing.T) {
	var r ExecResult
	r.SetOutput([]byte("héllo\x00"), []byte("\xff"))
	raw, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(raw), `"stdout":"héllo\u0000"`) || !strings.Contains(string(raw), `"stderr_base64":"/w=="`) || strings.Contains(string(raw), "stdout_base64") {
		t.Errorf("%s, %v", raw, err)
	}
	var back ExecResult
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr := back.Output(); string(stdout) != "héllo\x00" || string(stderr) != "\xff" {
		t.Errorf("%q, %q", stdout, stderr)
	}
}

// An exit stands in its event as if it were written there, and only there.
func TestEventsAreFlat(t *testing.T) {
	out := ExecEvent{Type: EventStdout, Next: 3}
	out.SetData([]byte("a\u2028\n"))
	for want, event := range map[string]ExecEvent{
		`{"type":"stdout","text":"a\u2028\n","next":3}`:                      out,
		`{"type":"exit","next":3,"exit_code":0,"lost":true,"duration_ms":0}`: {Type: EventExit, Next: 3, ExecExit: &ExecExit{Lost: true}},
		`{"type":"exit","exit_code":137,"signal":"KILL","duration_ms":0}`:    {Type: EventExit, ExecExit: &ExecExit{ExitCode: 137, Signal: "KILL"}},
		`{"type":"started","exec_id":"x"}`:                                   {Type: EventStarted, ExecID: "x"},
	} {
		raw, err := json.Marshal(event)
		if err != nil || string(raw) != want {
			t.Errorf("%s, want %s (%v)", raw, want, err)
		}
		var back ExecEvent
		if err := json.Unmarshal(raw, &back); err != nil || string(back.Data()) != string(event.Data()) || (back.ExecExit == nil) != (event.ExecExit == nil) {
			t.Errorf("%s came back as %+v, %v", raw, back, err)
		}
	}
}

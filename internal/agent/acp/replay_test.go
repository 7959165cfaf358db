package acp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// replayArg is the first argument of a test binary that plays an agent. The recording and the number of the prompt
// follow it.
const replayArg = "replay-agent"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == replayArg {
		prompt, _ := strconv.Atoi(os.Args[3])
		if err := replay(os.Args[2], prompt); err != nil {
			fmt.Fprintln(os.Stderr, "replay:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == scriptArg {
		if err := playScript(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "script:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// recorded is one line of a recording.
type recorded struct {
	Dir   string          `json:"dir"`
	Event string          `json:"event"`
	Raw   json.RawMessage `json:"raw"`
	Msg   *rpc            `json:"msg"`
}

type rpc struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// scene is one prompt of a recording with what precedes it in its process.
type scene struct {
	Start, Prompt []recorded
	Text          string
}

// scenes returns the prompts of a recording.
func scenes(file string) (all []scene, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var start []recorded
	open := false
	for line := range bytes.Lines(raw) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		switch {
		case r.Event == "start":
			start, open = nil, false
			continue
		case r.Event == "exit":
			continue
		case r.Msg != nil && r.Dir == ">" && r.Msg.Method == "session/prompt":
			open = true
			var p struct {
				Prompt []struct{ Text string }
			}
			_ = json.Unmarshal(r.Msg.Params, &p)
			all = append(all, scene{Start: start, Text: p.Prompt[0].Text})
		}
		if open {
			last := &all[len(all)-1]
			last.Prompt = append(last.Prompt, r)
		} else {
			start = append(start, r)
		}
	}
	return all, nil
}

// session returns the request that made the session of a scene.
func (s scene) session() (method, id string) {
	for i, r := range s.Start {
		if r.Msg == nil || r.Dir != ">" {
			continue
		}
		switch r.Msg.Method {
		case "session/load", "session/resume":
			var p struct{ SessionID string }
			_ = json.Unmarshal(r.Msg.Params, &p)
			return r.Msg.Method, p.SessionID
		case "session/new":
			for _, later := range s.Start[i:] {
				var p struct{ SessionID string }
				if later.Msg != nil && string(later.Msg.ID) == string(r.Msg.ID) && later.Dir == "<" {
					_ = json.Unmarshal(later.Msg.Result, &p)
					return r.Msg.Method, p.SessionID
				}
			}
		}
	}
	return "", ""
}

// player plays the agent of a scene.
type player struct {
	in  *bufio.Reader
	out *bufio.Writer
}

// replay plays an agent that does what the agent of a recording did for one prompt.
func replay(file string, prompt int) error {
	all, err := scenes(file)
	if err != nil {
		return err
	}
	p := player{bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)}
	s := all[prompt]
	for {
		m, err := p.next()
		if err != nil {
			return nil // the client closed the input
		}
		switch m.Method {
		case "initialize", "session/new", "session/load", "session/resume":
			p.start(s, m)
		case "session/prompt":
			if err := p.play(s.Prompt, m); err != nil {
				return err
			}
		default:
			p.say(rpc{ID: m.ID, Result: json.RawMessage("{}")})
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
	}
}

func (p *player) next() (m rpc, err error) {
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

func (p *player) say(m rpc) {
	raw, _ := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		rpc
	}{"2.0", m})
	p.out.Write(append(raw, '\n'))
}

// start answers a request before the prompt, with all that the agent said until the client's next request.
func (p *player) start(s scene, m rpc) {
	answering := false
	var id string
	for _, r := range s.Start {
		switch {
		case r.Msg == nil:
		case r.Dir == ">" && r.Msg.Method == m.Method:
			answering, id = true, string(r.Msg.ID)
		case r.Dir == ">" && len(r.Msg.ID) > 0 && r.Msg.Method != "":
			answering = false
		case r.Dir == "<" && answering:
			out := *r.Msg
			if out.Method == "" && string(out.ID) == id {
				out.ID = m.ID
			}
			if method, _ := s.session(); method == "session/load" {
				out.Result = canResume.ReplaceAll(out.Result, nil)
			}
			p.say(out)
		}
	}
}

// canResume is the ability to resume sessions in the answer to initialize. A recording of session/load is played without
// it, because the client prefers session/resume.
var canResume = regexp.MustCompile(`, "resume": \{\}|"resume": \{\}, `)

// play plays the prompt. It interrupts the client where the recording has a cancel, and it waits for the same answers
// to its requests.
func (p *player) play(all []recorded, m rpc) error {
	id := string(all[0].Msg.ID)
	for _, r := range all[1:] {
		switch {
		case r.Event == "killed":
			_ = p.out.Flush()
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case r.Msg == nil:
			p.out.Write(append(r.Raw, '\n'))
		case r.Dir == "<":
			out := *r.Msg
			if out.Method == "" && string(out.ID) == id {
				out.ID = m.ID
			}
			p.say(out)
		case r.Msg.Method == "session/cancel":
			_ = p.out.Flush()
			_ = syscall.Kill(os.Getppid(), syscall.SIGINT)
			if err := p.await(*r.Msg, false); err != nil {
				return err
			}
		case r.Msg.Method == "":
			_ = p.out.Flush()
			if err := p.await(*r.Msg, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// await reads until the client sends this notification, or this answer.
func (p *player) await(want rpc, same bool) error {
	for {
		m, err := p.next()
		switch {
		case err != nil:
			return fmt.Errorf("the client did not send %s %s: %w", want.Method, want.Result, err)
		case m.Method != want.Method, same && string(m.ID) != string(want.ID):
			continue
		case same && len(want.Result) > 0 && !sameAnswer(m.Result, want.Result):
			return fmt.Errorf("the client answered %s, not %s", m.Result, want.Result)
		}
		return nil
	}
}

// sameAnswer reports whether two answers to a request for permission are the same. The recorder allowed for ever where
// the client allows once.
func sameAnswer(a, b json.RawMessage) bool {
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
	return fmt.Sprint(x) == strings.ReplaceAll(fmt.Sprint(y), "always", "once")
}

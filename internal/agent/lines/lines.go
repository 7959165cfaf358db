// Package lines runs any program as an agent, one process for each turn.
//
// [New] returns the runtime. The program is the template's agent_command. It reads the prompt from its standard input
// and what it may want to know beside it from its environment. It prints events as lines of JSON; every other line is
// text of its answer. When it exits with code 0 the turn is complete. docs/how-to/own-agent.md describes the protocol
// for those who write such programs.
package lines

import (
	"encoding/json"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

// Name is the name of the runtime in templates, and of the model of programs that report none.
const Name = "lines"

// sessions is the directory of the programs' sessions: each has its own directory for what the program must
// remember. It is in the workspace, so it is saved and restored with it.
const sessions = guest.Workspace + "/.berth/lines"

// prelude checks that the program exists and that the session to resume does. The directory of a new session is made
// here, also for the second attempt of its first turn.
const prelude = `command -v "$1" >/dev/null 2>&1 || { tell not_installed; exit 127; }
if [ -n "$BERTH_RESUME" ] && [ ! -d "$BERTH_SESSION_DIR" ]; then
	tell no_session
	exit 0
fi
mkdir -p "$BERTH_SESSION_DIR" || exit 1
export BERTH_CONTEXT="$aside"
printf '{"type":"begin"}\n'`

// New returns the runtime.
func New() *agent.Worker {
	return &agent.Worker{Kind: Name, Job: job, Read: read, Plain: true}
}

// turnContext is the content of the file BERTH_CONTEXT.
type turnContext struct {
	Turn    string            `json:"turn_id"`
	Session string            `json:"session_id"`
	Resume  bool              `json:"resume"`
	Model   string            `json:"model,omitempty"`
	Files   []attachment      `json:"attachments"`
	History []message         `json:"history"`
	Servers map[string]server `json:"mcp_servers"`
}

// message is an earlier message of the conversation.
type message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// attachment is a file of the prompt.
type attachment struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
}

// server is an MCP server, in the form that most MCP clients read.
type server struct {
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
}

func job(t agent.Turn) agent.Job {
	resume := ""
	if t.Session.Resume {
		resume = "1"
	}
	about := turnContext{
		Turn: t.ID, Session: t.Session.ID, Resume: t.Session.Resume, Model: t.Model,
		Files: []attachment{}, History: earlier(t.History), Servers: map[string]server{},
	}
	for _, a := range t.Attachments {
		about.Files = append(about.Files, attachment{a.Name, a.Path, a.MediaType, a.Size})
	}
	for name, s := range t.Servers {
		about.Servers[name] = server{Command: s.Command[0], Args: s.Command[1:], Env: s.Env, TimeoutMS: int64(s.Timeout / time.Millisecond)}
	}
	raw, _ := json.Marshal(about)
	return agent.Job{
		Prelude: prelude, Argv: t.Command, Input: t.Text(), Aside: raw,
		Env: []string{
			"BERTH_TURN_ID=" + t.ID, "BERTH_SESSION=" + t.Session.ID, "BERTH_SESSION_DIR=" + sessions + "/" + t.Session.ID,
			"BERTH_RESUME=" + resume, "BERTH_MODEL=" + t.Model,
		},
	}
}

// earlier returns the texts of the messages. Messages without text are left out.
func earlier(history []api.Message) []message {
	texts := []message{}
	for i := range history {
		if text := history[i].Text(); text != "" {
			texts = append(texts, message{history[i].Role, text})
		}
	}
	return texts
}

func read(t agent.Turn, saved json.RawMessage) (agent.Reader, error) {
	r := &reader{turn: t}
	if len(saved) > 0 {
		if err := json.Unmarshal(saved, &r.state); err != nil {
			return nil, err
		}
	}
	return r, nil
}

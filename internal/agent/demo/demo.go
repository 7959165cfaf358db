// Package demo is an agent without a model. It reads, writes and runs things in the workspace by simple rules, and
// describes what it does. It needs no key and no network, so that a new user can try Berth at once.
//
// [New] returns the runtime. The server finds the action in the prompt ([understand]) and writes a small shell program
// for the turn. The program runs in the sandbox and reports each step as a line of JSON. Words are counted as tokens.
package demo

import (
	"encoding/json"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

// Name is the name of the runtime in templates, and of its model.
const Name = "demo"

// sessions is the directory of the agent's sessions. Each file has the number of turns in its session.
const sessions = guest.Workspace + "/.berth/demo"

// prelude runs the program, which is the turn's input. If the session to resume is gone, it reports that instead.
const prelude = `if [ -n "$BERTH_RESUME" ] && [ ! -s "` + sessions + `/$BERTH_SESSION" ]; then
	tell no_session
	exit 0
fi
set -- /bin/sh "$input"
input=/dev/null`

// New returns the runtime.
func New() *agent.Worker {
	return &agent.Worker{Kind: Name, Job: job, Read: read}
}

func job(t agent.Turn) agent.Job {
	resume := ""
	if t.Session.Resume {
		resume = "1"
	}
	return agent.Job{
		Prelude: prelude,
		Input:   program(t),
		Env:     []string{"BERTH_SESSION=" + t.Session.ID, "BERTH_RESUME=" + resume},
	}
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

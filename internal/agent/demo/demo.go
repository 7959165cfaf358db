// Package demo is an agent without a model: it reads, writes and runs things in the workspace by simple
// rules, and says so. It is for the first five minutes with Berth, for which it needs no key and no network.
//
// [New] is the runtime. What to do is decided here, from the prompt ([understand]); it is done in the sandbox,
// by a small shell program made for the turn, which tells what it does as lines of JSON. It counts words as
// tokens.
package demo

import (
	"encoding/json"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

// Name is what templates call the runtime, and its model.
const Name = "demo"

// sessions is where the agent remembers how often it was asked, one file for each session.
const sessions = guest.Workspace + "/.berth/demo"

// prelude runs the program, which is the turn's input, unless the session to go on with is gone.
const prelude = `if [ -n "$BERTH_RESUME" ] && [ ! -s "` + sessions + `/$BERTH_SESSION" ]; then
	tell no_session
	exit 0
fi
set -- /bin/sh "$input"
input=/dev/null`

// New makes the runtime.
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

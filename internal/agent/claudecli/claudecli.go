// Package claudecli runs Claude Code's command line, one process for each turn.
//
// [New] is the runtime. The prompt goes in by standard input, the answer comes out as lines of JSON, which
// [reader] turns into events. The CLI's own session is a file in the workspace, so that it is saved and
// restored with it: the first turn chooses its id, later ones resume it.
package claudecli

import (
	"encoding/json"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

// What templates name.
const (
	Name    = "claude-cli"
	Mount   = "/opt/claude"         // where a template mounts the installed CLI
	Command = Mount + "/bin/claude" // the CLI inside, unless a template has another
	Install = "berth template install claude_code"
)

// ConfigDir is where the CLI keeps its sessions inside: in the workspace, but out of the user's way.
const ConfigDir = guest.Workspace + "/.berth/claude"

// prelude finds out which turn of its session this is. A session that is there is resumed, also by the first
// turn's second attempt; one that should be and is not is told.
//
// The CLI is first looked for in the list of its folder: a name that was looked up in vain under a mount stays
// unknown to the kernel for as long as the sandbox runs, whatever is installed later.
const prelude = `session=$BERTH_SESSION resume=$BERTH_RESUME found=1
unset BERTH_SESSION BERTH_RESUME
case $1 in ` + Mount + `/*)
	found=
	for file in "${1%/*}"/*; do [ "$file" != "$1" ] || found=1; done
esac
[ -n "$found" ] && command -v "$1" >/dev/null 2>&1 || { tell not_installed; exit 127; }
[ ! -s "$aside" ] || set -- "$@" --mcp-config="$aside"
if [ -s "$CLAUDE_CONFIG_DIR/projects/-workspace/$session.jsonl" ]; then
	set -- "$@" --resume "$session"
elif [ -n "$resume" ]; then
	tell no_session
	exit 0
else
	set -- "$@" --session-id "$session"
fi`

// New makes the runtime.
func New() *agent.Worker {
	return &agent.Worker{Kind: Name, Job: job, Read: read, Install: Install}
}

func job(t agent.Turn) agent.Job {
	argv := t.Command
	if len(argv) == 0 {
		argv = []string{Command}
	}
	argv = append(argv[:len(argv):len(argv)], "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--dangerously-skip-permissions")
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	input, resume := t.Prompt, "1"
	if !t.Session.Resume {
		input, resume = agent.Recall(t.History, t.Prompt), ""
	}
	config, env := servers(t.Servers)
	return agent.Job{
		Prelude: prelude, Argv: argv, Input: input, Aside: config,
		Env: append(env,
			"CLAUDE_CONFIG_DIR="+ConfigDir, "BERTH_SESSION="+t.Session.ID, "BERTH_RESUME="+resume,
			"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		),
	}
}

func read(_ agent.Turn, state json.RawMessage) (agent.Reader, error) {
	r := &reader{}
	if len(state) > 0 {
		if err := json.Unmarshal(state, &r.state); err != nil {
			return nil, err
		}
	}
	return r, nil
}

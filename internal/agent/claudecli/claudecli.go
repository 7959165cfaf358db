// Package claudecli runs Claude Code's command line, one process for each turn.
//
// [New] returns the runtime. The CLI reads the prompt from its standard input and prints lines of JSON, which [reader]
// turns into events. The CLI's session is a file in the workspace, so it is saved and restored with the workspace. The
// first turn chooses the session's id; later turns resume it.
package claudecli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

// Names and paths for templates.
const (
	Name    = "claude-cli"
	Mount   = "/opt/claude"         // the path inside, where a template mounts the installed CLI
	Command = Mount + "/bin/claude" // the CLI's path inside, if the template sets no command
	Install = "berth template install claude_code"
)

// bypassMode is the CLI's mode that allows everything. In other modes the CLI denies each action that needs a
// confirmation, because no person is there to confirm it.
const bypassMode = "bypassPermissions"

// ConfigDir is the directory of the CLI's sessions inside. It is in the workspace, but hidden from the user.
const ConfigDir = guest.Workspace + "/.berth/claude"

// prelude checks that the CLI is installed, and whether its session exists. An existing session is resumed, also by
// the second attempt of a first turn. If a session should exist and does not, prelude reports that.
//
// prelude looks for the CLI in a listing of its directory before it looks up the name: the kernel may remember a
// failed lookup under a mount for as long as the sandbox runs, even if the CLI is installed later.
//
// Some CLIs report the usage of a resumed session from its beginning. They write their usage so far into the session's
// file. prelude prints the last such note before the CLI starts, so that the reader can subtract it.
const prelude = `session=$BERTH_SESSION resume=$BERTH_RESUME found=1
unset BERTH_SESSION BERTH_RESUME
case $1 in ` + Mount + `/*)
	found=
	for file in "${1%/*}"/*; do [ "$file" != "$1" ] || found=1; done
esac
[ -n "$found" ] && command -v "$1" >/dev/null 2>&1 || { tell not_installed; exit 127; }
[ ! -s "$aside" ] || set -- "$@" --mcp-config="$aside"
file=$CLAUDE_CONFIG_DIR/projects/-workspace/$session.jsonl
if [ -s "$file" ]; then
	set -- "$@" --resume "$session"
	grep -a '^{"type":"cost-state"' "$file" | tail -n 1
elif [ -n "$resume" ]; then
	tell no_session
	exit 0
else
	set -- "$@" --session-id "$session"
fi`

// imagePrelude makes the prompt one message with images before its text. It is appended to prelude. The images are read
// in the sandbox; those that are gone are left out. $input is the block of the text. The CLI gets a pipe: 2.1.197 ends
// at once, without a word, if its stream of messages is a file.
const imagePrelude = `
images=$BERTH_IMAGES
unset BERTH_IMAGES
message() {
	printf '{"type":"user","message":{"role":"user","content":['
	for image in $images; do
		[ -f "${image#*:}" ] && [ -r "${image#*:}" ] || continue
		printf '{"type":"image","source":{"type":"base64","media_type":"%s","data":"' "${image%%:*}"
		base64 <"${image#*:}" | tr -d '\n'
		printf '"}},'
	done
	cat "$input"
	printf ']}}\n'
}
feed=message
set -- "$@" --input-format=stream-json`

// testedVersion is the newest version of the CLI that the runtime is tested with.
var testedVersion = [3]int{2, 1, 325}

// newerThanTested reports whether a version of the CLI is newer than testedVersion.
func newerThanTested(version string) bool {
	var v [3]int
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil || n != len(v) {
		return false
	}
	return slices.Compare(v[:], testedVersion[:]) > 0
}

// New returns the runtime.
func New() *agent.Worker {
	return &agent.Worker{Kind: Name, Job: job, Read: read, Install: func(agent.Turn) string { return Install }}
}

func job(t agent.Turn) agent.Job {
	argv := t.Command
	if len(argv) == 0 {
		argv = []string{Command}
	}
	argv = append(argv[:len(argv):len(argv)], "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
	if t.Permissions == "" || t.Permissions == bypassMode {
		argv = append(argv, "--dangerously-skip-permissions")
	} else {
		argv = append(argv, "--permission-mode="+t.Permissions)
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	input, resume := t.Text(), "1"
	if !t.Session.Resume {
		input, resume = agent.Recall(t.History, t.Text()), ""
	}
	config, env := servers(t.Servers)
	script := prelude
	if images := imagesOf(t); len(images) > 0 {
		script += imagePrelude
		input = textBlock(input)
		env = append(env, "BERTH_IMAGES="+strings.Join(images, " "))
	}
	return agent.Job{
		Prelude: script, Argv: argv, Input: input, Aside: config,
		Env: append(env,
			"CLAUDE_CONFIG_DIR="+ConfigDir, "BERTH_SESSION="+t.Session.ID, "BERTH_RESUME="+resume,
			"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		),
	}
}

// imagesOf returns the images of the prompt in the form TYPE:PATH. There is no limit to their size: the CLI makes them
// smaller.
func imagesOf(t agent.Turn) (images []string) {
	for _, a := range t.Attachments {
		if agent.IsImage(a.MediaType) {
			images = append(images, a.MediaType+":"+a.Path)
		}
	}
	return images
}

// textBlock returns a text as a content block.
func textBlock(text string) string {
	block, _ := json.Marshal(map[string]string{"type": "text", "text": text})
	return string(block)
}

func read(t agent.Turn, state json.RawMessage) (agent.Reader, error) {
	r := &reader{resumed: t.Session.Resume}
	if len(state) > 0 {
		if err := json.Unmarshal(state, &r.state); err != nil {
			return nil, err
		}
	}
	return r, nil
}

package sandboxagent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/acp/relay"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Prompt is the default of the file with the agent's instructions, which people may change in the workspace.
//
//go:embed prompt.md
var Prompt string

// writeFiles writes the agent's configuration and instructions, unless they exist.
func (v *Server) writeFiles(ctx context.Context, s sandbox.Sandbox, conn guest.Conn, p profile.Profile) error {
	prompt, err := v.o.Prompt(s)
	if err != nil {
		return err
	}
	all := files(p, prompt)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		script := `[ -e "$1" ] || { mkdir -p "${1%/*}" && cat >"$1" && chmod 755 "$1"; }`
		cmd, err := v.o.Command(ctx, s, guest.Cmd{Argv: []string{"/bin/sh", "-c", script, "sh", path}, Dir: "/"})
		if err != nil {
			return err
		}
		exit, err := conn.Run(ctx, cmd, guest.Stdio{Stdin: strings.NewReader(all[path])})
		if err != nil || exit.Code != 0 {
			return fmt.Errorf("write %s: exit %d: %w", path, exit.Code, err)
		}
	}
	return nil
}

// promptFile is the path of the instructions inside.
const promptFile = profile.Base + "/prompt.md"

func files(p profile.Profile, prompt string) map[string]string {
	all := map[string]string{promptFile: prompt}
	for name, text := range p.Files {
		all[p.StateDir()+"/"+name] = text
	}
	if p.Name == openCode {
		all[configFile(p)] = `{"instructions": ["` + promptFile + `"], "autoupdate": false}` + "\n"
	}
	all[launcherDir+"/"+p.Command[0]] = launcher(p)
	return all
}

// openCode is the agent whose configuration names the file with the instructions.
const openCode = "opencode"

func configFile(p profile.Profile) string { return p.StateDir() + "/opencode.json" }

// launcherDir is the directory of the launcher, which the server finds before the agent's program of the same name.
const launcherDir = guest.Home + "/.berth/agents"

// launcher returns a script that starts the agent with the mark of the turn for which it is started.
func launcher(p profile.Profile) string {
	return "#!/bin/sh\nread -r BERTH_TURN <" + relay.TurnFile + " && export BERTH_TURN\nexec " + p.Bin() + "/" + p.Command[0] + ` "$@"` + "\n"
}

// processID returns the id of a new server process: ids are never used again in an instance.
func processID(cmd guest.Cmd) string {
	return mark + "-" + digest(cmd) + "-" + strings.ToLower(rand.Text()[:16])
}

// digest returns a short digest of a command and its environment.
func digest(cmd guest.Cmd) string {
	h := sha256.New()
	for _, v := range append(slices.Clone(cmd.Argv), slices.Sorted(slices.Values(cmd.Env))...) {
		fmt.Fprintf(h, "%q\n", v)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Package program installs programs that templates show to their sandboxes, from npm.
//
// [Install] puts one below the data directory, in the place that [Dir] names and that a template mounts. The
// place itself stays, whatever is installed there: the program in it is a link to a file named by its version,
// and a newer one takes over in one step. A sandbox that runs may keep the one it has used until it is restarted.
package program

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Program is a program that can be installed.
type Program struct {
	Name    string // the template's that needs it
	Title   string
	Package string // of npm
	Version string // that is installed unless another is asked for
	Command string // its name
	Native  string // where in node_modules the executable is; a pattern
}

// ClaudeCode is Anthropic's command line, which the template claude_code runs.
var ClaudeCode = Program{
	Name: "claude_code", Title: "Claude Code", Package: "@anthropic-ai/claude-code", Version: "2.1.197", Command: "claude",
	Native: "@anthropic-ai/claude-code-linux-*/claude",
}

// All are the programs that can be installed.
var All = []Program{ClaudeCode}

// Find finds a program by its name.
func Find(name string) (Program, error) {
	var names []string
	for _, p := range All {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Program{}, &sandbox.Error{Op: "install " + name, Code: api.CodeUnknownTemplate,
		Hint: "These can be installed: " + strings.Join(names, ", ") + ".", Err: errors.New("there is nothing to install for that template")}
}

// Dir is where a program is, as bin/COMMAND.
func Dir(dataDir, name string) string { return filepath.Join(dataDir, "programs", name) }

// Prepare makes the place of every program, so that it can be mounted before anything is installed.
func Prepare(dataDir string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	for _, p := range All {
		if err := os.MkdirAll(filepath.Join(Dir(dataDir, p.Name), "bin"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Installed is the version of the program in dir; empty: there is none.
func (p Program) Installed(dir string) string {
	target, err := os.Readlink(p.path(dir))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(p.path(dir)); err != nil {
		return ""
	}
	version, _ := strings.CutPrefix(target, p.Command+"-")
	return version
}

func (p Program) path(dir string) string { return filepath.Join(dir, "bin", p.Command) }

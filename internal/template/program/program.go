// Package program installs programs from npm that templates mount into sandboxes.
//
// [Install] installs a program into the directory that [Dir] returns and that a template mounts. The path of the
// program never changes: it is a link to a file with the version in its name, and installing another version replaces
// the link atomically. A running sandbox may use the old version until it is restarted.
package program

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Program is a program that can be installed.
type Program struct {
	Name    string // name of the template that needs the program
	Title   string
	Package string // npm package
	Version string // default version
	Command string // file name of the program
	Native  string // pattern of the executable's path in node_modules
}

// ClaudeCode is Anthropic's command line, which the template claude_code runs.
var ClaudeCode = Program{
	Name: "claude_code", Title: "Claude Code", Package: "@anthropic-ai/claude-code", Version: "2.1.325", Command: "claude",
	Native: "@anthropic-ai/claude-code-linux-*/claude",
}

// All lists the programs that can be installed.
var All = []Program{ClaudeCode}

// Find returns the program with the name.
func Find(name string) (Program, error) {
	var names []string
	for _, p := range All {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Program{}, &fault.Error{Op: "install " + name, Code: api.CodeUnknownTemplate,
		Hint: "These can be installed: " + strings.Join(names, ", ") + ".", Err: errors.New("there is nothing to install for that template")}
}

// Dir returns the directory of a program. The program itself is bin/COMMAND in it.
func Dir(dataDir, name string) string { return filepath.Join(dataDir, "programs", name) }

// Prepare creates the directory of every program, so that templates can mount it before the program is installed.
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

// Installed returns the version of the program in dir, or the empty string if it is not installed.
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

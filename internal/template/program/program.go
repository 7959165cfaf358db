// Package program installs the programs of agents, which templates mount into sandboxes.
//
// [All] lists the programs and [Install] installs one of them with npm, in the versions of its lock file, into the
// directory that [Dir] returns. The path of a program never changes: bin/COMMAND is a link into the directory of the
// current version, and installing another version replaces the link atomically. The versions before stay for a while,
// because processes in sandboxes may still use them.
package program

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/fault"
)

// Program is a program that can be installed.
type Program struct {
	Name    string // name of the template that needs the program
	Title   string
	Size    string // approximate size on the disk, for people
	Command string // file name of the program

	// Packages are the npm packages to install, each with the version that Berth was tested with. {arch} stands for
	// the processor in the spelling of npm. The version of the first package is the version of the program.
	Packages []Package

	// Vendor is set instead of Packages if npm does not have the program: how people install it on the machine, from
	// which [Install] copies it.
	Vendor string

	// Native is a pattern of the executable's path in node_modules. It is empty if Script is not.
	Native string
	// Script is the path of a JavaScript file in node_modules, which the package "node" below node_modules runs.
	Script string

	With []string // programs that the template needs besides this one

	Reports string // what --version prints; empty: the version of the package
}

// Package is an npm package in one version.
type Package = profile.Package

// Mount returns the directory of the program in sandboxes.
func (p Program) Mount() string { return "/opt/" + strings.TrimSuffix(p.Name, "_code") }

// Tested returns the version that Berth was tested with, or the empty string.
func (p Program) Tested() string {
	if len(p.Packages) == 0 {
		return ""
	}
	return p.Packages[0].Version
}

// Find returns the program with the name.
func Find(name string) (Program, error) {
	if i := slices.IndexFunc(All, func(p Program) bool { return p.Name == name }); i >= 0 {
		return All[i], nil
	}
	return Program{}, &fault.Error{Op: "install " + name, Code: api.CodeUnknownTemplate,
		Hint: "These can be installed: " + strings.Join(Names(), ", ") + ".", Err: errors.New("there is nothing to install for that template")}
}

// Names returns the names of all programs.
func Names() []string {
	names := make([]string, len(All))
	for i, p := range All {
		names[i] = p.Name
	}
	return names
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
	if version, ok := strings.CutPrefix(target, p.Command+"-"); ok {
		return version // Berth installed programs as one file before they had directories
	}
	return filepath.Base(filepath.Dir(target))
}

func (p Program) path(dir string) string { return filepath.Join(dir, "bin", p.Command) }

package files

import (
	"fmt"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// The paths of both roots inside a sandbox.
const (
	workspaceDir = "/workspace"
	homeDir      = "/home/agent"
)

// sandboxPath is the path of a file or folder in a sandbox.
type sandboxPath struct {
	ref    string
	source string // root: the workspace or the home directory
	path   string // path below the root, cleaned; empty: the root itself
	folder bool   // the argument ended in a slash
	inside bool   // the argument ended in /. and means the contents of the folder
}

// String returns the path in the form of a command's argument.
func (p sandboxPath) String() string {
	return p.ref + ":" + path.Join(p.root(), p.path)
}

func (p sandboxPath) root() string {
	if p.source == api.SourceHomeDir {
		return homeDir
	}
	return workspaceDir
}

// name returns the last element of the path.
func (p sandboxPath) name() string { return path.Base(path.Join(p.root(), p.path)) }

// below returns the path of name in the folder p.
func (p sandboxPath) below(name string) sandboxPath {
	p.path, p.folder, p.inside = path.Join(p.path, name), false, false
	return p
}

// parsePathIn parses a path in a sandbox. It must be below /workspace, where relative paths begin, or below the agent's
// home.
func parsePathIn(ref, text string) (sandboxPath, error) {
	p := sandboxPath{ref: ref, source: api.SourceWorkingDir, folder: strings.HasSuffix(text, "/"), inside: endsInDot(text)}
	at := path.Clean(text)
	if at == "~" || strings.HasPrefix(at, "~/") {
		at = path.Join(homeDir, at[1:])
	}
	if !path.IsAbs(at) {
		at = path.Join(workspaceDir, at)
	}
	for source, root := range map[string]string{api.SourceWorkingDir: workspaceDir, api.SourceHomeDir: homeDir} {
		if rest, ok := strings.CutPrefix(at+"/", root+"/"); ok {
			p.source, p.path = source, strings.TrimSuffix(rest, "/")
			return p, nil
		}
	}
	return p, ui.Usage(fmt.Sprintf("%s is neither in %s nor in %s, the folders that are kept", at, workspaceDir, homeDir),
		fmt.Sprintf("'berth exec %s -- ls -l %s' looks at anything else in it.", ref, at))
}

// cutRef splits NAME:PATH. remote is false for a local path: a local path with a colon has ./ before it.
func cutRef(arg string) (ref, at string, remote bool) {
	ref, at, remote = strings.Cut(arg, ":")
	if !remote || ref == "" || strings.ContainsAny(ref, "/.~") {
		return "", arg, false
	}
	return ref, at, true
}

// parsePath parses NAME, NAME PATH or NAME:PATH.
func parsePath(args []string) (sandboxPath, error) {
	if ref, at, ok := cutRef(args[0]); ok {
		if len(args) > 1 {
			return sandboxPath{}, ui.Usage(fmt.Sprintf("%s names a path already; %q is one too many", args[0], args[1]), "Write NAME:PATH or NAME PATH.")
		}
		return parsePathIn(ref, at)
	}
	return parsePathIn(args[0], ui.First(args[1:]...))
}

// endsInDot reports whether a path means the contents of a folder.
func endsInDot(text string) bool { return text == "." || strings.HasSuffix(text, "/.") }

package cli

import (
	"fmt"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
)

// Where the roots of a sandbox's files are in it.
const (
	workspaceDir = "/workspace"
	homeDir      = "/home/agent"
)

// place is a file or folder in a sandbox.
type place struct {
	ref    string
	source string // which root
	path   string // below it, cleaned; empty: the root itself
	folder bool   // it was written with a slash behind it
	inside bool   // it was written with a dot behind that: what is in it is meant
}

// String is the place as it can be typed.
func (p place) String() string {
	return p.ref + ":" + path.Join(p.root(), p.path)
}

func (p place) root() string {
	if p.source == api.SourceHomeDir {
		return homeDir
	}
	return workspaceDir
}

// name is what the place is called by itself.
func (p place) name() string { return path.Base(path.Join(p.root(), p.path)) }

// below is a place in the folder.
func (p place) below(name string) place {
	p.path, p.folder, p.inside = path.Join(p.path, name), false, false
	return p
}

// placeIn reads a path in a sandbox: below /workspace, where relative ones begin, or the agent's home.
func placeIn(ref, text string) (place, error) {
	p := place{ref: ref, source: api.SourceWorkingDir, folder: strings.HasSuffix(text, "/"), inside: endsInDot(text)}
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
	return p, &usageError{fmt.Sprintf("%s is neither in %s nor in %s, the folders that are kept", at, workspaceDir, homeDir),
		fmt.Sprintf("'berth exec %s -- ls -l %s' looks at anything else in it.", ref, at)}
}

// cutPlace takes NAME:PATH apart. A local path that looks like one is written with ./ before it.
func cutPlace(arg string) (ref, at string, remote bool) {
	ref, at, remote = strings.Cut(arg, ":")
	if !remote || ref == "" || strings.ContainsAny(ref, "/.~") {
		return "", arg, false
	}
	return ref, at, true
}

// placeOf reads NAME, NAME PATH or NAME:PATH.
func placeOf(args []string) (place, error) {
	if ref, at, ok := cutPlace(args[0]); ok {
		if len(args) > 1 {
			return place{}, &usageError{fmt.Sprintf("%s names a path already; %q is too much", args[0], args[1]), "Write NAME:PATH or NAME PATH."}
		}
		return placeIn(ref, at)
	}
	return placeIn(args[0], first(args[1:]...))
}

// endsInDot says whether a path means what is in a folder, and not the folder.
func endsInDot(text string) bool { return text == "." || strings.HasSuffix(text, "/.") }

package tool

import (
	"context"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// place is a file or folder in one of the roots that tools reach.
type place struct {
	root string // files.WorkingDir or files.HomeDir
	path string // below it, as files.Clean returns it
}

// find reads a path as an agent writes it: absolute as it is inside, or relative to the workspace.
func find(name string) (at place, err error) {
	at.root, at.path = files.WorkingDir, name
	for prefix, root := range map[string]string{guest.Workspace: files.WorkingDir, guest.Home: files.HomeDir, "~": files.HomeDir} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') {
			at = place{root, strings.TrimPrefix(rest, "/")}
			break
		}
	}
	if at.path, err = files.Clean(at.path); sandbox.CodeOf(err) == api.CodePathOutside {
		err = sandbox.Errorf("", api.CodePathOutside, "the path %s is outside of what this tool reaches", quoted(clip(name, 100)))
	}
	return at, err
}

// name is the place as an agent can use it again, in tools and in commands.
func (p place) name() string { return shown(p.below(p.path)) }

// below is the name of a path in the same root.
func (p place) below(name string) string {
	switch {
	case p.root == files.HomeDir:
		return path.Join(guest.Home, name)
	case name == "":
		return guest.Workspace
	}
	return name
}

// open finds a place and opens its root.
func (j *job) open(ctx context.Context, name string) (files.FS, place, error) {
	at, err := find(name)
	if err != nil {
		return nil, at, err
	}
	root, err := j.files(ctx, at)
	return root, at, err
}

// files opens the root of a place. Files can be reached in a sandbox that is stopped; one that has no
// instance is brought back first.
func (j *job) files(ctx context.Context, at place) (files.FS, error) {
	root, err := j.box.Files(ctx, at.root)
	if err == nil || sandbox.CodeOf(err) != api.CodeNotRunning {
		return root, err
	}
	conn, err := j.box.Guest(ctx)
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	return j.box.Files(ctx, at.root)
}

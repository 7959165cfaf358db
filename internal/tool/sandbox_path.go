package tool

import (
	"context"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// sandboxPath is a file or folder in the workspace or the home directory.
type sandboxPath struct {
	root string // files.WorkingDir or files.HomeDir
	path string // the path below root, as files.Clean returns it
}

// parsePath parses a path of an agent: an absolute path inside the sandbox, or a path relative to the workspace.
func parsePath(name string) (at sandboxPath, err error) {
	at.root, at.path = files.WorkingDir, name
	for prefix, root := range map[string]string{guest.Workspace: files.WorkingDir, guest.Home: files.HomeDir, "~": files.HomeDir} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') {
			at = sandboxPath{root, strings.TrimPrefix(rest, "/")}
			break
		}
	}
	if at.path, err = files.Clean(at.path); fault.CodeOf(err) == api.CodePathOutside {
		err = fault.Errorf("", api.CodePathOutside, "the path %s is outside of what this tool reaches", quoted(fault.Clip(name, 100)))
	}
	return at, err
}

// name returns the path in a form that an agent can use in tools and commands.
func (p sandboxPath) name() string { return shown(p.below(p.path)) }

// below returns a path in the same root as an agent writes it.
func (p sandboxPath) below(name string) string {
	switch {
	case p.root == files.HomeDir:
		return path.Join(guest.Home, name)
	case name == "":
		return guest.Workspace
	}
	return name
}

// open parses a path of an agent and opens its root.
func (j *job) open(ctx context.Context, name string) (files.FS, sandboxPath, error) {
	at, err := parsePath(name)
	if err != nil {
		return nil, at, err
	}
	root, err := j.files(ctx, at)
	return root, at, err
}

// files opens the root of a path. It also opens the files of a stopped sandbox. It starts a sandbox that has no
// instance.
func (j *job) files(ctx context.Context, at sandboxPath) (files.FS, error) {
	root, err := j.handle.Files(ctx, at.root)
	if err == nil || fault.CodeOf(err) != api.CodeNotRunning {
		return root, err
	}
	conn, err := j.handle.Guest(ctx)
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	return j.handle.Files(ctx, at.root)
}

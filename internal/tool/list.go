package tool

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

const (
	maxListed = 2_000 // entries of one answer
	maxLevels = 10    // maximum depth
)

type listArgs struct {
	Path   string `json:"path,omitempty" jsonschema:"The folder, absolute or relative to /workspace, which it is if left out."`
	Depth  int    `json:"depth,omitempty" jsonschema:"How many levels of folders to show."`
	Hidden bool   `json:"hidden,omitempty" jsonschema:"Show names that begin with a dot, too."`
}

func listTool() *Tool {
	return define(spec{
		name:        "list",
		description: "List a folder: names in order, folders with a slash at the end and their entries below and further to the right, files with their size in bytes, links with where they lead.",
		readOnly:    true,
		aliases:     map[string]string{"directory": "path", "file_path": "path"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["path"], 0, maxPath)
			between(f["depth"], 1, maxLevels, 1)
		},
	}, list)
}

func list(ctx context.Context, j *job, in listArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	root, at, err := j.open(ctx, in.Path)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	tree, cut, err := files.Tree(ctx, root, files.TreeOptions{Path: at.path, Depth: max(in.Depth, 1), Hidden: in.Hidden, Limit: maxListed})
	if err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	var p page
	p.add(at.name() + "/")
	addTree(&p, tree.Children, 1)
	if len(tree.Children) == 0 {
		p.note("The folder is empty, but for hidden files if there are any.")
	}
	if cut || p.full {
		p.note("Not everything: the list is too long. List a folder further down, with a smaller depth, or use glob.")
	}
	result := said(p.text.String())
	result.Truncated = cut || p.full
	return result, nil
}

func addTree(p *page, nodes []*files.Node, level int) {
	indent := strings.Repeat("  ", level)
	for _, n := range nodes {
		if !p.add(indent + entry(n.Info)) {
			return
		}
		addTree(p, n.Children, level+1)
		if n.Truncated {
			p.add(indent + "  …")
		}
	}
}

// entry returns the line of a list for a file.
func entry(info files.Info) string {
	name := shown(path.Base(info.Path))
	switch info.Mode.Type() {
	case 0:
		return fmt.Sprintf("%s  %d", name, info.Size)
	case fs.ModeDir:
		return name + "/"
	case fs.ModeSymlink:
		return name + " -> " + shown(fault.Clip(info.Target, 500))
	case fs.ModeNamedPipe:
		return name + "  (pipe)"
	case fs.ModeSocket:
		return name + "  (socket)"
	}
	return name + "  (device)"
}

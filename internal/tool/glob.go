package tool

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// maxFound is the maximum number of files in an answer.
const maxFound = 1_000

type globArgs struct {
	Pattern string `json:"pattern" jsonschema:"Such as **/*.go, src/**/*.{ts,tsx} or *.md. One without a slash is for names in any folder."`
	Path    string `json:"path,omitempty" jsonschema:"Folder to look in, absolute or relative to /workspace, which it is if left out."`
}

func globTool() *Tool {
	return define(spec{
		name:        "glob",
		description: "Find files by name, the last changed first. " + skippedText,
		readOnly:    true,
		aliases:     map[string]string{"directory": "path"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["pattern"], 1, maxPattern)
			long(f["path"], 0, maxPath)
		},
	}, glob)
}

func glob(ctx context.Context, j *job, in globArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	at, text, err := inside(in.Path, in.Pattern)
	if err != nil {
		return api.ToolResult{}, err
	}
	p, ok := newPattern(text)
	if !ok {
		return api.ToolResult{}, wrong("arguments.pattern", patternForm)
	}
	root, err := j.files(ctx, at)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	g := globbing{sandboxPath: at, walk: newWalk(root)}
	if err := g.run(ctx, p); err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	return g.result(), nil
}

// globbing is a search for files.
type globbing struct {
	sandboxPath
	walk  *walk
	found []files.Info
	count int
}

func (g *globbing) run(ctx context.Context, p pattern) error {
	// A missing folder of the argument path is an error; a missing folder of the pattern is not.
	if _, err := g.walk.fs.ReadDir(ctx, g.path, "", 1); err != nil {
		return err
	}
	err := g.walk.run(ctx, path.Join(g.path, p.folder), func(info files.Info) error {
		if p.matches(below(g.path, info.Path)) {
			g.add(info)
		}
		return nil
	})
	if p.folder != "" && slices.Contains([]api.Code{api.CodeFileNotFound, api.CodeNotADirectory}, fault.CodeOf(err)) {
		return nil
	}
	return err
}

// add adds a file. It drops the oldest files when it has twice as many as an answer holds.
func (g *globbing) add(info files.Info) {
	g.count++
	if g.found = append(g.found, info); len(g.found) >= 2*maxFound {
		g.sort()
	}
}

func (g *globbing) sort() {
	slices.SortFunc(g.found, func(a, b files.Info) int {
		if c := b.ModTime.Compare(a.ModTime); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	g.found = g.found[:min(len(g.found), maxFound)]
}

func (g *globbing) result() api.ToolResult {
	g.sort()
	var p page
	shownFiles := 0
	for _, info := range g.found {
		if !p.add(shown(g.below(info.Path))) {
			break
		}
		shownFiles++
	}
	why := g.walk.limited
	switch {
	case g.count == 0:
		p.add("No files match.")
	case shownFiles < g.count:
		why = append([]string{fmt.Sprintf("these are the %d last changed of %d", shownFiles, g.count)}, why...)
	}
	return limited(&p, why)
}

// limited returns the page as a result. If there are reasons in why, the result is truncated and has a note with them.
func limited(p *page, why []string) api.ToolResult {
	if len(why) > 0 {
		p.note("Not everything: %s. Narrow the pattern or the path to see more.", strings.Join(why, "; "))
	}
	result := said(p.text.String())
	result.Truncated = len(why) > 0
	return result
}

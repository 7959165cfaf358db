package tool

import (
	"cmp"
	"context"
	"fmt"
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

const (
	grepBytes   = 64 << 20 // bytes of one file that are searched
	grepMatches = 250      // default of head_limit
	maxMatches  = 10_000   // maximum of head_limit
	maxContext  = 50       // maximum lines before and after a match
)

// Values of output_mode.
const (
	modeFiles   = "files_with_matches"
	modeContent = "content"
	modeCount   = "count"
)

type grepArgs struct {
	Pattern         string `json:"pattern" jsonschema:"Regular expression (RE2) that a line has to match, in any part of it."`
	Path            string `json:"path,omitempty" jsonschema:"File or folder to search, absolute or relative to /workspace, which it is if left out."`
	Glob            string `json:"glob,omitempty" jsonschema:"Only files that match it, such as *.go or src/**/*.{ts,tsx}."`
	CaseInsensitive bool   `json:"case_insensitive,omitempty" jsonschema:"Upper and lower case are the same."`
	OutputMode      string `json:"output_mode,omitempty" jsonschema:"The names of files that match, the lines, or how many in each file."`
	HeadLimit       int    `json:"head_limit,omitempty" jsonschema:"How many files, or lines that match, to answer with."`
	Context         int    `json:"context,omitempty" jsonschema:"Lines to show before and after each, with output_mode content."`
}

func grepTool() *Tool {
	return define(spec{
		name: "grep",
		description: "Search the content of files for a regular expression, line by line. With output_mode content the answer has lines as PATH:NUMBER:TEXT. " +
			"Files that are not text and links are left out. " + skippedText,
		readOnly: true,
		aliases:  map[string]string{"-i": "case_insensitive", "-C": "context", "include": "glob"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["pattern"], 1, maxPattern)
			long(f["path"], 0, maxPath)
			long(f["glob"], 0, maxPattern)
			oneOf(f["output_mode"], modeFiles, modeFiles, modeContent, modeCount)
			between(f["head_limit"], 1, maxMatches, grepMatches)
			between(f["context"], 0, maxContext, 0)
		},
	}, grep)
}

func grep(ctx context.Context, j *job, in grepArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	g := &grepping{args: in, limit: cmp.Or(in.HeadLimit, grepMatches)}
	var err error
	if g.re, err = newRegexp(in.Pattern, in.CaseInsensitive); err != nil {
		return api.ToolResult{}, err
	}
	var ok bool
	if g.only, ok = newPattern(in.Glob); !ok {
		return api.ToolResult{}, wrong("arguments.glob", patternForm)
	}
	root, at, err := j.open(ctx, in.Path)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	g.sandboxPath, g.walk = at, newWalk(root)
	if err := g.run(ctx); err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	return g.result(), nil
}

// grepping is a search through files.
type grepping struct {
	sandboxPath
	args  grepArgs
	re    *regexp.Regexp
	only  pattern
	walk  *walk
	limit int

	page  page
	count int  // files or matching lines in the answer
	more  bool // there are more than limit
	cut   bool // a long line was shortened
	large int  // number of files that were not searched to their end
}

func (g *grepping) run(ctx context.Context) error {
	err := g.file(ctx, g.path)
	if fault.CodeOf(err) == api.CodeIsADirectory {
		return g.walk.run(ctx, g.path, func(info files.Info) error {
			if !info.Mode.IsRegular() || info.Size == 0 || g.args.Glob != "" && !g.only.matches(below(g.path, info.Path)) {
				return nil
			}
			return g.file(ctx, info.Path)
		})
	}
	return g.walk.ended(ctx, err)
}

// file searches one file. It returns errEnough when the limit is reached or the answer is full.
func (g *grepping) file(ctx context.Context, name string) error {
	f, err := g.walk.fs.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := newLines(f, grepBytes)
	if lines.binary() {
		return nil
	}
	m := &matching{grepping: g, name: shown(g.below(name))}
	err = m.run(ctx, lines)
	if lines.stopped {
		g.large++
	}
	if err == nil {
		err = lines.err
	}
	return err
}

func (g *grepping) result() api.ToolResult {
	var why []string
	if g.more {
		why = append(why, fmt.Sprintf("there are more than head_limit=%d", g.limit))
	}
	if g.page.full {
		why = append(why, "this answer is full")
	}
	if g.cut {
		why = append(why, "long lines are cut")
	}
	if g.large > 0 {
		why = append(why, fmt.Sprintf("%d files were searched only in their first %d MiB", g.large, grepBytes>>20))
	}
	if g.page.text.Len() == 0 {
		g.page.add("No matches.")
	}
	return limited(&g.page, append(why, g.walk.limited...))
}

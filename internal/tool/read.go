package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
)

const (
	readLines = 2_000    // lines of one answer
	readBytes = 64 << 20 // bytes of a file that are read to find the lines
)

type readArgs struct {
	FilePath string `json:"file_path" jsonschema:"The file, absolute or relative to /workspace."`
	Offset   int    `json:"offset,omitempty" jsonschema:"Number of the first line to read; 1 is the first of the file."`
	Limit    int    `json:"limit,omitempty" jsonschema:"How many lines to read."`
}

func readTool() *Tool {
	return define(spec{
		name: "read",
		description: fmt.Sprintf("Read a text file, or an image (PNG, JPEG, GIF, WebP, up to %d MiB), which is shown. Of a text the answer has its lines, each behind its number and a tab, up to %d lines and %d bytes; "+
			"read on with offset. Lines longer than %d bytes are cut.", maxImage>>20, readLines, maxText, maxLine),
		readOnly: true,
		aliases:  map[string]string{"path": "file_path"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["file_path"], 1, maxPath)
			between(f["offset"], 0, 1_000_000_000, 1)
			between(f["limit"], 1, readLines, readLines)
		},
	}, read)
}

// maxPath is the maximum length of a path argument. It is more than files.MaxPath, for the root in front of the path.
const maxPath = 5_000

func read(ctx context.Context, j *job, in readArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	root, at, err := j.open(ctx, in.FilePath)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	f, err := root.Open(ctx, at.path)
	if err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	defer f.Close()
	lines := newLines(f, readBytes)
	if kind := lines.image(); kind != "" {
		return showImage(kind, at, f.Info().Size, lines)
	}
	if lines.binary() {
		return api.ToolResult{}, refuse("%s is not text (%d bytes). Use bash for it: file, xxd, strings.", at.name(), f.Info().Size)
	}
	r := reading{sandboxPath: at, first: int64(max(in.Offset, 1)), limit: cmp.Or(in.Limit, readLines)}
	if err := r.run(ctx, lines); err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	return r.result(lines)
}

// maxImage is the maximum size of an image in bytes. Models do not accept larger ones.
const maxImage = 3 << 20

func showImage(kind string, at sandboxPath, size int64, from *lines) (api.ToolResult, error) {
	if size > maxImage {
		return api.ToolResult{}, refuse("%s is an image (%s) of %d bytes; %d are shown at most. Make it smaller with bash and read that.", at.name(), kind, size, maxImage)
	}
	data, err := io.ReadAll(io.LimitReader(from.from, maxImage+1))
	switch {
	case err != nil:
		return api.ToolResult{}, err
	case len(data) > maxImage:
		return api.ToolResult{}, refuse("%s grew while it was read; it is larger than the %d bytes that are shown.", at.name(), maxImage)
	}
	result := said(fmt.Sprintf("%s: %s, %d bytes", at.name(), kind, len(data)))
	result.Content = append(result.Content, api.ToolContent{Type: api.ContentImage, MIMEType: kind, Data: data})
	return result, nil
}

// reading collects the requested lines of a file.
type reading struct {
	sandboxPath
	first int64 // the number of the first line
	limit int   // the maximum number of lines
	page  page
	shown int  // number of lines in page
	cut   bool // a long line was shortened
	more  bool // there are lines after the last one in page
}

func (r *reading) run(ctx context.Context, lines *lines) error {
	for lines.next() {
		if lines.number%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if lines.number < r.first {
			continue
		}
		if r.shown == r.limit {
			r.more = true
			return nil
		}
		text, cut := clipLine(lines.text, lines.size)
		if !r.page.add(fmt.Sprintf("%6d\t%s", lines.number, text)) {
			r.more = true
			return nil
		}
		r.cut = r.cut || cut
		r.shown++
	}
	return lines.err
}

func (r *reading) result(lines *lines) (api.ToolResult, error) {
	last := r.first + int64(r.shown) - 1
	switch {
	case r.more:
		r.page.note("Lines %d to %d; the file goes on. Read on with offset=%d.", r.first, last, last+1)
	case lines.stopped:
		r.page.note("The file is larger than this tool looks through, %d MiB. Use bash for the rest: sed -n, tail, grep.", readBytes>>20)
	case lines.number == 0:
		r.page.note("The file is empty.")
	case r.shown == 0:
		return api.ToolResult{}, refuse("%s has %d lines; offset=%d is behind its end.", r.name(), lines.number, r.first)
	case r.cut:
		r.page.note("Long lines are cut; use bash to see all of them.")
	}
	result := said(r.page.text.String())
	result.Truncated = r.more || r.cut || lines.stopped
	return result, nil
}

package tool

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

type writeArgs struct {
	FilePath string `json:"file_path" jsonschema:"The file, absolute or relative to /workspace."`
	Content  string `json:"content" jsonschema:"All of its new content."`
}

func writeTool() *Tool {
	return define(spec{
		name:        "write",
		description: "Write a file: it is made, or all of its content replaced, at once. Missing folders are made; a file that is there keeps its permissions. To change a part of a file use edit.",
		aliases:     map[string]string{"path": "file_path"},
		limits: func(f map[string]*jsonschema.Schema) {
			long(f["file_path"], 1, maxPath)
		},
	}, write)
}

func write(ctx context.Context, j *job, in writeArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	root, at, err := j.open(ctx, in.FilePath)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	if err := noLink(ctx, root, at); err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	_, created, err := root.Write(ctx, at.path, strings.NewReader(in.Content), files.WriteOptions{})
	if err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	did := "Replaced"
	if created {
		did = "Created"
	}
	return said(fmt.Sprintf("%s %s (%d bytes).", did, at.name(), len(in.Content))), nil
}

// noLink returns a refusal for a symbolic link: a write would replace the link by a file, which agents seldom intend.
func noLink(ctx context.Context, root files.FS, at sandboxPath) error {
	info, err := root.Stat(ctx, at.path)
	switch {
	case fault.CodeOf(err) == api.CodeFileNotFound:
		return nil
	case err == nil && info.Mode.Type() == fs.ModeSymlink:
		return refuse("%s is a link to %s. Name the file that it leads to, or remove the link with bash first.", at.name(), quoted(fault.Clip(info.Target, 200)))
	}
	return err
}

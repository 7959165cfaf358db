package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// maxEdit is the maximum size of a file in bytes, before and after the edit.
const maxEdit = 16 << 20

type editArgs struct {
	FilePath   string `json:"file_path" jsonschema:"The file, absolute or relative to /workspace."`
	OldString  string `json:"old_string" jsonschema:"The text to replace, as it is in the file, with all spaces and line ends and without line numbers. It must occur exactly once, unless replace_all is true."`
	NewString  string `json:"new_string" jsonschema:"The text to put in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace it wherever it occurs."`
}

func editTool() *Tool {
	return define(spec{
		name:        "edit",
		description: "Replace a text in a file by another one. The file is replaced at once and keeps its permissions. Read it first: old_string must be exactly what it holds.",
		aliases:     map[string]string{"path": "file_path", "old_str": "old_string", "new_str": "new_string"},
		limits: func(f map[string]*jsonschema.Schema) {
			one := 1
			long(f["file_path"], 1, maxPath)
			f["old_string"].MinLength = &one
		},
	}, edit)
}

func edit(ctx context.Context, j *job, in editArgs) (api.ToolResult, error) {
	ctx, cancel := j.within(ctx)
	defer cancel()
	if in.OldString == in.NewString {
		return api.ToolResult{}, refuse("old_string and new_string are the same: nothing was changed.")
	}
	root, at, err := j.open(ctx, in.FilePath)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer root.Close()
	if err := noLink(ctx, root, at); err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	n, err := replace(ctx, root, at, in)
	if err != nil {
		return api.ToolResult{}, inTime(ctx, err)
	}
	return said(fmt.Sprintf("Replaced %s in %s.", occurrences(n), at.name())), nil
}

func occurrences(n int) string {
	if n == 1 {
		return "1 occurrence"
	}
	return fmt.Sprintf("%d occurrences", n)
}

// maxTries is the maximum number of attempts of an edit whose file changes at the same time.
const maxTries = 100

// replace edits the file. Agents send several edits of one file at once, and each edit reads and writes the whole file.
// So writes take turns, and an edit starts again if the file has changed since it was read.
func replace(ctx context.Context, root files.FS, at sandboxPath, in editArgs) (n int, err error) {
	for range maxTries {
		info, content, err := load(ctx, root, at)
		if err != nil {
			return 0, err
		}
		content, n, err := in.apply(at, content)
		if err != nil {
			return 0, err
		}
		done, err := store(ctx, root, info, content)
		if done || err != nil {
			return n, err
		}
	}
	return 0, fault.Errorf("edit file", api.CodeConflict, "%s changes all the time", at.name())
}

// load reads the whole file and its attributes.
func load(ctx context.Context, root files.FS, at sandboxPath) (files.Info, []byte, error) {
	f, err := root.Open(ctx, at.path)
	if err != nil {
		return files.Info{}, nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	switch {
	case err != nil:
		return files.Info{}, nil, fault.Errorf("read file", api.CodeInternal, "%w", err)
	case len(content) > maxEdit:
		return files.Info{}, nil, tooLarge(at)
	}
	return f.Info(), content, nil
}

func tooLarge(at sandboxPath) error {
	return refuse("%s is too large to edit, or would be then: this tool takes up to %d MiB. Use bash for it: sed, python.", at.name(), maxEdit>>20)
}

// apply returns the new content and the number of replacements.
func (in editArgs) apply(at sandboxPath, content []byte) (changed []byte, n int, err error) {
	before, after := []byte(in.OldString), []byte(in.NewString)
	switch n = bytes.Count(content, before); {
	case n == 0:
		return nil, 0, refuse("old_string does not occur in %s. Read it again: spaces, tabs and line ends have to be the same.", at.name())
	case n > 1 && !in.ReplaceAll:
		return nil, 0, refuse("old_string occurs %d times in %s. Give more of the text around the place that is meant, or set replace_all.", n, at.name())
	case int64(len(content))+int64(n)*int64(len(after)-len(before)) > maxEdit:
		return nil, 0, tooLarge(at)
	}
	return bytes.ReplaceAll(content, before, after), n, nil
}

// store writes the file if it has not changed since it was read. done is false if it has changed.
func store(ctx context.Context, root files.FS, was files.Info, content []byte) (done bool, err error) {
	unlock, err := lockEdit(ctx, was.Path+" "+was.Tag)
	if err != nil {
		return false, err
	}
	defer unlock()
	now, err := root.Stat(ctx, was.Path)
	if err != nil || was.Tag != now.Tag {
		return false, err
	}
	_, _, err = root.Write(ctx, was.Path, bytes.NewReader(content), files.WriteOptions{})
	return err == nil, err
}

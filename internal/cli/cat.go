package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func (f *frame) cat() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat ID|NAME:PATH",
		Short: "Print a file of a sandbox",
		Long: `Print a file of a sandbox. Of an archived or terminated one it is read from the newest version,
without starting anything. PATH is below /workspace, where relative ones begin, or
below /home/agent (~). It goes to stdout byte by byte; at a terminal, escape sequences other than
colours are shown as their characters.`,
		Example:           "  berth cat scratch:notes.txt\n  berth cat scratch:~/.bashrc",
		Args:              takes(1, 2, "one NAME:PATH"),
		ValidArgsFunction: f.completeSandboxes(1),
		RunE:              run(f.runCat),
	}
	return f.online(cmd)
}

// shownFile is what --json prints.
type shownFile struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	Text      string `json:"text,omitempty"`
	Base64    []byte `json:"base64,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (f *frame) runCat(ctx context.Context, args []string) error {
	at, err := placeOf(args)
	if err != nil {
		return err
	}
	if at.path == "" {
		return &usageError{clean(at.String()) + " is a folder", "'berth files " + at.ref + "' lists it; write NAME:PATH for a file in it."}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	file, err := c.Sandboxes.ReadFile(ctx, at.ref, at.source, at.path, client.ReadOptions{})
	if err != nil {
		return c.about(ctx, at.ref, err)
	}
	defer file.Close()
	if f.json {
		return f.catJSON(at, file)
	}
	to, done := shownOn(f.out)
	_, err = io.Copy(to, file)
	return errors.Join(err, done())
}

func (f *frame) catJSON(at place, file *client.Download) error {
	var text beginning
	if _, err := io.Copy(&text, io.LimitReader(file, mostCollected+1)); err != nil {
		return err
	}
	var event api.ExecEvent // knows what is text and what is not
	event.SetData(text.Bytes())
	return writeJSON(f.out, shownFile{Path: at.String(), Size: file.Size, Text: event.Text, Base64: event.Base64, Truncated: text.cut})
}

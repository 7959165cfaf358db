package files

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) cat() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat ID|NAME:PATH",
		Short: "Print a file of a sandbox",
		Long: `Print a file of a sandbox. A file of an archived or terminated sandbox is read from its newest version;
nothing is started. PATH is relative to /workspace, or an absolute path below /workspace or /home/agent
(~). The bytes go to stdout unchanged; at a terminal, escape sequences other than colours are printed as
text.`,
		Example:           "  berth cat scratch:notes.txt\n  berth cat scratch:~/.bashrc",
		Args:              ui.Args(1, 2, "one NAME:PATH"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE:              ui.Run(a.runCat),
	}
	return a.Online(cmd)
}

// shownFile is the JSON output of berth cat.
type shownFile struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	Text      string `json:"text,omitempty"`
	Base64    []byte `json:"base64,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (a *app) runCat(ctx context.Context, args []string) error {
	at, err := parsePath(args)
	if err != nil {
		return err
	}
	if at.path == "" {
		return ui.Usage(ui.Clean(at.String())+" is a folder", "'berth files "+at.ref+"' lists it; write NAME:PATH for a file in it.")
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	file, err := c.Sandboxes.ReadFile(ctx, at.ref, at.source, at.path, client.ReadOptions{})
	if err != nil {
		return c.NotFoundHint(ctx, at.ref, err)
	}
	defer file.Close()
	if a.JSON {
		return a.catJSON(at, file)
	}
	to, done := ui.SafeWriter(a.Out)
	_, err = io.Copy(to, file)
	return errors.Join(err, done())
}

func (a *app) catJSON(at sandboxPath, file *client.Download) error {
	var text ui.Head
	if _, err := io.Copy(&text, io.LimitReader(file, ui.MaxCollected+1)); err != nil {
		return err
	}
	var event api.ExecEvent // splits the data into text and binary
	event.SetData(text.Bytes())
	return ui.WriteJSON(a.Out, shownFile{Path: at.String(), Size: file.Size, Text: event.Text, Base64: event.Base64, Truncated: text.Truncated})
}

package files

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) tree() *cobra.Command {
	want := listFlags{depth: 3}
	cmd := &cobra.Command{
		Use:   "tree ID|NAME [PATH]",
		Short: "Show the files of a sandbox as a tree",
		Long: `Show the files of a sandbox as a tree. The files of an archived or terminated sandbox are read from its
newest version; nothing is started. PATH is relative to /workspace, or an absolute path below /workspace
or /home/agent (~). An ellipsis marks entries that a limit cut off.`,
		Example:           "  berth tree scratch\n  berth tree scratch src --depth 5 -a",
		Args:              ui.Args(1, 2, "the ID or NAME of one sandbox and at most one PATH"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runTree(ctx, args, want) }),
	}
	ui.LimitFlag(a.Online(cmd), &want.most)
	flags := cmd.Flags()
	flags.BoolVarP(&want.all, "all", "a", false, "names that begin with a dot, too")
	flags.IntVar(&want.depth, "depth", want.depth, "how many `LEVELS` of folders, at most 64")
	cmd.Flag("limit").Usage = "show at most `N` files (default 1000)"
	_ = cmd.RegisterFlagCompletionFunc("depth", cobra.NoFileCompletions)
	return cmd
}

const (
	maxTreeDepth = 64
	maxTreeFiles = 10_000
)

func (a *app) runTree(ctx context.Context, args []string, want listFlags) error {
	at, err := parsePath(args)
	if err != nil {
		return err
	}
	if want.depth < 1 || want.depth > maxTreeDepth || want.most > maxTreeFiles {
		return ui.Usage(fmt.Sprintf("--depth is at most %d and --limit at most %d", maxTreeDepth, maxTreeFiles), "'berth files -R' lists everything.")
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	tree, err := c.Sandboxes.Tree(ctx, at.ref, want.filter(at), int(want.most))
	switch {
	case err != nil:
		return c.NotFoundHint(ctx, at.ref, err)
	case a.JSON:
		return ui.WriteJSON(a.Out, tree)
	}
	return a.drawTree(at, tree)
}

func (a *app) drawTree(at sandboxPath, tree api.FileTree) error {
	if _, err := fmt.Fprintln(a.Out, a.Out.Paint(ui.Bold, ui.Clean(at.String()))); err != nil {
		return err
	}
	drawing, cut := &drawing{out: a.Out}, tree.Truncated
	tree.Truncated = false // the root's mark means the whole tree; it is shown as a note below
	if err := drawing.children(tree, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s, %s\n", ui.Plural(drawing.folders, "folder", "folders"), ui.Plural(drawing.files, "file", "files"))
	if cut {
		a.Notef("Not everything is shown: --depth and --limit show more.")
	}
	return err
}

// drawing draws a tree and counts its folders and files.
type drawing struct {
	out            ui.Stream
	folders, files int
}

func (d *drawing) children(node api.FileTree, indent string) error {
	for i, child := range node.Children {
		branch, trunk := "├── ", "│   "
		if i == len(node.Children)-1 && !node.Truncated {
			branch, trunk = "└── ", "    "
		}
		if err := d.one(child, indent+branch); err != nil {
			return err
		}
		if err := d.children(child, indent+trunk); err != nil {
			return err
		}
	}
	if !node.Truncated || len(node.Children) == 0 {
		return nil
	}
	_, err := io.WriteString(d.out, indent+"└── …\n")
	return err
}

func (d *drawing) one(node api.FileTree, lead string) error {
	d.files++
	if node.Type == api.FileDirectory {
		d.files--
		d.folders++
	}
	shown := named(node.File, node.Name)
	text := d.out.Paint(shown.Colour, ui.Clean(shown.Text))
	if node.Truncated && len(node.Children) == 0 {
		text += " …"
	}
	_, err := io.WriteString(d.out, lead+text+"\n")
	return err
}

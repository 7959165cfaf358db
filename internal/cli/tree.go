package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) tree() *cobra.Command {
	want := looking{depth: 3}
	cmd := &cobra.Command{
		Use:   "tree ID|NAME [PATH]",
		Short: "Show the files of a sandbox as a tree",
		Long: `Show the files of a sandbox as a tree. Those of an archived or terminated one are read from its newest
version, without starting anything. PATH is below /workspace, where relative
ones begin, or below /home/agent (~). What is cut off by a limit is marked with an ellipsis.`,
		Example:           "  berth tree scratch\n  berth tree scratch src --depth 5 -a",
		Args:              takes(1, 2, "the ID or NAME of one sandbox and at most one PATH"),
		ValidArgsFunction: f.completeSandboxes(1),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runTree(ctx, args, want) }),
	}
	limited(f.online(cmd), &want.most)
	flags := cmd.Flags()
	flags.BoolVarP(&want.all, "all", "a", false, "names that begin with a dot, too")
	flags.IntVar(&want.depth, "depth", want.depth, "how many `LEVELS` of folders, at most 64")
	cmd.Flag("limit").Usage = "show at most `N` files (default 1000)"
	_ = cmd.RegisterFlagCompletionFunc("depth", cobra.NoFileCompletions)
	return cmd
}

const (
	mostTreeDepth = 64
	mostTreeFiles = 10_000
)

func (f *frame) runTree(ctx context.Context, args []string, want looking) error {
	at, err := placeOf(args)
	if err != nil {
		return err
	}
	if want.depth < 1 || want.depth > mostTreeDepth || want.most > mostTreeFiles {
		return &usageError{fmt.Sprintf("--depth is at most %d and --limit at most %d", mostTreeDepth, mostTreeFiles), "'berth files -R' lists everything."}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	tree, err := c.Sandboxes.Tree(ctx, at.ref, want.filter(at), int(want.most))
	switch {
	case err != nil:
		return c.about(ctx, at.ref, err)
	case f.json:
		return writeJSON(f.out, tree)
	}
	return f.drawTree(at, tree)
}

func (f *frame) drawTree(at place, tree api.FileTree) error {
	if _, err := fmt.Fprintln(f.out, f.out.paint(bold, clean(at.String()))); err != nil {
		return err
	}
	drawing, cut := &drawing{out: f.out}, tree.Truncated
	tree.Truncated = false // at the root it speaks of the whole tree
	if err := drawing.children(tree, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f.out, "%s, %s\n", plural(drawing.folders, "folder", "folders"), plural(drawing.files, "file", "files"))
	if cut {
		f.notef("Not everything is shown: --depth and --limit show more.")
	}
	return err
}

// drawing draws branches and counts what hangs on them.
type drawing struct {
	out            stream
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
	text := d.out.paint(shown.colour, clean(shown.text))
	if node.Truncated && len(node.Children) == 0 {
		text += " …"
	}
	_, err := io.WriteString(d.out, lead+text+"\n")
	return err
}

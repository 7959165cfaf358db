// Package files implements the commands that work on the files of a sandbox.
package files

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package.
func Commands(r *remote.Remote) []*cobra.Command {
	a := &app{r}
	return []*cobra.Command{a.cp(), a.files(), a.tree(), a.cat()}
}

// listFlags holds the flags of files and tree.
type listFlags struct {
	all, deep bool
	depth     int
	most      ui.Limit
}

// maxDepth is the maximum of --depth. It is more than any folder's depth.
const maxDepth = 4096

func (a *app) files() *cobra.Command {
	var want listFlags
	cmd := &cobra.Command{
		Use:   "files ID|NAME [PATH]",
		Short: "List the files of a sandbox",
		Long: `List the files of a sandbox. The files of an archived or terminated sandbox are read from its newest
version; nothing is started. PATH is relative to /workspace, or an absolute path below /workspace or
/home/agent (~). NAME:PATH, as for cp, is accepted, too.`,
		Example:           "  berth files scratch\n  berth files scratch src -R\n  berth files scratch:~ -a --json",
		Args:              ui.Args(1, 2, "the ID or NAME of one sandbox and at most one PATH"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runFiles(ctx, args, want) }),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &want.most)
	flags := cmd.Flags()
	flags.BoolVarP(&want.all, "all", "a", false, "names that begin with a dot, too")
	flags.BoolVarP(&want.deep, "recursive", "R", false, "include the contents of folders")
	flags.IntVar(&want.depth, "depth", 1, "how many `LEVELS` of folders")
	a.QuietFlag(cmd, "paths")
	_ = cmd.RegisterFlagCompletionFunc("depth", cobra.NoFileCompletions)
	return cmd
}

// filter returns the client's filter for the flags.
func (l listFlags) filter(at sandboxPath) client.FileFilter {
	depth := l.depth
	if l.deep {
		depth = maxDepth
	}
	return client.FileFilter{Source: at.source, Path: at.path, Depth: depth, Hidden: l.all}
}

func (a *app) runFiles(ctx context.Context, args []string, want listFlags) error {
	at, err := parsePath(args)
	if err != nil {
		return err
	}
	if want.depth < 1 || want.depth > maxDepth {
		return ui.Usage(fmt.Sprintf("--depth takes a whole number from 1 to %d", maxDepth), "-R lists everything.")
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.NotFoundHint(ctx, at.ref, ui.Show(a.UI, fileOrFiles(ctx, c, at, want), ui.Listing[api.File]{
		Columns: []string{"MODE", "SIZE", "MODIFIED", "NAME"},
		Row: func(file api.File) []ui.Cell {
			return []ui.Cell{ui.Plain(modeText(file)), ui.Plain(sizeOf(file)), ui.Plain(a.Time(file.ModifiedAt)), named(file, below(at.path, file.Path))}
		},
		ID:    func(file api.File) string { return below(at.path, file.Path) },
		Empty: "There is nothing in " + ui.Clean(at.String()) + ".",
		Limit: int(want.most),
	}))
}

// fileOrFiles yields the contents of a folder, or the file itself if the path is a file.
func fileOrFiles(ctx context.Context, c *remote.Connection, at sandboxPath, want listFlags) iter.Seq2[api.File, error] {
	return func(yield func(api.File, error) bool) {
		for file, err := range c.Sandboxes.ListFiles(ctx, at.ref, want.filter(at)) {
			if at.path != "" && remote.IsCode(err, api.CodeNotADirectory) {
				file, err = c.Sandboxes.StatFile(ctx, at.ref, at.source, at.path)
			}
			if !yield(file, err) || err != nil {
				return
			}
		}
	}
}

// below returns the path relative to the folder. If it is not in the folder, below returns its last element.
func below(folder, name string) string {
	if folder == "" {
		return name
	}
	if rest, ok := strings.CutPrefix(name, folder+"/"); ok {
		return rest
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

// modeText returns the type and permissions of a file like ls -l.
func modeText(file api.File) string {
	kinds := map[string]string{api.FileDirectory: "d", api.FileSymlink: "l", api.FilePipe: "p", api.FileSocket: "s", api.FileDevice: "c"}
	text := ui.First(kinds[file.Type], "-")
	bits, err := strconv.ParseUint(file.Mode, 8, 16)
	if err != nil {
		return text + file.Mode
	}
	for i, letter := range "rwxrwxrwx" {
		if bits&(1<<(8-i)) == 0 {
			letter = '-'
		}
		text += string(letter)
	}
	return text
}

func sizeOf(file api.File) string {
	if file.Type != api.FileRegular {
		return "-"
	}
	return ui.Size(file.Size)
}

// named returns the name of a file with a mark for its type: a slash for folders, the target for links.
func named(file api.File, name string) ui.Cell {
	switch file.Type {
	case api.FileDirectory:
		return ui.Coloured(name+"/", ui.Bold)
	case api.FileSymlink:
		return ui.Plain(name + " -> " + file.Target)
	case api.FileRegular:
		return ui.Plain(name)
	}
	return ui.Coloured(name, ui.Yellow)
}

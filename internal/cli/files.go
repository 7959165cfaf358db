package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// looking is what the flags of files and tree ask for.
type looking struct {
	all, deep bool
	depth     int
	most      limit
}

// mostDepth is deeper than any folder is.
const mostDepth = 4096

func (f *frame) files() *cobra.Command {
	var want looking
	cmd := &cobra.Command{
		Use:   "files ID|NAME [PATH]",
		Short: "List the files of a sandbox",
		Long: `List the files of a sandbox. Those of an archived or terminated one are read from its newest version,
without starting anything. PATH is below /workspace, where relative ones begin,
or below /home/agent (~). NAME:PATH, as cp takes it, will do as well.`,
		Example:           "  berth files scratch\n  berth files scratch src -R\n  berth files scratch:~ -a --json",
		Args:              takes(1, 2, "the ID or NAME of one sandbox and at most one PATH"),
		ValidArgsFunction: f.completeSandboxes(1),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runFiles(ctx, args, want) }),
	}
	limited(f.online(cmd), &want.most)
	flags := cmd.Flags()
	flags.BoolVarP(&want.all, "all", "a", false, "names that begin with a dot, too")
	flags.BoolVarP(&want.deep, "recursive", "R", false, "what is in the folders, too")
	flags.IntVar(&want.depth, "depth", 1, "how many `LEVELS` of folders")
	f.quietly(cmd, "paths")
	_ = cmd.RegisterFlagCompletionFunc("depth", cobra.NoFileCompletions)
	return cmd
}

// filter is what is asked of the server.
func (l looking) filter(at place) client.FileFilter {
	depth := l.depth
	if l.deep {
		depth = mostDepth
	}
	return client.FileFilter{Source: at.source, Path: at.path, Depth: depth, Hidden: l.all}
}

func (f *frame) runFiles(ctx context.Context, args []string, want looking) error {
	at, err := placeOf(args)
	if err != nil {
		return err
	}
	if want.depth < 1 || want.depth > mostDepth {
		return &usageError{fmt.Sprintf("--depth takes a whole number from 1 to %d", mostDepth), "-R lists everything."}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.about(ctx, at.ref, show(f, fileOrFiles(ctx, c, at, want), listing[api.File]{
		columns: []string{"MODE", "SIZE", "MODIFIED", "NAME"},
		row: func(file api.File) []cell {
			return []cell{plain(modeText(file)), plain(sizeOf(file)), plain(f.when(file.ModifiedAt)), named(file, below(at.path, file.Path))}
		},
		id:    func(file api.File) string { return below(at.path, file.Path) },
		empty: "There is nothing in " + clean(at.String()) + ".",
		limit: int(want.most),
	}))
}

// fileOrFiles lists a folder, or the one file that is asked for.
func fileOrFiles(ctx context.Context, c *connection, at place, want looking) iter.Seq2[api.File, error] {
	return func(yield func(api.File, error) bool) {
		for file, err := range c.Sandboxes.ListFiles(ctx, at.ref, want.filter(at)) {
			if err != nil && isCode(err, api.CodeNotADirectory) {
				file, err = c.Sandboxes.StatFile(ctx, at.ref, at.source, at.path)
			}
			if !yield(file, err) || err != nil {
				return
			}
		}
	}
}

// isCode says whether the server's answer was this problem.
func isCode(err error, code api.Code) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == code
}

// below is a path as seen from a folder, or a file's own name.
func below(folder, name string) string {
	if folder == "" {
		return name
	}
	if rest, ok := strings.CutPrefix(name, folder+"/"); ok {
		return rest
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

// modeText is what may be done with a file, as ls shows it.
func modeText(file api.File) string {
	kinds := map[string]string{api.FileDirectory: "d", api.FileSymlink: "l", api.FilePipe: "p", api.FileSocket: "s", api.FileDevice: "c"}
	text := first(kinds[file.Type], "-")
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
	return size(file.Size)
}

// named is a file's name with what it is.
func named(file api.File, name string) cell {
	switch file.Type {
	case api.FileDirectory:
		return cell{name + "/", bold}
	case api.FileSymlink:
		return plain(name + " -> " + file.Target)
	case api.FileRegular:
		return plain(name)
	}
	return cell{name, yellow}
}

package files

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/tarball"
	"github.com/berthdev/berth/internal/cli/ui"
)

const cpHelp = `Copy files and folders into a sandbox or out of it. Files of an archived or terminated sandbox are read
from its newest version; copying into such a sandbox starts it first. One side is NAME:PATH, the other a
path on this machine; write ./a:b for a local name with a colon. Paths in a sandbox are relative to
/workspace, or absolute paths below /workspace or /home/agent (~).

Destinations:
  DST is a folder, or ends in /   copy into that folder, under the same name
  DST does not exist              copy to DST; missing folders are created
  SRC ends in /.                  copy the contents of the folder, without the folder itself
  SRC or DST is -                 read a tar from stdin, or write one to stdout

A file replaces another file, completely or not at all, and never a folder. Links within a folder are
copied as links; pipes, sockets and devices are skipped and listed. When copying out of a sandbox, links
that lead out of the folder are skipped, too, and nothing is written outside of DST.`

func (a *app) cp() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into a sandbox or out of it",
		Long:  cpHelp,
		Example: `  berth cp notes.txt scratch:
  berth cp ./src scratch:project/
  berth cp scratch:results .
  berth cp scratch:. backup/
  berth cp scratch:results - | tar tv`,
		Args:              ui.Args(2, 2, "SRC and DST, one of them NAME:PATH"),
		ValidArgsFunction: a.completeCp,
		PreRunE:           a.ResolveSandboxes(2),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runCp(ctx, args[0], args[1]) }),
	}
	a.Online(cmd)
	cmd.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "print nothing but errors")
	return cmd
}

// copyJob is one run of berth cp.
type copyJob struct {
	a     *app
	c     *remote.Connection
	ctx   context.Context
	there sandboxPath
	here  string // path on this machine; -: stdin or stdout
}

// copied is the JSON output of berth cp.
type copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	tarball.Tally
	DurationMS int64 `json:"duration_ms"`
}

func (a *app) runCp(ctx context.Context, src, dst string) error {
	srcRef, srcPath, fromThere := cutRef(src)
	dstRef, dstPath, toThere := cutRef(dst)
	switch {
	case fromThere && toThere:
		return ui.Usage("both sides are in sandboxes", fmt.Sprintf("Copy a folder from one to the other with: berth cp %s - | berth cp - %s", src, dst))
	case !fromThere && !toThere:
		return ui.Usage("both sides are on this machine", "Write NAME:PATH for the one in a sandbox.")
	}
	cp := &copyJob{a: a, ctx: ctx}
	do, err := cp.in, error(nil)
	if fromThere {
		cp.here, do = dst, cp.out
		cp.there, err = parsePathIn(srcRef, srcPath)
	} else {
		cp.here = src
		cp.there, err = parsePathIn(dstRef, dstPath)
	}
	if err != nil {
		return err
	}
	if cp.c, err = a.Connect(client.WithTimeout(time.Hour)); err != nil {
		return err
	}
	return cp.c.NotFoundHint(ctx, cp.there.ref, cp.runAndPrint(do))
}

// runAndPrint runs do and prints its result.
func (cp *copyJob) runAndPrint(do func() (copied, error)) error {
	a, start := cp.a, cp.a.Now()
	done, err := do()
	if err != nil {
		if cp.ctx.Err() != nil {
			a.Notef("berth: interrupted; what was copied before stays")
		}
		return err
	}
	took := a.Now().Sub(start)
	done.DurationMS = took.Milliseconds()
	switch {
	case cp.here == "-" && done.To == "-":
	case a.JSON:
		return ui.WriteJSON(a.Out, done)
	case !a.Quiet:
		fmt.Fprintf(a.Out, "copied %s to %s (%s)\n", amount(done.Tally), ui.Clean(done.To), ui.Brief(took))
	}
	a.printLeftOut(done.Left)
	return nil
}

func amount(t tarball.Tally) string {
	text := ui.Plural(t.Files, "file", "files")
	if t.Folders > 0 {
		text += ", " + ui.Plural(t.Folders, "folder", "folders")
	}
	if t.Links > 0 {
		text += ", " + ui.Plural(t.Links, "link", "links")
	}
	return text + ", " + ui.Size(t.Bytes)
}

const maxLeftOut = 10

// printLeftOut prints the first names of the files that were left out, and the reasons.
func (a *app) printLeftOut(left []tarball.Left) {
	for i, l := range left {
		if i == maxLeftOut {
			a.Notef("berth: … and %d more", len(left)-i)
			return
		}
		if l.Name == "" {
			a.Notef("berth: %s", ui.Clean(l.Why))
			continue
		}
		a.Notef("berth: left out %s: %s", ui.Clean(l.Name), ui.Clean(l.Why))
	}
}

// begin shows progress until end is called. watch reports the copied files and bytes.
func (cp *copyJob) begin(what string, total int64) (watch tarball.Watch, end func()) {
	p := cp.a.Progress("copying "+ui.Clean(what), total)
	return p.Add, p.Stop
}

// kind returns the type of the entry at a path, or the empty string if there is none. A link to a folder has the type
// of a folder.
func (cp *copyJob) kind(at sandboxPath) (kind string, file api.File, err error) {
	if at.path == "" {
		return api.FileDirectory, file, nil
	}
	file, err = cp.c.Sandboxes.StatFile(cp.ctx, at.ref, at.source, at.path)
	switch {
	case remote.IsCode(err, api.CodeFileNotFound):
		return "", file, nil
	case err == nil && file.Type == api.FileSymlink && cp.leadsToFolder(at):
		return api.FileDirectory, file, nil
	}
	return file.Type, file, err
}

func (cp *copyJob) leadsToFolder(at sandboxPath) bool {
	for _, err := range cp.c.Sandboxes.ListFiles(cp.ctx, at.ref, client.FileFilter{Source: at.source, Path: at.path}) {
		return err == nil
	}
	return true // an empty folder
}

// completeCp completes names of sandboxes with a colon after them. If no sandbox matches, the shell completes names of
// files.
func (a *app) completeCp(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	fits, _ := a.CompleteSandboxes(-1)(cmd, nil, typed)
	for i, fit := range fits {
		fits[i] = colon(fit)
	}
	return fits, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// isFolder reports whether a path on this machine is a folder.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// colon appends a colon to the word of a completion.
func colon(fit cobra.Completion) cobra.Completion {
	word, about, ok := strings.Cut(fit, "\t")
	if !ok {
		return word + ":"
	}
	return word + ":\t" + about
}

package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/tarball"
)

const cpHelp = `Copy files and folders into a sandbox or out of it. Out of an archived or terminated one they come
from its newest version; copying into it brings it back first. One side is NAME:PATH, the
other a path of this machine; write ./a:b for a local name with a colon. Paths in a sandbox are below
/workspace, where relative ones begin, or below /home/agent (~).

Where it goes:
  DST is a folder, or ends in /   into that folder, under its own name
  DST is not there                it becomes DST; missing folders are made
  SRC ends in /.                  what is in the folder goes into DST, without the folder itself
  SRC or DST is -                 a tar from stdin, or to stdout

Files replace files, whole or not at all, and never a folder. Links within a folder are copied as
links; pipes, sockets and devices are left out and named. Of what comes out of a sandbox, links that
lead out of the folder are left out, too, and nothing is ever written outside of DST.`

func (f *frame) cp() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into a sandbox or out of it",
		Long:  cpHelp,
		Example: `  berth cp notes.txt scratch:
  berth cp ./src scratch:project/
  berth cp scratch:results .
  berth cp scratch:. backup/
  berth cp scratch:results - | tar tv`,
		Args:              takes(2, 2, "SRC and DST, one of them NAME:PATH"),
		ValidArgsFunction: f.completeCp,
		RunE:              run(func(ctx context.Context, args []string) error { return f.runCp(ctx, args[0], args[1]) }),
	}
	f.online(cmd)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	return cmd
}

// copying is one copy on its way.
type copying struct {
	f     *frame
	c     *connection
	ctx   context.Context
	there place
	here  string // a path of this machine; -: stdin or stdout
}

// copied is what --json prints.
type copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	tarball.Tally
	DurationMS int64 `json:"duration_ms"`
}

func (f *frame) runCp(ctx context.Context, src, dst string) error {
	srcRef, srcPath, fromThere := cutPlace(src)
	dstRef, dstPath, toThere := cutPlace(dst)
	switch {
	case fromThere && toThere:
		return &usageError{"both sides are in sandboxes", fmt.Sprintf("Copy a folder from one to the other with: berth cp %s - | berth cp - %s", src, dst)}
	case !fromThere && !toThere:
		return &usageError{"both sides are on this machine", "Write NAME:PATH for the one in a sandbox."}
	}
	cp := &copying{f: f, ctx: ctx}
	do, err := cp.in, error(nil)
	if fromThere {
		cp.here, do = dst, cp.out
		cp.there, err = placeIn(srcRef, srcPath)
	} else {
		cp.here = src
		cp.there, err = placeIn(dstRef, dstPath)
	}
	if err != nil {
		return err
	}
	if cp.c, err = f.connect(client.WithTimeout(time.Hour)); err != nil {
		return err
	}
	return cp.c.about(ctx, cp.there.ref, cp.tell(do))
}

// tell does it and says what it came to.
func (cp *copying) tell(do func() (copied, error)) error {
	f, start := cp.f, cp.f.now()
	done, err := do()
	if err != nil {
		if cp.ctx.Err() != nil {
			f.notef("berth: interrupted; what was copied before stays")
		}
		return err
	}
	took := f.now().Sub(start)
	done.DurationMS = took.Milliseconds()
	switch {
	case cp.here == "-" && done.To == "-":
	case f.json:
		return writeJSON(f.out, done)
	case !f.quiet:
		fmt.Fprintf(f.out, "copied %s to %s (%s)\n", amount(done.Tally), clean(done.To), brief(took))
	}
	f.tellLeft(done.Left)
	return nil
}

func amount(t tarball.Tally) string {
	text := plural(t.Files, "file", "files")
	if t.Folders > 0 {
		text += ", " + plural(t.Folders, "folder", "folders")
	}
	if t.Links > 0 {
		text += ", " + plural(t.Links, "link", "links")
	}
	return text + ", " + size(t.Bytes)
}

const mostLeft = 10

// tellLeft names what was left out, the first of it.
func (f *frame) tellLeft(left []tarball.Left) {
	for i, l := range left {
		if i == mostLeft {
			f.notef("berth: … and %d more", len(left)-i)
			return
		}
		if l.Name == "" {
			f.notef("berth: %s", clean(l.Why))
			continue
		}
		f.notef("berth: left out %s: %s", clean(l.Name), clean(l.Why))
	}
}

// begin shows progress until the returned function is called.
func (cp *copying) begin(what string, total int64) (watch tarball.Watch, end func()) {
	p := cp.f.progress("copying "+clean(what), total)
	return p.add, p.stop
}

// kind is what is at a place: a kind of the api, or empty if there is nothing. A link is what it leads to,
// where that is a folder.
func (cp *copying) kind(at place) (kind string, file api.File, err error) {
	if at.path == "" {
		return api.FileDirectory, file, nil
	}
	file, err = cp.c.Sandboxes.StatFile(cp.ctx, at.ref, at.source, at.path)
	switch {
	case isCode(err, api.CodeFileNotFound):
		return "", file, nil
	case err == nil && file.Type == api.FileSymlink && cp.leadsToFolder(at):
		return api.FileDirectory, file, nil
	}
	return file.Type, file, err
}

func (cp *copying) leadsToFolder(at place) bool {
	for _, err := range cp.c.Sandboxes.ListFiles(cp.ctx, at.ref, client.FileFilter{Source: at.source, Path: at.path}) {
		return err == nil
	}
	return true // it can be listed, and is empty
}

// completeCp offers sandboxes with the colon that their paths follow; where none fits, the shell offers
// files.
func (f *frame) completeCp(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	fits, _ := f.completeSandboxes(-1)(cmd, nil, typed)
	for i, fit := range fits {
		fits[i] = colon(fit)
	}
	return fits, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// isFolder says whether a path of this machine is one.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

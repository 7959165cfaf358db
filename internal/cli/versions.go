package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

// saves are the verbs of what is saved of sandboxes.
func (f *frame) saves() []*cobra.Command {
	return []*cobra.Command{f.versions(), f.diff(), f.sync(), f.restore(), f.prune(), f.verify()}
}

func (f *frame) versions() *cobra.Command {
	var most limit
	cmd := &cobra.Command{
		Use:   "versions ID|NAME [VERSION]",
		Short: "List the saved versions of a sandbox's workspace",
		Long: `List the saved versions of a sandbox's workspace, newest first, or show what one of them changed against the
one before it: A for added, M for modified, D for deleted, R for renamed. Those of a deleted sandbox are found by its id.

Wherever a version is asked for, the beginning or the end of its name is enough.`,
		Example:           "  berth versions scratch\n  berth versions scratch --limit 5 --json\n  berth versions scratch 1a2b3c",
		Args:              takes(1, 2, "the ID or NAME of one sandbox, and at most one VERSION"),
		ValidArgsFunction: f.completeVersions(1),
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		if len(args) == 2 {
			return f.runVersion(ctx, args[0], args[1])
		}
		return f.runVersions(ctx, args[0], most)
	})
	f.quietly(cmd, "their names, or the paths that one changed")
	limited(f.online(cmd), &most)
	return cmd
}

func (f *frame) runVersions(ctx context.Context, ref string, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.known(ctx, ref, show(f, c.Sandboxes.Versions(ctx, ref), listing[api.Version]{
		columns: []string{"VERSION", "SAVED", "FILES", "SIZE", "NOTE"},
		row: func(v api.Version) []cell {
			return []cell{{v.ID, bold}, plain(f.when(v.CreatedAt)), plain(strconv.Itoa(v.Files)), plain(size(v.Bytes)), plain(orDash(v.Note))}
		},
		id:    func(v api.Version) string { return v.ID },
		empty: "There is no version of it: 'berth sync " + clean(ref) + "' saves one now, and its end does so by itself; those of a deleted sandbox go after a while.",
		limit: int(most),
	}))
}

func (f *frame) runVersion(ctx context.Context, ref, typed string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	id, err := c.version(ctx, ref, typed)
	if err != nil {
		return c.known(ctx, ref, err)
	}
	v, err := c.Sandboxes.Version(ctx, ref, id)
	switch {
	case err != nil:
		return c.known(ctx, ref, err)
	case f.json:
		return writeJSON(f.out, v)
	case !f.quiet:
		about := fmt.Sprintf("%s  saved %s, %s, %s", f.out.paint(bold, clean(v.ID)), f.when(v.CreatedAt), plural(v.Files, "file", "files"), size(v.Bytes))
		if v.Note != "" {
			about += "\n" + clean(v.Note)
		}
		fmt.Fprintln(f.out, about)
	}
	return f.tellVersionDiff(v.Changes)
}

// version finds the version that somebody typed a part of. One that is typed whole is not looked for.
func (c *connection) version(ctx context.Context, ref, typed string) (string, error) {
	if strings.Contains(typed, "Z-") && strings.Contains(typed, "T") {
		return typed, nil
	}
	var fits []string
	for v, err := range c.Sandboxes.Versions(ctx, ref) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(v.ID, typed) || strings.HasSuffix(v.ID, typed) {
			fits = append(fits, v.ID)
		}
	}
	switch {
	case typed == "" || len(fits) == 0:
		return "", refusal(api.CodeUnknownVersion, "'berth versions "+clean(ref)+"' lists them.", "there is no version %q of %s", typed, ref)
	case len(fits) > 1:
		return "", refusal(api.CodeUnknownVersion, "Type more of it: "+strings.Join(fits[:min(len(fits), 5)], ", ")+".", "%d versions of %s are called like %q", len(fits), ref, typed)
	}
	return fits[0], nil
}

// completeVersions offers sandboxes first, and then most versions of the one that was named.
func (f *frame) completeVersions(most int) cobra.CompletionFunc {
	sandboxes := f.completeSandboxes(1)
	return func(cmd *cobra.Command, args []string, typed string) (fits []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) == 0 || len(args) > most {
			return sandboxes(cmd, args, typed)
		}
		f.quiet = true
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		c, err := f.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for v, err := range c.Sandboxes.Versions(ctx, args[0]) {
			if err != nil || len(fits) == mostCompletions {
				break
			}
			fits = append(fits, cobra.CompletionWithDesc(clean(v.ID), clean(first(v.Note, f.when(v.CreatedAt)))))
		}
		return fits, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Package versions implements the commands that save and restore workspaces: those of sandboxes through a server, and
// local directories with an object store.
package versions

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// OpenStore opens the object store at an address. It returns nil without an error for the address "none".
type OpenStore func(ctx context.Context, address string) (blob.Store, error)

type app struct {
	*remote.Remote
	OpenStore OpenStore
}

// Commands returns the commands for versions of sandboxes.
func Commands(r *remote.Remote) []*cobra.Command { return (&app{Remote: r}).commands() }

// Workspace returns the command for versions of local directories.
func Workspace(r *remote.Remote, open OpenStore) *cobra.Command {
	return (&app{r, open}).dir()
}

// commands returns the commands for versions of sandboxes.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{a.versions(), a.diff(), a.sync(), a.restore(), a.prune(), a.verify()}
}

func (a *app) versions() *cobra.Command {
	var most ui.Limit
	cmd := &cobra.Command{
		Use:   "versions ID|NAME [VERSION]",
		Short: "List the saved versions of a sandbox's workspace",
		Long: `List the saved versions of a sandbox's workspace, newest first, or show the changes of one of them since
the version before it: A for added, M for modified, D for deleted, R for renamed. Give the id of a
deleted sandbox to see its versions.

Instead of the id of a version, its beginning or its end is enough.`,
		Example:           "  berth versions scratch\n  berth versions scratch --limit 5 --json\n  berth versions scratch 1a2b3c",
		Args:              ui.Args(1, 2, "the ID or NAME of one sandbox, and at most one VERSION"),
		ValidArgsFunction: a.completeVersions(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		if len(args) == 2 {
			return a.runVersion(ctx, args[0], args[1])
		}
		return a.runVersions(ctx, args[0], most)
	})
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "their names, or the paths that one changed")
	ui.LimitFlag(a.Online(cmd), &most)
	return cmd
}

func (a *app) runVersions(ctx context.Context, ref string, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.ExistingHint(ctx, ref, ui.Show(a.UI, c.Sandboxes.Versions(ctx, ref), ui.Listing[api.Version]{
		Columns: []string{"VERSION", "SAVED", "FILES", "SIZE", "NOTE"},
		Drop:    []string{"FILES"},
		Row: func(v api.Version) []ui.Cell {
			return []ui.Cell{ui.Coloured(a.ShortVersion(v.ID), ui.Bold), ui.Plain(a.Time(v.CreatedAt)),
				ui.Plain(strconv.Itoa(v.Files)), ui.Plain(ui.Size(v.Bytes)), ui.Plain(ui.OrDash(v.Note))}
		},
		ID:    func(v api.Version) string { return v.ID },
		Empty: "There is no version of it: 'berth sync " + ui.Clean(ref) + "' saves one now, and its end does so by itself; those of a deleted sandbox go after a while.",
		Limit: int(most),
	}))
}

func (a *app) runVersion(ctx context.Context, ref, typed string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	id, err := findVersion(ctx, c, ref, typed)
	if err != nil {
		return c.ExistingHint(ctx, ref, err)
	}
	v, err := c.Sandboxes.Version(ctx, ref, id)
	switch {
	case err != nil:
		return c.ExistingHint(ctx, ref, err)
	case a.JSON:
		return ui.WriteJSON(a.Out, v)
	case !a.Quiet:
		about := fmt.Sprintf("%s  saved %s, %s, %s", a.Out.Paint(ui.Bold, ui.Clean(v.ID)), a.Time(v.CreatedAt), ui.Plural(v.Files, "file", "files"), ui.Size(v.Bytes))
		if v.Note != "" {
			about += "\n" + ui.Clean(v.Note)
		}
		a.Printf("%s", about)
	}
	return a.printVersionDiff(v.Changes)
}

// findVersion completes a part of a version's id. It returns a whole id unchanged.
func findVersion(ctx context.Context, c *remote.Connection, ref, typed string) (string, error) {
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
		return "", hintedError(api.CodeUnknownVersion, "'berth versions "+ui.Clean(ref)+"' lists them.", "there is no version %q of %s", typed, ref)
	case len(fits) > 1:
		return "", hintedError(api.CodeUnknownVersion, "Type more of it: "+strings.Join(fits[:min(len(fits), 5)], ", ")+".", "%d versions of %s are called like %q", len(fits), ref, typed)
	}
	return fits[0], nil
}

// completeVersions completes a sandbox, and then up to most versions of that sandbox.
func (a *app) completeVersions(most int) cobra.CompletionFunc {
	sandboxes := a.CompleteSandboxes(1)
	return func(cmd *cobra.Command, args []string, typed string) (fits []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) == 0 || len(args) > most {
			return sandboxes(cmd, args, typed)
		}
		a.Quiet = true
		ctx, cancel := context.WithTimeout(cmd.Context(), remote.CompletionTimeout)
		defer cancel()
		c, err := a.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for v, err := range c.Sandboxes.Versions(ctx, args[0]) {
			if err != nil || len(fits) == remote.MaxCompletions {
				break
			}
			fits = append(fits, cobra.CompletionWithDesc(ui.Clean(v.ID), ui.Clean(ui.First(v.Note, a.Time(v.CreatedAt)))))
		}
		return fits, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/sandbox"
)

func (a *app) ls() *cobra.Command {
	var most ui.Limit
	var filter client.SandboxFilter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List sandboxes",
		Long:    "List the sandboxes that your key may see, newest first.",
		Example: "  berth ls\n  berth ls --state running --json\n  berth ls -q",
		Args:    a.noName,
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runLs(ctx, filter, most) }),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &most)
	flags := cmd.Flags()
	flags.StringVar(&filter.State, "state", "", "only those in this `STATE`, such as running")
	flags.BoolVar(&filter.Deleted, "deleted", false, "list deleted sandboxes; 'berth create --from ID' makes a new one from the last version")
	flags.StringVar(&filter.Driver, "driver", "", "only those of this `DRIVER`")
	flags.StringVar(&filter.Template, "template", "", "only those of this `TEMPLATE`")
	a.QuietFlag(cmd, "ids")
	ui.Offer(cmd, "state", sandbox.States)
	ui.Offer(cmd, "driver", a.Drivers)
	ui.Offer(cmd, "template", []string{})
	return cmd
}

// noName refuses arguments. The error names the commands that list files or show one sandbox.
func (a *app) noName(cmd *cobra.Command, args []string) error {
	err := ui.Args(0, 0, "")(cmd, args)
	var usage *ui.UsageError
	if errors.As(err, &usage) {
		usage.Hint = fmt.Sprintf("'berth files %[1]s' lists the files in it, 'berth get %[1]s' shows the sandbox.", args[0])
	}
	return err
}

func (a *app) runLs(ctx context.Context, filter client.SandboxFilter, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	filter.Live = !filter.Deleted && !a.JSON && !a.Quiet
	if filter.Deleted {
		return c.Explain(ui.Show(a.UI, c.Sandboxes.List(ctx, filter), a.deletedList(most)))
	}
	return c.Explain(ui.Show(a.UI, c.Sandboxes.List(ctx, filter), ui.Listing[api.Sandbox]{
		Columns: []string{"NAME", "ID", "STATE", "DRIVER", "TEMPLATE", "CREATED", "ACTIVE", "UNSAVED"},
		Drop:    []string{"DRIVER", "CREATED", "TEMPLATE", "UNSAVED", "ACTIVE"},
		Row: func(s api.Sandbox) []ui.Cell {
			return []ui.Cell{a.nameOf(s), ui.Plain(a.ShortID(s.ID)), stateCell(s), ui.Plain(s.Driver),
				ui.Plain(s.Template), ui.Plain(a.Time(s.CreatedAt)), ui.Plain(a.Time(s.ActiveAt)), ui.Coloured(a.TimeOrDash(s.UnsavedSince), ui.Yellow)}
		},
		ID:    func(s api.Sandbox) string { return s.ID },
		Empty: noSandboxes(filter),
		Limit: int(most),
	}))
}

// deletedList returns the table of deleted sandboxes.
func (a *app) deletedList(most ui.Limit) ui.Listing[api.Sandbox] {
	return ui.Listing[api.Sandbox]{
		Columns: []string{"NAME", "ID", "DELETED", "TEMPLATE", "CREATED"},
		Drop:    []string{"CREATED", "TEMPLATE"},
		Row: func(s api.Sandbox) []ui.Cell {
			return []ui.Cell{a.nameOf(s), ui.Plain(a.ShortID(s.ID)), ui.Plain(a.TimeOrDash(s.DeletedAt)), ui.Plain(s.Template), ui.Plain(a.Time(s.CreatedAt))}
		},
		ID:    func(s api.Sandbox) string { return s.ID },
		Empty: "No deleted sandboxes.",
		Limit: int(most),
	}
}

// stateCell returns a sandbox's state, and whether it is frozen or out of memory.
func stateCell(s api.Sandbox) ui.Cell {
	text, colour := s.State, ui.StateColour(s.State)
	if s.Frozen {
		text, colour = text+", frozen", ui.Dim
	}
	if s.OOMKills > 0 {
		text, colour = text+", out of memory", ui.Red
	}
	return ui.Coloured(text, colour)
}

// nameOf returns a sandbox's name, or its owner if it has no name.
func (a *app) nameOf(s api.Sandbox) ui.Cell {
	if s.Name == "" && s.Owner.Kind != "" && s.Owner.Kind != string(sandbox.OwnerSandbox) {
		return ui.Coloured("("+s.Owner.Kind+" "+a.ShortID(s.Owner.ID)+")", ui.Dim)
	}
	return ui.Plain(ui.OrDash(s.Name))
}

func noSandboxes(filter client.SandboxFilter) string {
	filter.Live = false
	if filter != (client.SandboxFilter{}) {
		return "No sandbox is like that. 'berth ls' alone lists all."
	}
	return "No sandboxes yet. 'berth create NAME' makes one."
}

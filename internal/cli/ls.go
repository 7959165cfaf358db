package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/sandbox"
)

func (f *frame) ls() *cobra.Command {
	var most limit
	var filter client.SandboxFilter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List sandboxes",
		Long:    "List the sandboxes that your key may see, newest first.",
		Example: "  berth ls\n  berth ls --state running --json\n  berth ls -q",
		Args:    f.noName,
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runLs(ctx, filter, most) }),
	}
	limited(f.online(cmd), &most)
	flags := cmd.Flags()
	flags.StringVar(&filter.State, "state", "", "only those in this `STATE`, such as running")
	flags.StringVar(&filter.Driver, "driver", "", "only those of this `DRIVER`")
	flags.StringVar(&filter.Template, "template", "", "only those of this `TEMPLATE`")
	f.quietly(cmd, "ids")
	offer(cmd, "state", sandbox.States)
	offer(cmd, "driver", f.Drivers)
	offer(cmd, "template", []string{})
	return cmd
}

// noName sends those on who look for what is in a sandbox.
func (f *frame) noName(cmd *cobra.Command, args []string) error {
	err := takes(0, 0, "")(cmd, args)
	var usage *usageError
	if errors.As(err, &usage) {
		usage.hint = fmt.Sprintf("'berth files %[1]s' lists the files in it, 'berth get %[1]s' shows the sandbox.", args[0])
	}
	return err
}

func (f *frame) runLs(ctx context.Context, filter client.SandboxFilter, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.explain(show(f, c.Sandboxes.List(ctx, filter), listing[api.Sandbox]{
		columns: []string{"NAME", "ID", "STATE", "DRIVER", "TEMPLATE", "CREATED", "ACTIVE", "UNSAVED"},
		row: func(s api.Sandbox) []cell {
			return []cell{nameOf(s), plain(s.ID), {s.State, stateColour(s.State)}, plain(s.Driver),
				plain(s.Template), plain(f.when(s.CreatedAt)), plain(f.when(s.ActiveAt)), {f.whenever(s.UnsavedSince), yellow}}
		},
		id:    func(s api.Sandbox) string { return s.ID },
		empty: noSandboxes(filter),
		limit: int(most),
	}))
}

// nameOf is a sandbox's name, or whom it belongs to.
func nameOf(s api.Sandbox) cell {
	if s.Name == "" && s.Owner.Kind != "" && s.Owner.Kind != string(sandbox.OwnerSandbox) {
		return cell{"(" + s.Owner.Kind + " " + s.Owner.ID + ")", dim}
	}
	return plain(orDash(s.Name))
}

func noSandboxes(filter client.SandboxFilter) string {
	if filter != (client.SandboxFilter{}) {
		return "No sandbox is like that. 'berth ls' alone lists all."
	}
	return "No sandboxes yet. 'berth create NAME' makes one."
}

// stateColour is, for a state or a project's status, green for what works, red for what does not, yellow for what is on its way.
func stateColour(state string) colour {
	switch strings.ToLower(state) {
	case "running":
		return green
	case "error", "unhealthy":
		return red
	case "stopped", "archived", "terminated":
		return dim
	}
	return yellow
}

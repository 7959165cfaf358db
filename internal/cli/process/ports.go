package process

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) ports() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ports ID|NAME",
		Short: "List the ports that listen in a sandbox",
		Long: `List the TCP ports that listen in a sandbox, with the address at which the server forwards requests to
each. Requests to it need an API key. The sandbox must run; it is not started.`,
		Example:           "  berth ports scratch\n  curl -H \"Authorization: Bearer $BERTH_API_KEY\" $(berth ports scratch -q | head -1)",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runPorts(ctx, args[0]) }),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "addresses")
	return a.Online(cmd)
}

// openPort is a port that listens in a sandbox, in the form of the JSON output.
type openPort struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
	URL     string `json:"url"`
}

func (a *app) runPorts(ctx context.Context, ref string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	s, err := c.Sandboxes.Get(ctx, ref)
	if err == nil && s.State != "running" {
		return ui.Hint(api.NewProblem(api.CodeNotRunning, ui.Clean(ref)+" is "+s.State+", so nothing listens in it"), "'berth start "+ref+"' starts it.")
	}
	var listen []api.OpenPort
	if err == nil {
		listen, err = c.Sandboxes.Ports(ctx, ref)
	}
	if err != nil {
		return c.ExistingHint(ctx, ref, err)
	}
	found := []openPort{}
	for _, p := range listen {
		found = append(found, openPort{p.Port, p.Address, strings.TrimRight(c.Server, "/") + p.Path})
	}
	return ui.Show(a.UI, ui.Items(found, nil), ui.Listing[openPort]{
		Columns: []string{"PORT", "LISTENS ON", "ADDRESS"},
		Row: func(p openPort) []ui.Cell {
			return []ui.Cell{ui.Plain(strconv.Itoa(p.Port)), ui.Plain(p.Address), ui.Plain(p.URL)}
		},
		ID:    func(p openPort) string { return p.URL },
		Empty: "Nothing listens in it.",
	})
}

package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/sandbox"
)

func (a *app) agent() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "agent",
		Aliases: []string{"agents"},
		Short:   "Manage agents",
		Long: `An agent is a template with your own overrides: another model, another size, or variables such as a key.
'berth chat --agent NAME' talks with one. Creating and changing agents needs a key with the scope admin.`,
		Example: "  berth agent create reviewer --template claude_code --model opus -e GITHUB_TOKEN\n  berth chat --agent reviewer",
	}, a.agentCreate(), a.agentLs(), a.agentGet(), a.agentSet(), a.agentRm())
}

// agentFlags holds the flags of agent create and agent set.
type agentFlags struct {
	name, template, model, profile string
	env                            remote.EnvFlags
}

func (a *app) agentFlags(cmd *cobra.Command, given *agentFlags) {
	flags := cmd.Flags()
	flags.StringVar(&given.template, "template", "", "`TEMPLATE` that it changes (default: the server's)")
	flags.StringVar(&given.model, "model", "", "`MODEL` to ask")
	flags.StringVar(&given.profile, "profile", "", "`SIZE` of its sandboxes: lite, standard or full")
	a.EnvFlags(cmd, &given.env)
	ui.Offer(cmd, "profile", []string{"lite", "standard", "full"})
	for _, name := range []string{"template", "model"} {
		ui.Offer(cmd, name, []string{})
	}
}

// overrides are an agent's changes to its template, in the form of the API.
type overrides struct {
	Model   string            `json:"model,omitempty"`
	Profile string            `json:"profile,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// change returns the agent with the changes of the flags.
func (given agentFlags) change(a *app, is api.PutAgent) (api.PutAgent, error) {
	var o overrides
	if len(is.Overrides) > 0 {
		if err := json.Unmarshal(is.Overrides, &o); err != nil {
			return is, fmt.Errorf("read the agent's overrides: %w", err)
		}
	}
	env, err := a.ReadEnv(given.env.Given, given.env.File)
	if err != nil {
		return is, err
	}
	if o.Env == nil {
		o.Env = map[string]string{}
	}
	for name, value := range env {
		o.Env[name] = value
	}
	is.Name, is.Template = ui.First(given.name, is.Name), ui.First(given.template, is.Template)
	o.Model, o.Profile = ui.First(given.model, o.Model), ui.First(given.profile, o.Profile)
	is.Overrides, err = json.Marshal(o)
	return is, err
}

func (a *app) agentCreate() *cobra.Command {
	var given agentFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an agent",
		Long: `Create an agent: a template with your own overrides. Variables may be secrets; only keys with the scope
admin can read them.`,
		Example: "  berth agent create reviewer --template claude_code --model opus\n  berth agent create ci -e GITHUB_TOKEN --profile full",
		Args:    ui.Args(1, 1, "one NAME"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			given.name = args[0]
			return a.runAgentCreate(ctx, given)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.agentFlags(cmd, &given)
	a.QuietFlag(cmd, "the id")
	return a.Online(cmd)
}

func (a *app) runAgentCreate(ctx context.Context, given agentFlags) error {
	want, err := given.change(a, api.PutAgent{})
	if err != nil {
		return err
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	made, err := c.Agents.Create(ctx, want)
	if err != nil {
		return c.Explain(err)
	}
	return a.showAgent(made)
}

func (a *app) showAgent(agent api.Agent) error {
	switch {
	case a.JSON:
		return ui.WriteJSON(a.Out, agent)
	case a.Quiet:
		_, err := fmt.Fprintln(a.Out, ui.Clean(agent.ID))
		return err
	}
	return a.Details([]ui.Detail{
		{"id", agent.ID}, {"name", agent.Name}, {"template", agent.Template}, {"overrides", string(agent.Overrides)},
		{"created", a.Time(agent.CreatedAt)}, {"changed", a.Time(agent.UpdatedAt)},
	})
}

func (a *app) agentLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List agents",
		Long:    "List the agents of your tenant, newest first.",
		Example: "  berth agent ls\n  berth agent ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return c.Explain(ui.Show(a.UI, c.Agents.List(ctx), ui.Listing[api.Agent]{
				Columns: []string{"ID", "NAME", "TEMPLATE", "OVERRIDES", "CREATED"},
				Drop:    []string{"CREATED", "OVERRIDES"},
				Row: func(agent api.Agent) []ui.Cell {
					return []ui.Cell{ui.Plain(a.ShortID(agent.ID)), ui.Plain(ui.OrDash(agent.Name)),
						ui.Plain(ui.OrDash(agent.Template)), ui.Plain(a.Abridge(ui.Clean(string(agent.Overrides)), 60)),
						ui.Plain(a.Time(agent.CreatedAt))}
				},
				ID:    func(agent api.Agent) string { return agent.ID },
				Empty: "No agents yet. 'berth agent create NAME' makes one.",
			}))
		}),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "ids")
	return a.Online(cmd)
}

func (a *app) agentGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ID|NAME",
		Aliases: []string{"show"},
		Short:   "Show one agent",
		Long:    "Show one agent. The values of its variables are masked for keys without the scope admin.",
		Example: "  berth agent get reviewer --json",
		Args:    ui.Args(1, 1, "the ID or NAME of one agent"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			agent, err := findAgent(ctx, c, args[0])
			if err != nil {
				return c.Explain(err)
			}
			return a.showAgent(agent)
		}),
		ValidArgsFunction: a.completeAgents,
		PreRunE:           a.Resolve(agentIDs, 1),
	}
	return a.Online(cmd)
}

func (a *app) agentSet() *cobra.Command {
	var given agentFlags
	cmd := &cobra.Command{
		Use:     "set ID|NAME",
		Aliases: []string{"update"},
		Short:   "Change an agent",
		Long: `Change an agent. Settings without a flag keep their values. Existing conversations use the changed
agent; variables apply only to sandboxes that are created later.`,
		Example: "  berth agent set reviewer --model sonnet\n  berth agent set reviewer --name critic",
		Args:    ui.Args(1, 1, "the ID or NAME of one agent"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			return a.runAgentSet(ctx, args[0], given)
		}),
		ValidArgsFunction: a.completeAgents,
		PreRunE:           a.Resolve(agentIDs, 1),
	}
	a.agentFlags(cmd, &given)
	cmd.Flags().StringVar(&given.name, "name", "", "`NAME` to give it")
	return a.Online(cmd)
}

func (a *app) runAgentSet(ctx context.Context, ref string, given agentFlags) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	is, err := findAgent(ctx, c, ref)
	if err != nil {
		return c.Explain(err)
	}
	want, err := given.change(a, api.PutAgent{Name: is.Name, Template: is.Template, Overrides: is.Overrides})
	if err != nil {
		return err
	}
	if is, err = c.Agents.Put(ctx, is.ID, want); err != nil {
		return c.Explain(err)
	}
	return a.showAgent(is)
}

func (a *app) agentRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID|NAME...",
		Aliases: []string{"delete"},
		Short:   "Delete agents for good",
		Long: `Delete agents for good. At a terminal it asks first. Existing conversations with a deleted agent still
work.`,
		Example: "  berth agent rm reviewer",
		Args:    ui.Args(1, -1, "the ID or NAME of at least one agent"),
		RunE: ui.Run(func(ctx context.Context, refs []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.RemoveEach(ctx, remote.Removal{
				Question: "Delete agent %s for good?",
				Word:     "deleted",
				Find: func(ctx context.Context, ref string) error {
					_, err := findAgent(ctx, c, ref)
					return c.Explain(err)
				},
				Do: func(ctx context.Context, ref string) error {
					agent, err := findAgent(ctx, c, ref)
					if err == nil {
						err = c.Agents.Delete(ctx, agent.ID)
					}
					return c.Explain(err)
				},
			}, refs)
		}),
		ValidArgsFunction: a.completeAgents,
	}
	a.YesFlag(cmd)
	return a.Online(cmd)
}

// findAgent returns the agent with an id or a name.
func findAgent(ctx context.Context, c *remote.Connection, ref string) (api.Agent, error) {
	if _, err := sandbox.ParseID(ref); err == nil {
		return c.Agents.Get(ctx, ref)
	}
	for agent, err := range c.Agents.List(ctx) {
		if err != nil || agent.Name == ref {
			return agent, err
		}
	}
	return api.Agent{}, ui.Hint(api.NewProblem(api.CodeNotFound, fmt.Sprintf("there is no agent with the name %q", ref)), "'berth agent ls' shows them.")
}

// agentIDs completes short ids of agents.
var agentIDs = remote.IDs{
	Many: "agents",
	Exact: func(ctx context.Context, c *remote.Connection, ref string) error {
		_, err := findAgent(ctx, c, ref)
		return err
	},
	All: func(ctx context.Context, c *remote.Connection) iter.Seq2[remote.Candidate, error] {
		return remote.Candidates(c.Agents.List(ctx), func(agent api.Agent) remote.Candidate {
			return remote.Candidate{Word: agent.ID, About: agent.Name}
		})
	},
}

func (a *app) completeAgents(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Agent, error] { return c.Agents.List(ctx) }
	return remote.Complete(cmd.Context(), a.Remote, args, list, func(agent api.Agent) remote.Candidate {
		return remote.Candidate{Word: ui.First(agent.Name, agent.ID), About: agent.Template}
	})
}

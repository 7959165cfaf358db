package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

func (f *frame) agent() *cobra.Command {
	return group(&cobra.Command{
		Use:     "agent",
		Aliases: []string{"agents"},
		Short:   "Make, list, change and delete agents",
		Long: `An agent is a template with changes of your own: another model, another size, variables such as a key.
'berth chat --agent NAME' talks with one. Making and changing them needs a key with the scope admin.`,
		Example: "  berth agent create reviewer --template claude_code --model opus -e GITHUB_TOKEN\n  berth chat --agent reviewer",
	}, f.agentCreate(), f.agentLs(), f.agentGet(), f.agentSet(), f.agentRm())
}

// agentFlags are what the flags of agent create and agent set say.
type agentFlags struct {
	name, template, model, profile string
	env                            environ
}

func (f *frame) agentFlags(cmd *cobra.Command, a *agentFlags) {
	flags := cmd.Flags()
	flags.StringVar(&a.template, "template", "", "`TEMPLATE` that it changes (default: the server's)")
	flags.StringVar(&a.model, "model", "", "`MODEL` to ask")
	flags.StringVar(&a.profile, "profile", "", "`SIZE` of its sandboxes: lite, standard or full")
	f.environFlags(cmd, &a.env)
	offer(cmd, "profile", []string{"lite", "standard", "full"})
	for _, name := range []string{"template", "model"} {
		offer(cmd, name, []string{})
	}
}

// overrides are what an agent changes, as the API has them.
type overrides struct {
	Model   string            `json:"model,omitempty"`
	Profile string            `json:"profile,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// change is the agent with what the flags say.
func (a agentFlags) change(f *frame, is api.PutAgent) (api.PutAgent, error) {
	var o overrides
	if len(is.Overrides) > 0 {
		if err := json.Unmarshal(is.Overrides, &o); err != nil {
			return is, fmt.Errorf("read the agent's overrides: %w", err)
		}
	}
	env, err := f.environment(a.env.given, a.env.file)
	if err != nil {
		return is, err
	}
	if o.Env == nil {
		o.Env = map[string]string{}
	}
	for name, value := range env {
		o.Env[name] = value
	}
	is.Name, is.Template = first(a.name, is.Name), first(a.template, is.Template)
	o.Model, o.Profile = first(a.model, o.Model), first(a.profile, o.Profile)
	is.Overrides, err = json.Marshal(o)
	return is, err
}

func (f *frame) agentCreate() *cobra.Command {
	var a agentFlags
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make an agent",
		Long:    "Make an agent: a template with changes of your own. Variables may be secrets; only keys with the scope admin can read them.",
		Example: "  berth agent create reviewer --template claude_code --model opus\n  berth agent create ci -e GITHUB_TOKEN --profile full",
		Args:    takes(1, 1, "one NAME"),
		RunE: run(func(ctx context.Context, args []string) error {
			a.name = args[0]
			return f.runAgentCreate(ctx, a)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.agentFlags(cmd, &a)
	f.quietly(cmd, "the id")
	return f.online(cmd)
}

func (f *frame) runAgentCreate(ctx context.Context, a agentFlags) error {
	want, err := a.change(f, api.PutAgent{})
	if err != nil {
		return err
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	made, err := c.Agents.Create(ctx, want)
	if err != nil {
		return c.explain(err)
	}
	return f.showAgent(made)
}

func (f *frame) showAgent(a api.Agent) error {
	switch {
	case f.json:
		return writeJSON(f.out, a)
	case f.quiet:
		_, err := fmt.Fprintln(f.out, clean(a.ID))
		return err
	}
	return f.details([]detail{
		{"id", a.ID}, {"name", a.Name}, {"template", a.Template}, {"overrides", string(a.Overrides)},
		{"created", f.when(a.CreatedAt)}, {"changed", f.when(a.UpdatedAt)},
	})
}

func (f *frame) agentLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List agents",
		Long:    "List the agents of your tenant, newest first.",
		Example: "  berth agent ls\n  berth agent ls --json",
		Args:    takes(0, 0, ""),
		RunE: run(func(ctx context.Context, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return c.explain(show(f, c.Agents.List(ctx), listing[api.Agent]{
				columns: []string{"ID", "NAME", "TEMPLATE", "OVERRIDES", "CREATED"},
				row: func(a api.Agent) []cell {
					return []cell{plain(a.ID), plain(orDash(a.Name)), plain(orDash(a.Template)), plain(cutTo(clean(string(a.Overrides)), 60)), plain(f.when(a.CreatedAt))}
				},
				id:    func(a api.Agent) string { return a.ID },
				empty: "No agents yet. 'berth agent create NAME' makes one.",
			}))
		}),
	}
	f.quietly(cmd, "ids")
	return f.online(cmd)
}

func (f *frame) agentGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ID|NAME",
		Aliases: []string{"show"},
		Short:   "Show one agent",
		Long:    "Show one agent. The values of its variables are masked for keys without the scope admin.",
		Example: "  berth agent get reviewer --json",
		Args:    takes(1, 1, "the ID or NAME of one agent"),
		RunE: run(func(ctx context.Context, args []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			a, err := c.agent(ctx, args[0])
			if err != nil {
				return c.explain(err)
			}
			return f.showAgent(a)
		}),
		ValidArgsFunction: f.completeAgents,
	}
	return f.online(cmd)
}

func (f *frame) agentSet() *cobra.Command {
	var a agentFlags
	cmd := &cobra.Command{
		Use:     "set ID|NAME",
		Aliases: []string{"update"},
		Short:   "Change an agent",
		Long: `Change an agent. What no flag names stays as it is. Conversations that are there go on with the change; variables
reach sandboxes that are made from then on.`,
		Example: "  berth agent set reviewer --model sonnet\n  berth agent set reviewer --name critic",
		Args:    takes(1, 1, "the ID or NAME of one agent"),
		RunE: run(func(ctx context.Context, args []string) error {
			return f.runAgentSet(ctx, args[0], a)
		}),
		ValidArgsFunction: f.completeAgents,
	}
	f.agentFlags(cmd, &a)
	cmd.Flags().StringVar(&a.name, "name", "", "`NAME` to give it")
	return f.online(cmd)
}

func (f *frame) runAgentSet(ctx context.Context, ref string, a agentFlags) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	is, err := c.agent(ctx, ref)
	if err != nil {
		return c.explain(err)
	}
	want, err := a.change(f, api.PutAgent{Name: is.Name, Template: is.Template, Overrides: is.Overrides})
	if err != nil {
		return err
	}
	if is, err = c.Agents.Put(ctx, is.ID, want); err != nil {
		return c.explain(err)
	}
	return f.showAgent(is)
}

func (f *frame) agentRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID|NAME...",
		Aliases: []string{"delete"},
		Short:   "Delete agents for good",
		Long:    "Delete agents for good. A terminal is asked first. Conversations that were made with them go on as they are.",
		Example: "  berth agent rm reviewer",
		Args:    takes(1, -1, "the ID or NAME of at least one agent"),
		RunE: run(func(ctx context.Context, refs []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return f.each(ctx, removal{
				question: "Delete agent %s for good?",
				word:     "deleted",
				do: func(ctx context.Context, ref string) error {
					a, err := c.agent(ctx, ref)
					if err == nil {
						err = c.Agents.Delete(ctx, a.ID)
					}
					return c.explain(err)
				},
			}, refs)
		}),
		ValidArgsFunction: f.completeAgents,
	}
	f.confirmed(cmd)
	return f.online(cmd)
}

// agent finds an agent by its id or its name.
func (c *connection) agent(ctx context.Context, ref string) (api.Agent, error) {
	if _, err := sandbox.ParseID(ref); err == nil {
		return c.Agents.Get(ctx, ref)
	}
	for a, err := range c.Agents.List(ctx) {
		if err != nil || a.Name == ref {
			return a, err
		}
	}
	return api.Agent{}, &hinted{fmt.Errorf("there is no agent with the name %q", ref), "'berth agent ls' shows them."}
}

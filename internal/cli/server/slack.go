package server

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) slack() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:   "slack",
		Short: "Manage Slack workspaces",
		Long: `Connect Slack workspaces, whose messages sandboxes of your tenant then answer: mentions, direct messages and threads.
Changes need a key with the scope admin. docs/how-to/slack.md has the way from nothing to the first answer.`,
		Example: "  berth slack manifest\n  berth slack connect\n  berth slack ls\n  berth slack check T024BE7LD",
	}, a.slackManifest(), a.slackConnect(), a.slackLs(), a.slackCheck(), a.slackDisconnect())
}

func (a *app) slackManifest() *cobra.Command {
	var events string
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Print the manifest of the app for Slack",
		Long: `Print the manifest of the app, to paste at Slack under "Create New App", "From a manifest". Without --events-url the
app uses Socket Mode, which needs no address that Slack can reach.`,
		Example: "  berth slack manifest\n  berth slack manifest --events-url https://berth.example.com/slack/events",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(context.Context, []string) error {
			_, err := fmt.Fprint(a.Out, slackManifest(events))
			return err
		}),
	}
	cmd.Flags().StringVar(&events, "events-url", "", "address of /slack/events on this server, for the Events API")
	return cmd
}

// slackManifest returns the app's manifest. An address for events switches Socket Mode off.
func slackManifest(events string) string {
	list := func(items []string) string { return "      - " + strings.Join(items, "\n      - ") + "\n" }
	request, socket := "", "true"
	if events != "" {
		request, socket = fmt.Sprintf("    request_url: %q\n", events), "false"
	}
	return `display_information:
  name: Berth
  description: Agents with a sandbox for each thread
features:
  app_home:
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  bot_user:
    display_name: berth
    always_online: true
oauth_config:
  scopes:
    bot:
` + list(api.SlackScopes) + `settings:
  event_subscriptions:
` + request + "    bot_events:\n" + list(api.SlackEvents) + `  interactivity:
    is_enabled: true
` + request + `  socket_mode_enabled: ` + socket + `
  org_deploy_enabled: false
  token_rotation_enabled: false
`
}

func (a *app) slackConnect() *cobra.Command {
	var want api.ConnectSlack
	var accounts bool
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect a Slack workspace",
		Long: `Connect the Slack workspace that an app is installed in, or replace its tokens. The bot token, and the app token (Socket
Mode) or the signing secret (Events API), are read from SLACK_BOT_TOKEN, SLACK_APP_TOKEN and SLACK_SIGNING_SECRET, or
asked for at a terminal and not shown. The server asks Slack about them and keeps them encrypted.`,
		Example: "  berth slack connect\n  SLACK_BOT_TOKEN=xoxb-… SLACK_APP_TOKEN=xapp-… berth slack connect --template coder",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := a.readSlackTokens(ctx, &want); err != nil {
				return err
			}
			want.CreateAccounts = &accounts
			w, err := c.Slack.Connect(ctx, want)
			if err != nil {
				return c.Explain(err)
			}
			if a.JSON {
				return ui.WriteJSON(a.Out, w)
			}
			a.Notef("%s (%s) is connected. Invite the app to a channel and mention it, or write to it directly.", ui.Clean(w.Name), ui.Clean(w.TeamID))
			return nil
		}),
	}
	cmd.Flags().StringVarP(&want.Template, "template", "t", "", "template of new threads; default: the server's")
	cmd.Flags().BoolVar(&accounts, "create-accounts", true, "create an account for a person in Slack who has none")
	return a.Online(cmd)
}

// readSlackTokens reads the tokens from the environment, or asks for them at a terminal.
func (a *app) readSlackTokens(ctx context.Context, want *api.ConnectSlack) error {
	file, _ := a.Stdin.(*os.File)
	ask := file != nil && ui.IsTerminal(file)
	for _, token := range []struct {
		into      *string
		name, say string
		wanted    func() bool
	}{
		{&want.BotToken, "SLACK_BOT_TOKEN", "Bot token, xoxb-… (not shown): ", func() bool { return true }},
		{&want.AppToken, "SLACK_APP_TOKEN", "App token for Socket Mode, xapp-…; empty: none (not shown): ", func() bool { return want.SigningSecret == "" }},
		{&want.SigningSecret, "SLACK_SIGNING_SECRET", "Signing secret for the Events API (not shown): ", func() bool { return want.AppToken == "" }},
	} {
		*token.into, _ = a.Env(token.name)
		if *token.into != "" || !ask || !token.wanted() {
			continue
		}
		typed, err := a.ReadHidden(ctx, file, token.say)
		if err != nil {
			return err
		}
		*token.into = strings.TrimSpace(typed)
	}
	if want.BotToken == "" {
		return ui.Usage("the bot token is missing", "Set SLACK_BOT_TOKEN, and SLACK_APP_TOKEN or SLACK_SIGNING_SECRET; 'berth slack manifest' prints the app that has them.")
	}
	return nil
}

func (a *app) slackLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the connected Slack workspaces",
		Long:    "List the Slack workspaces of your tenant. Tokens are never shown.",
		Example: "  berth slack ls\n  berth slack ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return c.Explain(ui.Show(a.UI, c.Slack.List(ctx), ui.Listing[api.SlackWorkspace]{
				Columns: []string{"TEAM", "NAME", "MODE", "TEMPLATE", "PROBLEM"},
				Row: func(w api.SlackWorkspace) []ui.Cell {
					return []ui.Cell{ui.Plain(w.TeamID), ui.Plain(w.Name), ui.Plain(w.Mode), ui.Plain(ui.OrDash(w.Template)), ui.Plain(ui.OrDash(w.Problem))}
				},
				ID:    func(w api.SlackWorkspace) string { return w.TeamID },
				Empty: "No Slack workspaces yet. 'berth slack connect' connects one.",
			}))
		}),
	}
	a.QuietFlag(cmd, "ids")
	return a.Online(cmd)
}

func (a *app) slackCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check TEAM",
		Short:   "Ask Slack whether the app works",
		Long:    "Ask Slack whether the tokens of a workspace work and whether the app has all scopes. A workspace that Slack had refused is tried again.",
		Example: "  berth slack check T024BE7LD",
		Args:    ui.Args(1, 1, "the TEAM of one workspace; 'berth slack ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			w, err := c.Slack.Check(ctx, args[0])
			switch {
			case err != nil:
				return c.Explain(err)
			case a.JSON:
				return ui.WriteJSON(a.Out, w)
			case w.Problem != "":
				return fmt.Errorf("%s (%s): %s", ui.Clean(w.Name), ui.Clean(w.TeamID), ui.Clean(w.Problem))
			}
			a.Notef("%s (%s) works.", ui.Clean(w.Name), ui.Clean(w.TeamID))
			return nil
		}),
	}
	return a.Online(cmd)
}

func (a *app) slackDisconnect() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "disconnect TEAM...",
		Aliases: []string{"rm"},
		Short:   "Disconnect Slack workspaces",
		Long:    "Disconnect Slack workspaces of your tenant. A terminal is asked first. Threads keep their sandboxes; messages that wait are not answered.",
		Example: "  berth slack disconnect T024BE7LD",
		Args:    ui.Args(1, -1, "the TEAM of at least one workspace; 'berth slack ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, teams []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.RemoveEach(ctx, remote.Removal{
				Question: "Disconnect Slack workspace %s? Its messages are no longer answered.",
				Word:     "disconnected",
				Do:       func(ctx context.Context, team string) error { return c.Explain(c.Slack.Disconnect(ctx, team)) },
			}, teams)
		}),
	}
	a.YesFlag(cmd)
	return a.Online(cmd)
}

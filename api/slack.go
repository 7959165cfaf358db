package api

import "time"

// SlackWorkspace is a Slack workspace whose messages a tenant's sandboxes answer. It never contains tokens.
type SlackWorkspace struct {
	TeamID    string    `json:"team_id" doc:"Slack's id of the workspace"`
	Name      string    `json:"name"`
	URL       string    `json:"url,omitempty"`
	Template  string    `json:"template,omitempty" doc:"The template of new threads; absent: the server's default"`
	Accounts  bool      `json:"create_accounts" doc:"People without an account get one with their first message"`
	Mode      string    `json:"mode" enum:"socket,events" doc:"How events arrive: by Socket Mode, or by the Events API"`
	Connected bool      `json:"connected" doc:"The server that answers has a connection of Socket Mode"`
	Missing   []string  `json:"missing_scopes,omitempty" doc:"Scopes that the app lacks; only in the answer of a check"`
	Problem   string    `json:"problem,omitempty" doc:"Why the app does not work, and what to do"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ConnectSlack is the request to connect a Slack workspace. The workspace is that of the bot token.
type ConnectSlack struct {
	BotToken      string `json:"bot_token" minLength:"5" maxLength:"500" doc:"The bot token of the installed app, xoxb-…"`
	AppToken      string `json:"app_token,omitempty" maxLength:"500" doc:"An app-level token with the scope connections:write, xapp-…, for Socket Mode"`
	SigningSecret string `json:"signing_secret,omitempty" maxLength:"500" doc:"The app's signing secret, for the Events API"`
	Template      string `json:"template,omitempty" maxLength:"63" doc:"The template of new threads; default: the server's"`

	CreateAccounts *bool `json:"create_accounts,omitempty" doc:"Whether people without an account get one with their first message; default: true"`
}

// SlackScopes are the scopes that the app needs in a Slack workspace.
var SlackScopes = []string{
	"app_mentions:read", "channels:history", "channels:read", "chat:write", "files:read", "files:write", "groups:history", "groups:read",
	"im:history", "im:read", "im:write", "mpim:history", "mpim:read", "reactions:read", "reactions:write", "users:read", "users:read.email",
}

// SlackEvents are the events that the app receives from Slack.
var SlackEvents = []string{"app_mention", "app_uninstalled", "channel_left", "group_left", "message.channels", "message.groups", "message.im", "message.mpim", "tokens_revoked"}

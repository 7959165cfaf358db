package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// storeWorkspace is a Slack workspace.
type storeWorkspace = store.SlackWorkspace

// Actions of buttons.
const (
	actionStop    = "berth_stop"
	actionPreview = "berth_preview"
	actionFiles   = "berth_files"
	actionUsage   = "berth_usage"
)

// buttons makes the buttons under an answer.
type buttons struct{ reply string }

func (b buttons) button(action, label string) slackgo.BlockElement {
	return slackgo.NewButtonBlockElement(action, b.reply, slackgo.NewTextBlockObject(slackgo.PlainTextType, label, false, false))
}

// running are the buttons while the turn runs.
func (b buttons) running() slackgo.Block {
	stop := b.button(actionStop, "Stop").(*slackgo.ButtonBlockElement)
	stop.Style = slackgo.StyleDanger
	return slackgo.NewActionBlock("berth", stop, b.button(actionPreview, "Open preview"), b.button(actionUsage, "Usage"))
}

// ended are the buttons after the turn.
func (b buttons) ended() slackgo.Block {
	return slackgo.NewActionBlock("berth", b.button(actionPreview, "Open preview"), b.button(actionFiles, "Files"), b.button(actionUsage, "Usage"))
}

// clicked is what Slack sends when a button is pressed.
type clicked struct {
	Type string `json:"type"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID string `json:"id"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		TS    string `json:"action_ts"`
	} `json:"actions"`
}

// click takes a press of a button. A stop is recorded as an event is; anything else is answered to the person alone, and
// lost if this process dies.
func (s *Service) click(ctx context.Context, payload []byte) error {
	var c clicked
	if err := json.Unmarshal(payload, &c); err != nil || c.Type != "block_actions" || len(c.Actions) == 0 {
		return nil
	}
	act := c.Actions[0]
	r, err := s.slack.Reply(ctx, act.Value)
	if errors.Is(err, fault.ErrNotFound) { // of a message that was forgotten, or a forged one
		return nil
	}
	if err != nil || r.Team != c.Team.ID || r.Channel != c.Channel.ID {
		return err
	}
	w, err := s.slack.Workspace(ctx, r.Team)
	if err != nil {
		return err
	}
	if act.ID == actionStop {
		var q request
		if err := json.Unmarshal(r.Request, &q); err != nil {
			return err
		}
		m := message{Type: "message", User: c.User.ID, Text: "stop", TS: act.TS, ThreadTS: r.ThreadTS, Channel: r.Channel}
		if user, direct := strings.CutPrefix(q.Key, "dm:"); direct {
			m.ChannelType, m.User = "im", user
		}
		stop := replyTo(w, m)
		if _, err = s.slack.Receive(ctx, r.Team, "click "+r.ID+" "+act.TS, store.SlackChange{Reply: stop, Stop: stop}); err == nil {
			s.wake()
		}
		return err
	}
	s.clicks.Go(func() { s.tell(context.WithoutCancel(ctx), w, r, c.User.ID, act.ID) })
	return nil
}

const tellTime = 30 * time.Second

// tell answers a button to the person who pressed it.
func (s *Service) tell(ctx context.Context, w storeWorkspace, r store.SlackReply, user, action string) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	var q request
	err := json.Unmarshal(r.Request, &q)
	if err != nil {
		return
	}
	var text string
	thread := Thread{Tenant: string(r.Tenant), Workspace: r.Team, Key: q.Key, Channel: r.Channel}
	o, err := s.opts.Threads.Show(ctx, thread)
	var previews []Preview
	if err == nil && action == actionPreview && o.isRunning() {
		if previews, err = s.opts.Threads.Previews(ctx, thread); err != nil && passes(err) {
			previews, err = nil, nil // such as those of another machine
		}
	}
	switch {
	case err != nil:
		text = failureText("I could not look", err)
	case action == actionPreview:
		text = o.previews(previews)
	case action == actionFiles:
		text = o.files()
	case action == actionUsage:
		text = o.usage()
	default:
		return
	}
	_, err = s.api(w).PostEphemeralContext(ctx, r.Channel, user, slackgo.MsgOptionText(text, false), slackgo.MsgOptionTS(r.ThreadTS), slackgo.MsgOptionDisableLinkUnfurl())
	if err != nil {
		s.opts.Log.WarnContext(ctx, "answer a button in Slack", "reply", r.ID, "error", err)
	}
}

func (o Overview) isRunning() bool { return o.Sandbox != "" && o.State == "running" }

func (o Overview) previews(all []Preview) string {
	switch {
	case !o.isRunning():
		return "The sandbox does not run now. Write a message, and it wakes up."
	case all == nil:
		return fmt.Sprintf("`berth ports %[1]s` lists what listens in the sandbox, and `berth open %[1]s PORT` makes a link to it.", o.Sandbox)
	case len(all) == 0:
		return "Nothing listens on a port in the sandbox."
	}
	var lines []string
	for _, p := range all {
		if p.URL == "" {
			lines = append(lines, fmt.Sprintf("• port %d: `berth open %s %d`", p.Port, o.Sandbox, p.Port))
			continue
		}
		lines = append(lines, fmt.Sprintf("• <%s|port %d>", p.URL, p.Port))
	}
	return strings.Join(lines, "\n") + "\nEveryone who has such a link can open it, for an hour."
}

func (o Overview) files() string {
	if len(o.Files) == 0 {
		return "No files were made for you in this thread. Ask for files in `output/display/`."
	}
	var lines []string
	for _, f := range o.Files {
		lines = append(lines, "• `"+escape(strings.ReplaceAll(oneLine(f), "`", "'"))+"`")
	}
	return clip(strings.Join(lines, "\n"), 3_000) + "\nAll of them: `berth files " + o.Sandbox + "`"
}

func (o Overview) usage() string {
	s := o.Stats
	return fmt.Sprintf("%s in this thread · %d tokens in, %d out · $%.2f", plural(int(s.MessagesExchanged), "message"), s.TotalInputTokens, s.TotalOutputTokens, s.TotalCostUSD)
}

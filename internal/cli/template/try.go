package template

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) templateTry() *cobra.Command {
	var env remote.EnvFlags
	cmd := &cobra.Command{
		Use:   "try NAME",
		Short: "Try the agent of a template",
		Long: `Ask the agent of the template NAME one question in a new sandbox, and remove both afterwards. If there is no
answer, the reason is shown, and what to type: the program is not installed, the key is missing or refused, or
the model's service cannot be reached from the sandbox.

The exit code is 0 when the agent answered and 1 when it did not.`,
		Example: "  berth template try claude_code\n  berth template try claude_code --env ANTHROPIC_API_KEY",
		Args:    ui.Args(1, 1, "the NAME of one template; 'berth template ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			given, err := a.ReadEnv(env.Given, env.File)
			if err != nil {
				return err
			}
			return a.runTemplateTry(ctx, args[0], given)
		}),
		ValidArgsFunction: a.completeTemplates,
	}
	a.EnvFlags(cmd, &env)
	return a.Online(cmd)
}

// trial is one run of template try.
type trial struct {
	*app
	c        *remote.Connection
	template api.Template
	conv     api.Conversation
	retries  []string // why the agent repeated its calls to the model
}

// trialPrompt is the question.
const trialPrompt = "This is a test of the connection. Answer with the one word: ready"

func (a *app) runTemplateTry(ctx context.Context, name string, env map[string]string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	t := &trial{app: a, c: c}
	if t.template, err = c.Templates.Get(ctx, name); err != nil {
		return c.Explain(err)
	}
	if err := remote.CheckKey(t.template, env); err != nil {
		return t.fail(err)
	}
	if t.conv, _, err = c.Conversations.Create(ctx, api.CreateConversation{Template: name, Title: "berth template try", Env: env}); err != nil {
		return c.Explain(err)
	}
	defer t.remove(context.WithoutCancel(ctx))
	began := a.Now()
	end, err := t.ask(ctx)
	switch {
	case remote.IsCode(err, api.CodeModelKeyMissing):
		return t.fail(err)
	case err != nil:
		return c.Explain(err)
	case end.Status != api.TurnCompleted:
		return t.fail(t.explain(end))
	case a.JSON:
		return ui.WriteJSON(a.Out, end)
	}
	m, err := c.Conversations.Message(ctx, t.conv.ID, end.MessageID)
	if err != nil {
		return c.Explain(err)
	}
	answer := strings.Join(strings.Fields(m.Text()), " ")
	_, err = fmt.Fprintf(a.Out, "%s works: it answered %q in %s\n", a.Out.Paint(ui.Bold, ui.Clean(name)), a.Abridge(ui.Clean(answer), 60), ui.Brief(a.Now().Sub(began)))
	return err
}

// fail prints the reason and returns the exit code of a failed trial.
func (t *trial) fail(why error) error {
	t.Fail(why)
	return ui.ExitCode(1)
}

const (
	// maxRetries is the number of failed calls to the model after which the trial gives up. Agents go on for minutes.
	maxRetries = 3
	// removeTime bounds the removal of the conversation and its sandbox.
	removeTime = time.Minute
)

// ask runs the turn to its end. It cancels a turn whose calls to the model keep failing.
func (t *trial) ask(ctx context.Context) (end api.TurnEvent, err error) {
	spin := t.Spin("trying " + t.template.Name)
	defer spin.Stop()
	stream, err := t.c.Conversations.Prompt(ctx, t.conv.ID, api.Prompt{Prompt: trialPrompt})
	if err != nil {
		return end, err
	}
	defer stream.Close()
	for e, err := range stream.Events() {
		if err != nil {
			return end, err
		}
		switch {
		case e.Type == api.EventTurnFinished:
			return e, nil
		case e.Type == api.EventStatus && e.Status == "retrying":
			if spin != nil {
				spin.Phase(ui.Clean(e.Message))
			}
			if t.retries = append(t.retries, e.Message); len(t.retries) == maxRetries {
				if _, err := t.c.Conversations.Cancel(ctx, t.conv.ID, stream.TurnID); err != nil && !remote.IsCode(err, api.CodeTurnFinished) {
					return end, err
				}
			}
		}
	}
	return end, fmt.Errorf("the turn has no end")
}

// explain returns the reason of a turn without an answer, and what to type.
func (t *trial) explain(end api.TurnEvent) error {
	code, detail := end.Code, end.Message
	if len(t.retries) >= maxRetries && end.Status == api.TurnCancelled {
		code, detail = api.CodeModelUnavailable, t.retries[len(t.retries)-1]
	}
	p := api.NewProblem(code, ui.First(detail, "the turn was "+end.Status))
	switch code {
	case api.CodeModelUnavailable:
		p.Hint = t.reach()
	case api.CodeAgentNotInstalled:
		p.Hint = "Then try again. It is installed on the machine of the server, in its data directory."
	case api.CodeModelKeyMissing, api.CodeModelKeyRefused:
		if key := t.key(); key != "" {
			p.Hint = fmt.Sprintf("Type 'berth secret set %s', then try again.", key)
		}
	}
	return p
}

// key returns the name of the key that the agent's calls have: outside the sandbox, or in it.
func (t *trial) key() string {
	var names []string
	for _, s := range t.template.Services {
		names = append(names, s.Secrets...)
	}
	return ui.First(append(names, t.template.KeyEnv...)...)
}

// reach says what sandboxes of the template may connect to.
func (t *trial) reach() string {
	var to []string
	for _, s := range t.template.Services {
		to = append(to, s.Listen+" (a service)")
	}
	to = append(to, t.template.Egress...)
	return fmt.Sprintf("Sandboxes of %s may connect to: %s. If the service is another one, add it to egress in the template; the server's log names what it refused.",
		t.template.Name, ui.First(strings.Join(to, ", "), "nothing"))
}

// remove removes the conversation, its sandbox and its versions.
func (t *trial) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	conv, err := t.c.Conversations.Get(ctx, t.conv.ID)
	if err == nil && conv.SandboxID != "" {
		if err = t.c.Sandboxes.Delete(ctx, conv.SandboxID, client.SkipSave(), client.Purge()); remote.IsCode(err, api.CodeNotFound) {
			err = nil // it was never made
		}
	}
	if err == nil {
		err = t.c.Conversations.Delete(ctx, t.conv.ID)
	}
	if err != nil {
		t.Warnf("the conversation %s of the trial is left: %s", t.conv.ID, ui.Clean(err.Error()))
	}
}

// Package chat implements the commands chat, conversation, agent and usage.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/process"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package.
func Commands(r *remote.Remote) []*cobra.Command {
	a := &app{r}
	return []*cobra.Command{a.chat(), a.conversation(), a.agent(), a.usageReport()}
}

const chatHelp = `Talk with an agent in a sandbox. Each conversation has one sandbox; the agent's files are
saved as a version after every turn.

The prompt is the arguments, the text of a pipe, or, at a terminal, the text that you type: Enter sends it,
Alt-Enter or Ctrl-J begins a new line, pasted lines stay one prompt, and Ctrl-D at an empty prompt leaves. An
argument - stands for the text of the pipe.

The answer is printed to stdout as it comes, the agent's work and its cost to stderr. Ctrl-C cancels the turn, a
second Ctrl-C leaves. After a lost connection the command reconnects, and nothing of the answer is lost.

Exit codes: 0: the turn completed; 1: it failed; 130: it was cancelled; 125: Berth failed.`

func (a *app) chat() *cobra.Command {
	var t talk
	cmd := &cobra.Command{
		Use:   "chat [PROMPT...]",
		Short: "Talk with an agent in a sandbox",
		Long:  chatHelp,
		Example: `  berth chat "write notes.txt: hello"
  berth chat --continue "read notes.txt"
  git diff | berth chat "review this:" - --template claude_code
  berth chat --file shot.png "find the error on this page"
  berth chat`,
		Args:              cobra.ArbitraryArgs,
		RunE:              ui.Run(func(ctx context.Context, words []string) error { return a.runChat(ctx, &t, words) }),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := a.Online(cmd).Flags()
	flags.BoolVar(&t.newest, "continue", false, "continue the newest conversation")
	flags.StringVarP(&t.id, "conversation", "c", "", "continue the conversation of this `ID`")
	flags.StringVarP(&t.want.Template, "template", "t", "", "`TEMPLATE` of the agent and its sandbox (default: the server's)")
	flags.StringVar(&t.want.AgentID, "agent", "", "`ID|NAME` of the agent to talk with, see 'berth agent ls'")
	flags.StringVar(&t.model, "model", "", "`MODEL` to ask (default: the agent's own choice)")
	flags.StringArrayVar(&t.paths, "file", nil, "send this `FILE` or image with the prompt; may be repeated")
	flags.StringVar(&t.want.SandboxID, "sandbox", "", "`ID|NAME` of a sandbox to work in (default: a new one)")
	a.EnvFlags(cmd, &t.env)
	flags.BoolVar(&t.queue, "queue", false, "wait while another turn of the conversation runs")
	_ = cmd.RegisterFlagCompletionFunc("conversation", a.completeConversations(-1))
	_ = cmd.RegisterFlagCompletionFunc("sandbox", a.CompleteSandboxes(-1))
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
	for _, name := range []string{"template", "model"} {
		ui.Offer(cmd, name, []string{})
	}
	return cmd
}

// talk is one run of berth chat.
type talk struct {
	want   api.CreateConversation
	env    remote.EnvFlags
	newest bool
	id     string
	model  string
	paths  []string         // of files for the first prompt
	files  []api.PromptFile // for the next prompt
	queue  bool

	a    *app
	c    *remote.Connection
	conv api.Conversation
}

func (a *app) runChat(ctx context.Context, t *talk, words []string) error {
	t.a = a
	if err := t.check(); err != nil {
		return err
	}
	prompt, typed, err := a.chatPrompt(words)
	if err != nil {
		return err
	}
	if t.files, err = readAttachments(t.paths); err != nil {
		return err
	}
	if t.c, err = a.Connect(); err != nil {
		return err
	}
	if err := t.find(ctx); err != nil {
		return t.c.Explain(err)
	}
	if err := t.checkKey(ctx); err != nil {
		return t.c.Explain(err)
	}
	if typed {
		return t.c.Explain(t.converse(ctx))
	}
	return t.c.Explain(t.once(ctx, prompt))
}

func (t *talk) check() error {
	const hint = "'berth chat --help' shows its usage."
	switch old := t.newest || t.id != ""; {
	case t.newest && t.id != "":
		return ui.Usage("--continue goes on with the newest conversation, --conversation with the one that is named; give one of them", hint)
	case old && (t.want.Template != "" || t.want.AgentID != "" || t.want.SandboxID != "" || t.env.Any()):
		return ui.Usage("a conversation keeps its agent and its sandbox: --template, --agent, --sandbox, --env and --env-file are for new ones", hint)
	case t.want.SandboxID != "" && t.env.Any():
		return ui.Usage("--env is for a new sandbox, and --sandbox names an existing one", hint)
	case !t.env.Any():
		return nil
	}
	env, err := t.a.ReadEnv(t.env.Given, t.env.File)
	t.want.Env = env
	return err
}

// maxPrompt is the maximum size of a prompt in bytes. The server refuses longer ones.
const maxPrompt = 1 << 20

// chatPrompt returns the prompt from the arguments and stdin. typed reports whether the user types prompts at the
// terminal instead.
func (a *app) chatPrompt(words []string) (prompt string, typed bool, err error) {
	piped := len(words) > 0 && words[len(words)-1] == "-"
	switch {
	case piped:
		words = words[:len(words)-1]
	case len(words) > 0:
		if !ui.IsTerminal(a.Stdin) && process.Unread(a.Stdin) {
			a.Notef("berth: note: something is waiting on stdin that was not sent; a - behind the prompt sends it")
		}
	case ui.IsTerminal(a.Stdin) && a.Err.TTY && !a.JSON:
		return "", true, nil
	case ui.IsTerminal(a.Stdin):
		return "", false, ui.Usage("there is no prompt", "Put it behind the command: berth chat --json 'write notes.txt: hello'.")
	default:
		piped = true
	}
	prompt = strings.Join(words, " ")
	if piped {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxPrompt+1))
		if err != nil {
			return "", false, fmt.Errorf("read the prompt: %w", err)
		}
		prompt = strings.TrimPrefix(prompt+"\n\n"+strings.TrimRight(string(data), "\n"), "\n\n")
	}
	switch {
	case strings.TrimSpace(prompt) == "":
		return "", false, ui.Usage("the prompt is empty", "Say what to do: berth chat 'write notes.txt: hello'.")
	case len(prompt) > maxPrompt:
		return "", false, ui.Usage(fmt.Sprintf("the prompt has more than %s", ui.Size(maxPrompt)), "'berth cp' brings files of any size into a sandbox; the prompt can name them.")
	}
	return prompt, false, nil
}

// find completes the short ids in the flags and reads the conversation to continue, if any.
func (t *talk) find(ctx context.Context) (err error) {
	if t.id, err = t.c.WholeID(ctx, t.id, remote.ConversationIDs); err != nil {
		return err
	}
	if t.want.SandboxID, err = t.c.WholeID(ctx, t.want.SandboxID, remote.SandboxIDs); err != nil {
		return err
	}
	if t.want.AgentID, err = t.c.WholeID(ctx, t.want.AgentID, agentIDs); err != nil {
		return err
	}
	switch {
	case t.newest:
		t.conv, err = newestConversation(ctx, t.c)
	case t.id != "":
		t.conv, err = t.c.Conversations.Get(ctx, t.id)
		err = conversationHint(ctx, t.c, t.id, err)
	case t.want.AgentID != "":
		var a api.Agent
		if a, err = findAgent(ctx, t.c, t.want.AgentID); err != nil {
			return err
		}
		t.want.AgentID = a.ID
	}
	if t.want.SandboxID != "" && err == nil {
		ref := t.want.SandboxID
		var s api.Sandbox
		s, err = t.c.Sandboxes.Get(ctx, ref)
		t.want.SandboxID, err = s.ID, t.c.NotFoundHint(ctx, ref, err)
	}
	return err
}

// checkKey refuses to begin a conversation whose agent has no key, before anything is typed. The server refuses its
// first prompt, too; an agent of the tenant may have another key.
func (t *talk) checkKey(ctx context.Context) error {
	if t.want.Template == "" || t.want.AgentID != "" || t.want.SandboxID != "" {
		return nil
	}
	found, err := t.c.Templates.Get(ctx, t.want.Template)
	if remote.IsCode(err, api.CodeNotFound) {
		return nil // the server names the templates that there are
	}
	if err != nil {
		return err
	}
	return remote.CheckKey(found, t.want.Env)
}

func newestConversation(ctx context.Context, c *remote.Connection) (api.Conversation, error) {
	for conv, err := range c.Conversations.List(ctx, client.ConversationFilter{}) {
		return conv, err
	}
	return api.Conversation{}, ui.Hint(errors.New("there is no conversation to go on with"), "'berth chat PROMPT' begins one.")
}

// ensureConversation creates the conversation unless it exists. It is called with the first prompt, so an unused chat
// creates none.
func (t *talk) ensureConversation(ctx context.Context, prompt string) (err error) {
	if t.conv.ID != "" {
		return nil
	}
	t.want.Title = titleOf(prompt)
	t.conv, _, err = t.c.Conversations.Create(ctx, t.want)
	return err
}

// titleOf returns the beginning of a prompt as a title.
func titleOf(prompt string) string {
	const most = 80
	title := []rune(strings.Join(strings.Fields(ui.Clean(strings.ReplaceAll(prompt, "\n", " "))), " "))
	if len(title) > most {
		return strings.TrimSpace(string(title[:most-1])) + "…"
	}
	return string(title)
}

// once sends one prompt and shows its turn. The error has the exit code of the turn.
func (t *talk) once(ctx context.Context, prompt string) error {
	if err := t.ensureConversation(ctx, prompt); err != nil {
		return err
	}
	end, err := t.ask(ctx, prompt)
	if err != nil {
		return err
	}
	if t.a.Err.TTY {
		t.a.Notef("%s", t.a.Err.Paint(ui.Dim, "'berth chat --continue' continues it"))
	}
	return exitOf(end.Status)
}

// exitOf returns the exit code for a turn's status, or nil for a completed turn.
func exitOf(status string) error {
	switch status {
	case api.TurnCompleted:
		return nil
	case api.TurnCancelled:
		return ui.ExitCode(ui.ExitInterrupted)
	}
	return ui.ExitCode(1)
}

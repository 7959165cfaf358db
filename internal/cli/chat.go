package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

const chatHelp = `Talk with an agent that works in a sandbox of its own. Each conversation has one sandbox; what the agent
writes there is saved as a version after every turn.

The prompt is the words of the command line, what comes over a pipe, or, at a terminal, what you type:
Enter sends it, Alt-Enter or Ctrl-J begins a new line, a paste of many lines stays one prompt, and Ctrl-D at
an empty prompt leaves. A single - stands for what comes over the pipe.

The answer is shown as it comes, on stdout; what the agent does, and what it cost, on stderr. Ctrl-C cancels
the turn, a second one leaves. A lost connection is made again without losing a word of the answer; the
agent does not notice.

The exit code is 0 when the turn completed, 1 when it failed, 130 when it was cancelled, 125 when Berth
could not do it at all.`

func (f *frame) chat() *cobra.Command {
	var t talk
	cmd := &cobra.Command{
		Use:   "chat [PROMPT...]",
		Short: "Talk with an agent in a sandbox",
		Long:  chatHelp,
		Example: `  berth chat "write notes.txt: hello"
  berth chat --continue "read notes.txt"
  git diff | berth chat "review this:" - --template claude_code
  berth chat`,
		Args:              cobra.ArbitraryArgs,
		RunE:              run(func(ctx context.Context, words []string) error { return f.runChat(ctx, &t, words) }),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := f.online(cmd).Flags()
	flags.BoolVar(&t.newest, "continue", false, "go on with the newest conversation")
	flags.StringVarP(&t.id, "conversation", "c", "", "go on with the conversation of this `ID`")
	flags.StringVar(&t.want.Template, "template", "", "`TEMPLATE` of the agent and its sandbox (default: the server's)")
	flags.StringVar(&t.want.AgentID, "agent", "", "`ID|NAME` of the agent to talk with, see 'berth agent ls'")
	flags.StringVar(&t.model, "model", "", "`MODEL` to ask (default: the agent's own choice)")
	flags.StringVar(&t.want.SandboxID, "sandbox", "", "`ID|NAME` of a sandbox to work in (default: one of its own)")
	f.environFlags(cmd, &t.env)
	flags.BoolVar(&t.queue, "queue", false, "wait while another turn of the conversation runs")
	_ = cmd.RegisterFlagCompletionFunc("conversation", f.completeConversations(-1))
	_ = cmd.RegisterFlagCompletionFunc("sandbox", f.completeSandboxes(-1))
	_ = cmd.RegisterFlagCompletionFunc("agent", f.completeAgents)
	for _, name := range []string{"template", "model"} {
		offer(cmd, name, []string{})
	}
	return cmd
}

// talk is one use of berth chat.
type talk struct {
	want   api.CreateConversation
	env    environ
	newest bool
	id     string
	model  string
	queue  bool

	f    *frame
	c    *connection
	conv api.Conversation
}

func (f *frame) runChat(ctx context.Context, t *talk, words []string) error {
	t.f = f
	if err := t.check(); err != nil {
		return err
	}
	prompt, typed, err := f.chatPrompt(words)
	if err != nil {
		return err
	}
	if t.c, err = f.connect(); err != nil {
		return err
	}
	if err := t.find(ctx); err != nil {
		return t.c.explain(err)
	}
	if typed {
		return t.c.explain(t.converse(ctx))
	}
	return t.c.explain(t.once(ctx, prompt))
}

func (t *talk) check() error {
	const hint = "'berth chat --help' shows how it is used."
	switch old := t.newest || t.id != ""; {
	case t.newest && t.id != "":
		return &usageError{"--continue goes on with the newest conversation, --conversation with the one that is named; give one of them", hint}
	case old && (t.want.Template != "" || t.want.AgentID != "" || t.want.SandboxID != "" || t.env.any()):
		return &usageError{"a conversation keeps its agent and its sandbox: --template, --agent, --sandbox, --env and --env-file are for new ones", hint}
	case t.want.SandboxID != "" && t.env.any():
		return &usageError{"--env is for a sandbox of its own, which --sandbox does not make", hint}
	case !t.env.any():
		return nil
	}
	env, err := t.f.environment(t.env.given, t.env.file)
	t.want.Env = env
	return err
}

// mostPrompt is as much as a server takes.
const mostPrompt = 1 << 20

// chatPrompt is what to ask; typed says that a person will type it.
func (f *frame) chatPrompt(words []string) (prompt string, typed bool, err error) {
	piped := len(words) > 0 && words[len(words)-1] == "-"
	switch {
	case piped:
		words = words[:len(words)-1]
	case len(words) > 0:
		if !isTerminal(f.Stdin) && unread(f.Stdin) {
			f.notef("berth: note: something is waiting on stdin that was not sent; a - behind the prompt sends it")
		}
	case isTerminal(f.Stdin) && f.err.tty && !f.json:
		return "", true, nil
	case isTerminal(f.Stdin):
		return "", false, &usageError{"there is no prompt", "Put it behind the command: berth chat --json 'write notes.txt: hello'."}
	default:
		piped = true
	}
	prompt = strings.Join(words, " ")
	if piped {
		data, err := io.ReadAll(io.LimitReader(f.Stdin, mostPrompt+1))
		if err != nil {
			return "", false, fmt.Errorf("read the prompt: %w", err)
		}
		prompt = strings.TrimPrefix(prompt+"\n\n"+strings.TrimRight(string(data), "\n"), "\n\n")
	}
	switch {
	case strings.TrimSpace(prompt) == "":
		return "", false, &usageError{"the prompt is empty", "Say what to do: berth chat 'write notes.txt: hello'."}
	case len(prompt) > mostPrompt:
		return "", false, &usageError{fmt.Sprintf("the prompt has more than %s", size(mostPrompt)), "'berth cp' brings files of any size into a sandbox; the prompt can name them."}
	}
	return prompt, false, nil
}

// find reads the conversation to go on with, if there is to be one.
func (t *talk) find(ctx context.Context) (err error) {
	switch {
	case t.newest:
		t.conv, err = t.c.newestConversation(ctx)
	case t.id != "":
		t.conv, err = t.c.Conversations.Get(ctx, t.id)
		err = t.c.knownConversation(ctx, t.id, err)
	case t.want.AgentID != "":
		var a api.Agent
		if a, err = t.c.agent(ctx, t.want.AgentID); err != nil {
			return err
		}
		t.want.AgentID = a.ID
	}
	if t.want.SandboxID != "" && err == nil {
		ref := t.want.SandboxID
		var s api.Sandbox
		s, err = t.c.Sandboxes.Get(ctx, ref)
		t.want.SandboxID, err = s.ID, t.c.about(ctx, ref, err)
	}
	return err
}

func (c *connection) newestConversation(ctx context.Context) (api.Conversation, error) {
	for conv, err := range c.Conversations.List(ctx, client.ConversationFilter{}) {
		return conv, err
	}
	return api.Conversation{}, &hinted{errors.New("there is no conversation to go on with"), "'berth chat PROMPT' begins one."}
}

// make makes the conversation, if it is a new one, once there is something to say in it.
func (t *talk) make(ctx context.Context, prompt string) (err error) {
	if t.conv.ID != "" {
		return nil
	}
	t.want.Title = titleOf(prompt)
	t.conv, _, err = t.c.Conversations.Create(ctx, t.want)
	return err
}

// titleOf is the beginning of a prompt.
func titleOf(prompt string) string {
	const most = 80
	title := []rune(strings.Join(strings.Fields(clean(strings.ReplaceAll(prompt, "\n", " "))), " "))
	if len(title) > most {
		return strings.TrimSpace(string(title[:most-1])) + "…"
	}
	return string(title)
}

// once asks one thing and ends as its turn does.
func (t *talk) once(ctx context.Context, prompt string) error {
	if err := t.make(ctx, prompt); err != nil {
		return err
	}
	end, err := t.ask(ctx, prompt)
	if err != nil {
		return err
	}
	if t.f.err.tty {
		t.f.notef("%s", t.f.err.paint(dim, "'berth chat --continue' goes on with it"))
	}
	return exitOf(end.Status)
}

// exitOf is the exit code of a turn's end.
func exitOf(status string) error {
	switch status {
	case api.TurnCompleted:
		return nil
	case api.TurnCancelled:
		return exited(ExitInterrupted)
	}
	return exited(1)
}

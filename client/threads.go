package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

const threadsPath = "/api/v1/threads"

// Threads groups the calls for the threads of one workspace of a chat system. A thread is a conversation with a key
// that the chat system chose.
type Threads struct {
	c         *Client
	workspace string
}

// Threads returns the calls for the threads of a workspace. An empty workspace is valid too.
func (c *Client) Threads(workspace string) Threads { return Threads{c, workspace} }

func (s Threads) query() url.Values {
	if s.workspace == "" {
		return url.Values{}
	}
	return url.Values{"workspace": {s.workspace}}
}

// InChannel sets the channel of a thread that a prompt creates.
func InChannel(channel string) TurnOption {
	return func(t *TurnStream) { t.query.Set("channel", channel) }
}

// Prompt sends a message of a thread to its agent and returns a stream of the turn's events; see
// [Conversations.Prompt]. The first message creates the thread. A message that arrives while a turn runs waits for it.
func (s Threads) Prompt(ctx context.Context, thread string, want api.Prompt, opts ...TurnOption) (*TurnStream, error) {
	t := Conversations{s.c}.newStream(ctx, "", "", 0)
	t.query = s.query()
	return t.send(path{threadsPath, thread, "messages"}, want, opts)
}

// Get gets one thread.
func (s Threads) Get(ctx context.Context, thread string) (got api.Thread, err error) {
	_, err = s.c.do(ctx, call{op: "get thread", method: http.MethodGet, path: path{threadsPath, thread}, query: s.query()}, &got)
	return got, err
}

// List yields the threads of the workspace, newest first. An empty workspace selects those of all workspaces, an empty
// channel those of all channels.
func (s Threads) List(ctx context.Context, channel string) iter.Seq2[api.Thread, error] {
	q := s.query()
	if channel != "" {
		q.Set("channel", channel)
	}
	return all[api.Thread](ctx, s.c, "list threads", q, threadsPath)
}

// Messages yields the messages of a thread, oldest first.
func (s Threads) Messages(ctx context.Context, thread string) iter.Seq2[api.Message, error] {
	return all[api.Message](ctx, s.c, "read messages", s.query(), threadsPath, thread, "messages")
}

// Artifacts yields the files that the turns of a thread have shown, those of the newest turn first.
func (s Threads) Artifacts(ctx context.Context, thread string) iter.Seq2[api.TurnArtifact, error] {
	return all[api.TurnArtifact](ctx, s.c, "list artifacts", s.query(), threadsPath, thread, "artifacts")
}

// Stop cancels the turns of a thread and stops its sandbox. Its files are kept, and the next prompt starts it again.
func (s Threads) Stop(ctx context.Context, thread string) (got api.Thread, err error) {
	_, err = s.c.do(ctx, call{op: "stop thread", method: http.MethodPost, path: path{threadsPath, thread, "stop"}, query: s.query()}, &got)
	return got, err
}

// Delete cancels the turns of a thread and deletes it with its messages and its sandbox, unless [KeepSandbox] is given.
func (s Threads) Delete(ctx context.Context, thread string, opts ...EndOption) error {
	q := endQuery(opts)
	if q == nil {
		q = url.Values{}
	}
	for name, values := range s.query() {
		q[name] = values
	}
	got, err := s.c.do(ctx, call{op: "delete thread", method: http.MethodDelete, path: path{threadsPath, thread}, query: q}, nil)
	if got.doneBefore(err) {
		return nil
	}
	return err
}

package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync/atomic"

	"github.com/berthdev/berth/api"
)

// Sandbox is a handle on one sandbox of a server. Programs that embed Berth have the same methods in the type Sandbox
// of package berth. It is safe for concurrent use.
type Sandbox struct {
	c            *Client
	id           string
	model        atomic.Pointer[api.Sandbox]
	conversation atomic.Pointer[string]
}

// Sandbox returns the sandbox with the id or name of want, running. It is created if it does not exist; otherwise the
// other fields of want that are set must agree with it.
func (c *Client) Sandbox(ctx context.Context, want api.CreateSandbox) (*Sandbox, error) {
	made, _, err := c.Sandboxes.Create(ctx, want)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{c: c, id: made.ID}
	s.model.Store(&made)
	return s, nil
}

// ID returns the sandbox's id.
func (s *Sandbox) ID() string { return s.id }

// Info gets the current state of the sandbox.
func (s *Sandbox) Info(ctx context.Context) (api.Sandbox, error) {
	return s.keep(s.c.Sandboxes.Get(ctx, s.id))
}

// keep stores the newest answer for Model.
func (s *Sandbox) keep(sandbox api.Sandbox, err error) (api.Sandbox, error) {
	if err == nil {
		s.model.Store(&sandbox)
	}
	return sandbox, err
}

// Model returns the sandbox as the last answer of the server described it. It sends no request.
func (s *Sandbox) Model() api.Sandbox { return *s.model.Load() }

// Volume returns the id of the instance whose volume holds the sandbox's files. It is empty if there is no instance.
func (s *Sandbox) Volume(ctx context.Context) (string, error) {
	sandbox, err := s.Info(ctx)
	return sandbox.Instance, err
}

// Exec runs a command and waits for its end; see [Sandboxes.Exec].
func (s *Sandbox) Exec(ctx context.Context, want api.Exec) (api.ExecResult, error) {
	return s.c.Sandboxes.Exec(ctx, s.id, want)
}

// ListFiles lists files, each directory before its content, without starting the sandbox.
func (s *Sandbox) ListFiles(ctx context.Context, filter FileFilter) iter.Seq2[api.File, error] {
	return s.c.Sandboxes.ListFiles(ctx, s.id, filter)
}

// FileTree returns files as a tree. If limit is zero, the server's limit applies.
func (s *Sandbox) FileTree(ctx context.Context, filter FileFilter, limit int) (api.FileTree, error) {
	return s.c.Sandboxes.Tree(ctx, s.id, filter, limit)
}

// MaxFileContent is the size of the largest file that [Sandbox.FileContent] reads.
const MaxFileContent = 10 << 20

// FileContent reads a file below one root: api.SourceHomeDir, or api.SourceWorkingDir (also if source is empty).
// It refuses a file larger than [MaxFileContent] with the code too_large; [Sandboxes.ReadFile] reads larger files.
func (s *Sandbox) FileContent(ctx context.Context, source, path string) ([]byte, error) {
	file, err := s.c.Sandboxes.ReadFile(ctx, s.id, source, path, ReadOptions{MaxBytes: MaxFileContent})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Truncated {
		return nil, fmt.Errorf("read file: %w", api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the file has %d bytes, more than %d", file.Size, MaxFileContent)))
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return content, nil
}

// WriteFile writes a file below one root. Readers see either the old content or the new. A zero mode keeps the
// permissions of an existing file.
func (s *Sandbox) WriteFile(ctx context.Context, source, path string, content io.Reader, mode fs.FileMode) (api.File, error) {
	file, _, err := s.c.Sandboxes.WriteFile(ctx, s.id, source, path, content, WriteOptions{Mode: mode})
	return file, err
}

// SyncFiles merges the versions that others saved to the same place into the workspace, and saves a new version if
// files have changed.
func (s *Sandbox) SyncFiles(ctx context.Context) (api.Synced, error) {
	return s.c.Sandboxes.Sync(ctx, s.id, api.SyncWorkspace{})
}

// SetConversation sets the conversation of later turns. Its id is a UUID; a conversation that does not exist is
// created with its first turn.
func (s *Sandbox) SetConversation(id string) error {
	s.conversation.Store(&id)
	return nil
}

// Conversation returns the id of the conversation of the turns. It is empty before the first turn.
func (s *Sandbox) Conversation() string {
	if id := s.conversation.Load(); id != nil {
		return *id
	}
	return ""
}

// ExecuteAgentStream prompts the agent of the sandbox's template and yields the events of the turn, from turn.started
// to turn.finished. An error ends the sequence. A failed turn is not an error: the event turn.finished has its
// status.
//
// The prompt is sent when the sequence is ranged over. Leaving the loop ends only the reading: the turn continues,
// [Sandbox.TurnEvents] reads its further events, and [Sandbox.CancelTurn] ends the turn. If no conversation was set
// with [Sandbox.SetConversation], the first prompt starts a new one for all prompts of s.
func (s *Sandbox) ExecuteAgentStream(ctx context.Context, prompt api.Prompt, opts ...TurnOption) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		if s.conversation.Load() == nil {
			id := newUUID()
			s.conversation.CompareAndSwap(nil, &id)
		}
		stream, err := s.c.Conversations.Prompt(ctx, s.Conversation(), prompt, append(opts, InSandbox(s.id))...)
		s.events(stream, err, yield)
	}
}

// TurnEvents yields the events of a turn of the conversation with a number greater than after.
func (s *Sandbox) TurnEvents(ctx context.Context, turnID string, after int64) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		stream, err := s.c.Conversations.Follow(ctx, s.Conversation(), turnID, after)
		s.events(stream, err, yield)
	}
}

func (s *Sandbox) events(stream *TurnStream, err error, yield func(api.TurnEvent, error) bool) {
	if err != nil {
		yield(api.TurnEvent{}, err)
		return
	}
	defer stream.Close()
	stream.Events()(yield)
}

// Turn returns the state of a turn of the conversation.
func (s *Sandbox) Turn(ctx context.Context, turnID string) (api.Turn, error) {
	return s.c.Conversations.Turn(ctx, s.Conversation(), turnID)
}

// CancelTurn asks a turn of the conversation to end. The turn has ended when its last event, turn.finished, arrives.
func (s *Sandbox) CancelTurn(ctx context.Context, turnID string) error {
	_, err := s.c.Conversations.Cancel(ctx, s.Conversation(), turnID)
	return err
}

// Stop ends all processes in the sandbox and keeps its files.
func (s *Sandbox) Stop(ctx context.Context) error {
	_, err := s.keep(s.c.Sandboxes.Stop(ctx, s.id))
	return err
}

// Terminate removes the sandbox's instance with its files. If save is true, a last version is saved first. The next
// use makes a new instance with the newest version.
func (s *Sandbox) Terminate(ctx context.Context, save bool) error {
	_, err := s.keep(s.c.Sandboxes.Terminate(ctx, s.id, saving(save)...))
	return err
}

// Delete deletes the sandbox permanently. If save is true, a last version is saved first.
func (s *Sandbox) Delete(ctx context.Context, save bool) error {
	return s.c.Sandboxes.Delete(ctx, s.id, saving(save)...)
}

func saving(save bool) []EndOption {
	if save {
		return nil
	}
	return []EndOption{SkipSave()}
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

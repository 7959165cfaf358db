package httpapi

import (
	"context"
	"errors"
	"iter"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Handle is what the routes need of one sandbox; an engine.Handle has it.
type Handle interface {
	Sandbox(ctx context.Context) (sandbox.Sandbox, error)
	Guest(ctx context.Context) (guest.Conn, error)
	Peek(ctx context.Context) (guest.Conn, error)
	Command(s sandbox.Sandbox, cmd guest.Cmd) guest.Cmd
	Files(ctx context.Context, root string) (files.FS, error)
	Output(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error]
	Hold(ctx context.Context, kind string) (release func())
	Frozen(ctx context.Context) bool

	Start(ctx context.Context) (sandbox.Sandbox, error)
	Stop(ctx context.Context) (sandbox.Sandbox, error)
	Restart(ctx context.Context) (sandbox.Sandbox, error)
	Freeze(ctx context.Context) (sandbox.Sandbox, error)
	Thaw(ctx context.Context) (sandbox.Sandbox, error)
	Archive(ctx context.Context) (sandbox.Sandbox, error)
	Terminate(ctx context.Context, skipSave bool) (sandbox.Sandbox, error)
	Saving(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error)
	Exclusively(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error)
}

// open finds the sandbox that the caller named, as its record has it, and a handle on it.
func (a *Handler) open(ctx context.Context, ref string) (Handle, sandbox.Sandbox, error) {
	s, err := a.findSandbox(ctx, ref)
	if err != nil {
		return nil, s, err
	}
	if a.Open == nil {
		return nil, s, sandbox.Errorf("open sandbox", api.CodeUnsupported, "this server only keeps records of sandboxes")
	}
	who, _ := auth.PrincipalFrom(ctx)
	return a.Open(s, who.Actor()), s, nil
}

// guestError puts a helper's words into the table's.
func guestError(op string, err error) error {
	switch {
	case err == nil, errors.As(err, new(*sandbox.Error)), errors.As(err, new(*problem)),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	code := api.CodeDriverUnreachable
	for is, its := range map[error]api.Code{
		guest.ErrGone: api.CodeNotRunning, guest.ErrNoProcess: api.CodeNoSuchExec, guest.ErrExists: api.CodeExecExists,
		guest.ErrTrimmed: api.CodeOutputTrimmed, guest.ErrInvalid: api.CodeInvalidRequest, guest.ErrNoInput: api.CodeConflict,
		guest.ErrRefused: api.CodePortUnreachable, guest.ErrDiskFull: api.CodeDiskFull, guest.ErrDiskFull: api.CodeDiskFull,
	} {
		if errors.Is(err, is) {
			code = its
		}
	}
	return sandbox.Errorf(op, code, "%w", err)
}

// noticeOf is what a handle has to say about the sandbox's files.
func noticeOf(h any) string {
	if n, ok := h.(interface{ Notice() string }); ok {
		return n.Notice()
	}
	return ""
}

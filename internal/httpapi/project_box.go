package httpapi

import (
	"context"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
)

// projectBox is the project's sandbox for tools. It is made, and made to run, when it is first reached: a
// call that is refused, or asks only what there is, leaves no sandbox behind.
func (a *Handler) projectBox(ctx context.Context, id string) (*projectBox, error) {
	if err := project.CheckID(id); err != nil {
		return nil, err
	}
	if a.Open == nil {
		return nil, sandbox.Errorf("open sandbox", api.CodeUnsupported, "this server only keeps records of sandboxes")
	}
	who, _ := auth.PrincipalFrom(ctx)
	return &projectBox{a: a, id: id, newID: effectID(ctx), projects: a.inProjects(ctx), actor: who.Actor()}, nil
}

type projectBox struct {
	a         *Handler
	projects  project.Projects
	id, newID string
	actor     string

	mu     sync.Mutex
	handle Handle
}

// open ensures the sandbox once, in the time that any request has.
func (b *projectBox) open(ctx context.Context) (Handle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handle != nil {
		return b.handle, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.a.RequestTimeout)
	defer cancel()
	s, _, err := b.projects.Ensure(ctx, b.id, sandbox.Spec{}, b.newID)
	if err != nil {
		return nil, err
	}
	b.handle = b.a.Open(s, b.actor)
	return b.handle, nil
}

// Template is the one of the project's sandbox, or that which a new one would have.
func (b *projectBox) Template(ctx context.Context) (string, error) {
	s, err := b.projects.Get(ctx, b.id)
	if sandbox.CodeOf(err) == api.CodeNotFound {
		return b.a.Templates.Default, nil
	}
	return s.Spec.Template, err
}

// Sandbox returns the sandbox, running.
func (b *projectBox) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	h, err := b.open(ctx)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	return h.Sandbox(ctx)
}

// Guest connects to the helper inside.
func (b *projectBox) Guest(ctx context.Context) (guest.Conn, error) {
	h, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return h.Guest(ctx)
}

// Files opens a root of its files.
func (b *projectBox) Files(ctx context.Context, root string) (files.FS, error) {
	h, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return h.Files(ctx, root)
}

// Command adds what every command in it has.
func (b *projectBox) Command(s sandbox.Sandbox, cmd guest.Cmd) guest.Cmd {
	return b.a.Open(s, b.actor).Command(s, cmd)
}

// Hold keeps timers away; a sandbox that nobody reached needs none.
func (b *projectBox) Hold(ctx context.Context, kind string) (release func()) {
	h, err := b.open(ctx)
	if err != nil {
		return func() {}
	}
	return h.Hold(ctx, kind)
}

// Notice says what happened to the sandbox's files since its last use.
func (b *projectBox) Notice() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return noticeOf(b.handle)
}

// restingBox is the project's sandbox for who only looks: it is neither made nor started.
type restingBox struct{ *projectBox }

// Sandbox returns the sandbox if it runs.
func (b *restingBox) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := b.projects.Get(ctx, b.id)
	if sandbox.CodeOf(err) == api.CodeNotFound || err == nil && s.State != sandbox.Running {
		return s, sandbox.Errorf("", api.CodeNotRunning, "the project's sandbox does not run")
	}
	return s, err
}

// Guest connects to the helper inside if the sandbox runs.
func (b *restingBox) Guest(ctx context.Context) (guest.Conn, error) {
	s, err := b.Sandbox(ctx)
	if err != nil {
		return nil, err
	}
	return b.a.Open(s, b.actor).Peek(ctx)
}

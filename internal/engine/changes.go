package engine

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// recorder records uses that may change files of one sandbox.
type recorder struct {
	e          *Engine
	tenant, id string
	saved      bool // its workspace is one that is saved
	saveAfter  time.Duration
}

func (e *Engine) recorder(s sandbox.Sandbox) recorder {
	p := e.policy(s)
	return recorder{e: e, tenant: s.Owner.Tenant, id: s.ID, saved: !p.NoSave, saveAfter: p.SaveAfter}
}

// Changed records that files of the sandbox may have changed by something else than a Handle.
func (e *Engine) Changed(ctx context.Context, s sandbox.Sandbox) { _ = e.recorder(s).end(ctx) }

// begin is called before a use, so that a crash leaves the record that something may be unsaved.
func (r recorder) begin(ctx context.Context) error {
	return r.e.Store.Changed(ctx, r.tenant, r.id, r.saved, r.saveAfter)
}

// changedFor bounds the record made after a use, whose own context may have ended.
const changedFor = 5 * time.Second

// end is called after a use, so that a save which began in between does not count as one of all of it.
func (r recorder) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changedFor)
	defer cancel()
	err := r.begin(ctx)
	if err != nil {
		r.e.Logger.WarnContext(ctx, "record a change of files", "sandbox_id", r.id, "error", err)
	}
	return err
}

// recordingConn records uses of a sandbox's helper that may change files.
type recordingConn struct {
	guest.Conn
	r recorder
}

func (c *recordingConn) Run(ctx context.Context, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
	if err := c.r.begin(ctx); err != nil {
		return guest.Exit{}, err
	}
	defer func() { _ = c.r.end(ctx) }()
	return c.Conn.Run(ctx, cmd, std)
}

func (c *recordingConn) Start(ctx context.Context, id string, cmd guest.Cmd) error {
	if err := c.r.begin(ctx); err != nil {
		return err
	}
	defer func() { _ = c.r.end(ctx) }()
	return c.Conn.Start(ctx, id, cmd)
}

func (c *recordingConn) Process(id string) guest.Process {
	return &recordingProcess{c.Conn.Process(id), c.r}
}

// recordingProcess records input, which a process may turn into changes of files.
type recordingProcess struct {
	guest.Process
	r recorder
}

func (p *recordingProcess) Write(ctx context.Context, data []byte) (int, error) {
	if err := p.r.begin(ctx); err != nil {
		return 0, err
	}
	return p.Process.Write(ctx, data)
}

// recordingFS records changes made through the files API.
type recordingFS struct {
	files.FS
	r recorder
}

func (f *recordingFS) Write(ctx context.Context, path string, from io.Reader, o files.WriteOptions) (info files.Info, created bool, err error) {
	err = f.record(ctx, func() error {
		info, created, err = f.FS.Write(ctx, path, from, o)
		return err
	})
	return info, created, err
}

func (f *recordingFS) Mkdir(ctx context.Context, path string) error {
	return f.record(ctx, func() error { return f.FS.Mkdir(ctx, path) })
}

func (f *recordingFS) Symlink(ctx context.Context, target, path string) error {
	return f.record(ctx, func() error { return f.FS.Symlink(ctx, target, path) })
}

func (f *recordingFS) Remove(ctx context.Context, path string, recursive bool) error {
	return f.record(ctx, func() error { return f.FS.Remove(ctx, path, recursive) })
}

func (f *recordingFS) Rename(ctx context.Context, from, to string, replace bool) error {
	return f.record(ctx, func() error { return f.FS.Rename(ctx, from, to, replace) })
}

// record makes a change between two records of it. A change whose second record failed is not acknowledged: a
// save that began after the first may not have it, and would count as one of all changes.
func (f *recordingFS) record(ctx context.Context, change func() error) error {
	if err := f.r.begin(ctx); err != nil {
		return err
	}
	changed := change()
	recorded := f.r.end(ctx)
	if changed == nil && recorded != nil {
		return fmt.Errorf("the change was made, but could not be recorded; repeat it: %w", recorded)
	}
	return changed
}

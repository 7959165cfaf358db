package engine

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// recorder records uses that may change files of one sandbox.
type recorder struct {
	e          *Engine
	tenant, id string
	saved      bool // whether its workspace is saved
	saveAfter  time.Duration
	alone      bool // whether no other process saves its files
}

func (e *Engine) recorder(s sandbox.Sandbox) recorder {
	p := e.policy(s)
	_, local := driver.As[driver.Local](e.opts.Drivers[s.Spec.Driver])
	return recorder{e: e, tenant: s.Owner.Tenant, id: s.ID, saved: !p.NoSave, saveAfter: p.SaveAfter, alone: local && e.opts.Alone}
}

// Changed records that files may have changed without a use of this handle, for example by a hook.
func (h *Handle) Changed(ctx context.Context) {
	s, err := h.record(ctx)
	if err == nil {
		err = h.e.recorder(s).write(ctx)
	}
	if err != nil {
		h.e.opts.Logger.WarnContext(ctx, "record a change of files", "sandbox_id", s.ID, "error", err)
	}
}

// recordTimeout limits a write of a recorder. The write does not use the caller's context, which may have ended.
const recordTimeout = 5 * time.Second

// begin records a change before a use changes files, so that the change is on record after a crash. The caller calls
// the returned function after the use. It records the change again, so that a save that began during the use does not
// count as a save of the change.
//
// If only this process saves the sandbox and no save began during the use, the second write is left out: a save that
// begins later reads the changed files.
func (r recorder) begin(ctx context.Context) (end func() error, err error) {
	saves := r.e.savesBegun.Load()
	if err := r.e.opts.Store.RecordChange(ctx, r.tenant, r.id, r.saved, r.saveAfter); err != nil {
		return nil, err
	}
	return func() error {
		if r.alone && r.e.savesBegun.Load() == saves {
			return nil
		}
		err := r.write(ctx)
		if err != nil {
			r.e.opts.Logger.WarnContext(ctx, "record a change of files", "sandbox_id", r.id, "error", err)
		}
		return err
	}, nil
}

func (r recorder) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.e.opts.Store.RecordChange(ctx, r.tenant, r.id, r.saved, r.saveAfter)
}

// recordingConn is a connection to a helper that records the uses that may change files.
type recordingConn struct {
	guest.Conn
	r recorder
}

func (c *recordingConn) Run(ctx context.Context, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
	end, err := c.r.begin(ctx)
	if err != nil {
		return guest.Exit{}, err
	}
	defer func() { _ = end() }()
	return c.Conn.Run(ctx, cmd, std)
}

func (c *recordingConn) Start(ctx context.Context, id string, cmd guest.Cmd) error {
	end, err := c.r.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	return c.Conn.Start(ctx, id, cmd)
}

func (c *recordingConn) Process(id string) guest.Process {
	return &recordingProcess{c.Conn.Process(id), c.r}
}

// recordingProcess is a process that records a change for each input, because input may make it change files.
type recordingProcess struct {
	guest.Process
	r recorder
}

func (p *recordingProcess) Write(ctx context.Context, data []byte) (int, error) {
	if _, err := p.r.begin(ctx); err != nil {
		return 0, err
	}
	return p.Process.Write(ctx, data)
}

// recordingFS is a files.FS that records changes of files.
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

// record records the change, makes it, and records it again. If the second write fails, record returns an error
// although the change was made: a save that began during the change may not contain it.
func (f *recordingFS) record(ctx context.Context, change func() error) error {
	end, err := f.r.begin(ctx)
	if err != nil {
		return err
	}
	changed := change()
	recorded := end()
	if changed == nil && recorded != nil {
		return fmt.Errorf("the change was made, but could not be recorded; repeat it: %w", recorded)
	}
	return changed
}

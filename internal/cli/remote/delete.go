package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/sandbox"
)

// deleteTimeout is the time to wait for one delete. After it, the server continues alone.
const deleteTimeout = 30 * time.Second

// stillDeleting is the error of a delete that the server accepted but has not finished. The user need not do anything,
// so the command does not fail.
type stillDeleting struct {
	ref  string
	left api.Sandbox
}

func (d *stillDeleting) Error() string {
	why := ""
	if e := d.left.Error; e != nil {
		why = ": " + ui.Clean(e.Message)
		if saveFailed(d.left) {
			why += "; repeat it with --no-save to delete it without its last save"
		}
	}
	return fmt.Sprintf("%s is being deleted%s; watch it with 'berth get %s'", ui.Clean(d.ref), why, ui.Clean(d.left.ID))
}

// saveFailed reports whether a sandbox's last operation failed at its save.
func saveFailed(s api.Sandbox) bool {
	return s.Error != nil && (strings.HasPrefix(string(s.Error.Code), "object_store_") || strings.HasPrefix(string(s.Error.Code), "sync_"))
}

// Deletion describes the delete of one sandbox or of its project.
type Deletion struct {
	Ref string // argument of the command
	ID  string // id of the sandbox
	Do  func(context.Context) error
}

// Delete runs d.Do, shows the state of the sandbox and waits for the end of the delete.
func (r *Remote) Delete(ctx context.Context, c *Connection, d Deletion) error {
	spin := r.Spin("deleting " + ui.Clean(d.Ref))
	stop := showState(ctx, spin, c.StateOf(d.ID))
	patient, cancel := context.WithTimeout(ctx, r.DeleteTimeout)
	patient, giveUp := context.WithCancelCause(patient)
	go giveUpOnFailedSave(patient, giveUp, c, d.ID)
	err := d.Do(patient)
	waits := errors.Is(context.Cause(patient), errSaveFailed)
	giveUp(nil)
	cancel()
	stop()
	spin.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		r.NoteServerContinues("berth get " + d.ID)
		return err
	case err == nil, !waits && !Retryable(err):
		return err
	}
	return deleteResult(ctx, c, d.ID, d.Ref, err)
}

var errSaveFailed = errors.New("the last save failed")

// giveUpOnFailedSave ends the wait for a delete whose last save failed. The server repeats the save for minutes.
func giveUpOnFailedSave(ctx context.Context, giveUp context.CancelCauseFunc, c *Connection, id string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := c.Sandboxes.Get(ctx, id)
		if err == nil && saveFailed(s) && s.DeletedAt != nil && !s.Error.At.Before(*s.DeletedAt) {
			giveUp(errSaveFailed)
			return
		}
	}
}

// DeleteSandbox deletes one sandbox. It uses the id, because the name is free for another sandbox once the server
// accepted the delete.
func (r *Remote) DeleteSandbox(ctx context.Context, c *Connection, ref string, opts []client.EndOption) error {
	id := ref
	if s, err := c.Sandboxes.Get(ctx, ref); err == nil {
		id = s.ID
	}
	err := r.Delete(ctx, c, Deletion{ref, id, func(ctx context.Context) error { return c.Sandboxes.Delete(ctx, id, opts...) }})
	if err == nil && !r.JSON {
		r.Printf("deleted %s", deletedText(ref, id))
		// Only the object store knows whether there is a version. It may be unreachable, so the text says "if".
		r.Printf("  if a version of it is saved, this brings its files back: berth create --from %s", ui.Clean(id))
	}
	return err
}

func deletedText(ref, id string) string {
	if ref == id {
		return ui.Clean(id)
	}
	return ui.Clean(ref) + " (" + ui.Clean(id) + ")"
}

// deleteResult returns the state of a delete after the wait for it ended. It returns nil if the sandbox is deleted.
func deleteResult(ctx context.Context, c *Connection, id, ref string, err error) error {
	left, found := c.Sandboxes.Get(ctx, id)
	var p *api.Problem
	switch {
	case errors.As(found, &p) && p.Code == api.CodeDeleted:
		return nil
	case found == nil && left.Want == string(sandbox.WantGone):
		return &stillDeleting{ref, left}
	}
	return err
}

// Retryable reports whether the server said that the same request may succeed later.
func Retryable(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Retryable
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/sandbox"
)

// deletePatience is how long one delete is waited for before it is left to the server.
const deletePatience = 30 * time.Second

// stillDeleting is a delete that the server has accepted and not finished. Nobody has to do anything
// about it, so it is no failure.
type stillDeleting struct {
	ref  string
	left api.Sandbox
}

func (d *stillDeleting) Error() string {
	why := ""
	if e := d.left.Error; e != nil {
		why = ": " + clean(e.Message)
		if code := string(e.Code); strings.HasPrefix(code, "object_store_") || strings.HasPrefix(code, "sync_") {
			why += "; repeat it with --no-save to delete it without its last save"
		}
	}
	return fmt.Sprintf("%s is being deleted%s; watch it with 'berth get %s'", clean(d.ref), why, clean(d.left.ID))
}

// deletion is one delete.
type deletion struct {
	ref string // as it was typed
	id  string // of the sandbox
	do  func(context.Context) error
}

// delete waits for the end of a sandbox and shows how far it is.
func (f *frame) delete(ctx context.Context, c *connection, d deletion) error {
	spin := f.spin("deleting " + clean(d.ref))
	stop := follow(ctx, spin, c.stateOf(d.id))
	patient, cancel := context.WithTimeout(ctx, f.patience)
	err := d.do(patient)
	cancel()
	stop()
	spin.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		f.goesOn("berth get " + d.id)
		return err
	case !passing(err):
		return err
	}
	return became(ctx, c, d.id, d.ref, err)
}

// deleteSandbox deletes one. From its acceptance on, a delete is found by id only: the name is free again.
func (f *frame) deleteSandbox(ctx context.Context, c *connection, ref string, opts []client.EndOption) error {
	id := ref
	if s, err := c.Sandboxes.Get(ctx, ref); err == nil {
		id = s.ID
	}
	err := f.delete(ctx, c, deletion{ref, id, func(ctx context.Context) error { return c.Sandboxes.Delete(ctx, id, opts...) }})
	if err == nil && f.err.tty && !f.json {
		f.tellSaved(ctx, c, ref, id)
	}
	return err
}

// tellSaved says to a person under which id what was saved of a deleted sandbox is found: its name is free again.
func (f *frame) tellSaved(ctx context.Context, c *connection, ref, id string) {
	for _, err := range c.Sandboxes.Versions(ctx, id) {
		if err == nil {
			f.notef("What was saved of %s is kept for a while: 'berth versions %s' lists it.", clean(ref), id)
		}
		return
	}
}

// became says what a delete came to whose answer was not waited for.
func became(ctx context.Context, c *connection, id, ref string, err error) error {
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

func passing(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Retryable
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
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
	if d.left.Error != nil {
		why = "; the driver says: " + clean(d.left.Error.Message)
	}
	return fmt.Sprintf("%s is being deleted%s; watch it with 'berth get %s'", clean(d.ref), why, clean(d.left.ID))
}

// delete waits for the end of a sandbox and shows how far it is. From its acceptance on, a delete is
// found by id only: the name is free again.
func (f *frame) delete(ctx context.Context, c *connection, ref string) error {
	id := ref
	if s, err := c.Sandboxes.Get(ctx, ref); err == nil {
		id = s.ID
	}
	spin := f.spin("deleting " + clean(ref))
	stop := follow(ctx, c, spin, id)
	patient, cancel := context.WithTimeout(ctx, f.patience)
	err := c.Sandboxes.Delete(patient, id)
	cancel()
	stop()
	spin.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		f.goesOn("berth get " + id)
		return err
	case !passing(err):
		return err
	}
	return became(ctx, c, id, ref, err)
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

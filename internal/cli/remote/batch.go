package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/ui"
)

// MassDeleteFlag adds --allow-mass-delete. It allows a sync to delete more than half of a workspace's files.
func MassDeleteFlag(cmd *cobra.Command, many *bool) {
	cmd.Flags().BoolVar(many, "allow-mass-delete", false, "delete more than half of the files, if that is what the newest version says")
}

// EndFlags holds the flags of commands that end instances.
type EndFlags struct{ noSave, Purge bool }

// Flag adds --no-save.
func (e *EndFlags) Flag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.noSave, "no-save", false, "do not save the workspace first")
}

// Options returns the flags as options of the client.
func (e *EndFlags) Options() (opts []client.EndOption) {
	if e.noSave {
		opts = append(opts, client.SkipSave())
	}
	if e.Purge {
		opts = append(opts, client.Purge())
	}
	return opts
}

// Warning returns a warning about the files, for the question to the user.
func (e *EndFlags) Warning() string {
	if e.noSave {
		return "Its files are lost."
	}
	return "Files that the server cannot save are lost."
}

// Removal describes a command that deletes or ends things.
type Removal struct {
	Question string
	Word     string // past participle for the output, such as deleted
	Printed  bool   // Do prints the result itself
	// Find returns an error of code not_found if there is no such thing. If it is set, the user is not asked about
	// those.
	Find func(ctx context.Context, ref string) error
	Do   func(ctx context.Context, ref string) error
}

// RemoveEach asks the user once and then runs rm.Do for each ref. A failure does not stop the others.
func (r *Remote) RemoveEach(ctx context.Context, rm Removal, refs []string) error {
	refs, failed := r.existing(ctx, rm, refs)
	if len(refs) == 0 {
		return ui.ErrReported
	}
	if err := r.Confirm(ctx, fmt.Sprintf(rm.Question, strings.Join(refs, ", "))); err != nil {
		return err
	}
	done, going := []string{}, []string{}
	for _, ref := range refs {
		err := rm.Do(ctx, ref)
		var slow *stillDeleting
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.As(err, &slow):
			going = append(going, slow.left.ID)
			r.Printf("%s", slow)
		case err != nil:
			r.Fail(err)
			failed = true
		default:
			done = append(done, ref)
			if !rm.Printed {
				r.Printf("%s %s", rm.Word, ui.Clean(ref))
			}
		}
	}
	if err := r.printRemoved(rm.Word, done, going); err != nil {
		return err
	}
	if failed {
		return ui.ErrReported
	}
	return nil
}

// existing returns the refs that exist, before the user is asked about them. It prints the errors of the others.
func (r *Remote) existing(ctx context.Context, rm Removal, refs []string) (found []string, failed bool) {
	if rm.Find == nil || !r.Asks() {
		return refs, false
	}
	for _, ref := range refs {
		if err := rm.Find(ctx, ref); IsCode(err, api.CodeNotFound) {
			r.Fail(err)
			failed = true
			continue
		}
		found = append(found, ref)
	}
	return found, failed
}

// printRemoved prints the JSON result.
func (r *Remote) printRemoved(word string, done, going []string) error {
	if !r.JSON {
		return nil
	}
	result := map[string][]string{word: done}
	if len(going) > 0 {
		result["deleting"] = going
	}
	return ui.WriteJSON(r.Out, result)
}

// Action describes a command that does the same to each of several things.
type Action struct {
	Doing, Done string
	Look        string // beginning of the command that shows one of them
	Do          func(ctx context.Context, ref string) (result any, err error)
}

// ForEach runs the action for each ref. A failure does not stop the others.
func (r *Remote) ForEach(ctx context.Context, a Action, refs []string) error {
	list, failed := &ui.JSONList{W: r.Out}, false
	for _, ref := range refs {
		result, err := r.runAction(ctx, a, ref)
		switch {
		case err != nil && ctx.Err() != nil:
			r.NoteServerContinues(a.Look + ref)
			return err
		case err != nil:
			r.Fail(err)
			failed = true
		case r.JSON:
			if err := list.Add(result); err != nil {
				return err
			}
		}
	}
	if r.JSON {
		if err := list.End(); err != nil {
			return err
		}
	}
	if failed {
		return ui.ErrReported
	}
	return nil
}

func (r *Remote) runAction(ctx context.Context, a Action, ref string) (any, error) {
	start := r.Now()
	spin := r.Spin(a.Doing + " " + ui.Clean(ref))
	result, err := a.Do(ctx, ref)
	spin.Stop()
	if err == nil {
		r.Printf("%s %s (%s)", a.Done, ui.Clean(ref), ui.Brief(r.Now().Sub(start)))
	}
	return result, err
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func (f *frame) rm() *cobra.Command {
	var end ending
	cmd := &cobra.Command{
		Use:     "rm ID|NAME...",
		Aliases: []string{"delete"},
		Short:   "Delete sandboxes for good",
		Long: `Delete sandboxes for good, with everything in them. A terminal is asked first.

A server that can save workspaces does so first, unless --no-save is given. What is saved can be brought
back into a new sandbox for a while ('berth restore ID VERSION --into NAME'); with --purge it goes, too.

Each one is tried, whatever became of the others. One that is not gone after half a minute is told
with what its driver says; the server goes on with it by itself.`,
		Example:           "  berth rm scratch\n  berth rm --yes scratch other\n  berth ls -q | xargs berth rm -y",
		Args:              takes(1, -1, "the ID or NAME of at least one sandbox"),
		RunE:              run(func(ctx context.Context, refs []string) error { return f.runRm(ctx, end, refs) }),
		ValidArgsFunction: f.completeSandboxes(-1),
	}
	f.confirmed(cmd)
	cmd.Flags().BoolVarP(&f.yes, "force", "f", false, "the same as --yes")
	end.flag(cmd)
	cmd.Flags().BoolVar(&end.purge, "purge", false, "remove the saved versions, too, also those of one that was deleted before")
	return f.online(cmd)
}

func (f *frame) runRm(ctx context.Context, end ending, refs []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.each(ctx, removal{
		question: "Delete sandbox %s and everything in it for good?",
		word:     "deleted",
		do: func(ctx context.Context, ref string) error {
			return c.known(ctx, ref, f.deleteSandbox(ctx, c, ref, end.options()))
		},
	}, refs)
}

func (f *frame) confirmed(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

// removal is a way of ending things.
type removal struct {
	question string
	word     string // what each was afterwards
	do       func(ctx context.Context, ref string) error
}

// each ends all that are named. The first failure does not keep the others from being tried.
func (f *frame) each(ctx context.Context, r removal, refs []string) error {
	if err := f.ask(ctx, fmt.Sprintf(r.question, strings.Join(refs, ", "))); err != nil {
		return err
	}
	done, going, failed := []string{}, []string{}, false
	for _, ref := range refs {
		err := r.do(ctx, ref)
		var slow *stillDeleting
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.As(err, &slow):
			going = append(going, slow.left.ID)
			f.say("%s", slow)
		case err != nil:
			f.fail(err)
			failed = true
		default:
			done = append(done, ref)
			f.say("%s %s", r.word, clean(ref))
		}
	}
	if err := f.sayEnded(r.word, done, going); err != nil {
		return err
	}
	if failed {
		return errReported
	}
	return nil
}

func (f *frame) say(format string, args ...any) {
	if !f.json {
		fmt.Fprintf(f.out, format+"\n", args...)
	}
}

// sayEnded is the whole result as --json prints it.
func (f *frame) sayEnded(word string, done, going []string) error {
	if !f.json {
		return nil
	}
	result := map[string][]string{word: done}
	if len(going) > 0 {
		result["deleting"] = going
	}
	return writeJSON(f.out, result)
}

// ask waits for a yes from the person at the terminal. Where there is none, having typed the
// command is the yes.
func (f *frame) ask(ctx context.Context, question string) error {
	if f.yes || !isTerminal(f.Stdin) {
		return nil
	}
	fmt.Fprintf(f.err, "%s [y/N] ", clean(question))
	answer, err := f.readLine(ctx)
	if !strings.HasSuffix(answer, "\n") {
		fmt.Fprintln(f.err) // nothing was typed that ended the line of the question
	}
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &usageError{"nothing was changed", "Answer y, or give --yes to not be asked."}
}

// readLine reads one line, or ends with the context: a read from a terminal cannot be cancelled.
func (f *frame) readLine(ctx context.Context) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(io.LimitReader(f.Stdin, 1024)).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// converse asks what a person types, until they leave.
func (t *talk) converse(ctx context.Context) error {
	if t.f.env("TERM") != "dumb" {
		restore, err := hush(t.f.Stdin.(*os.File))
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		defer restore()
	}
	if t.conv.TurnID != "" {
		t.f.notef("%s", t.f.err.paint(dim, "· a turn is running"))
		if _, err := t.follow(ctx); err != nil {
			return err
		}
	}
	t.f.notef("%s", t.f.err.paint(dim, t.welcome()))
	ed := &editor{out: t.f.err, size: t.f.windowSize, prompt: "> "}
	for {
		prompt, err := t.f.typedPrompt(ctx, ed)
		switch {
		case errors.Is(err, io.EOF):
			return t.leaving()
		case errors.Is(err, errInterrupted):
			_ = t.leaving()
			return errInterrupted
		case err != nil:
			return err
		case strings.TrimSpace(prompt) == "":
			continue
		}
		prompt = strings.TrimRight(prompt, " \n")
		ed.history = append(ed.history, prompt)
		if err := t.say(ctx, prompt); err != nil {
			return err
		}
	}
}

func (t *talk) welcome() string {
	about := "A new conversation"
	if t.conv.ID != "" {
		about = "Going on with " + clean(first(t.conv.Title, t.conv.ID))
	}
	return about + ". Enter sends, Alt-Enter begins a new line, Ctrl-C cancels a turn, Ctrl-D leaves."
}

func (t *talk) leaving() error {
	if t.conv.ID != "" {
		t.f.notef("%s", t.f.err.paint(dim, "'berth chat -c "+clean(t.conv.ID)+"' goes on with it"))
	}
	return nil
}

// say asks one thing. What goes wrong with it does not end the conversation, unless the person leaves.
func (t *talk) say(ctx context.Context, prompt string) error {
	err := t.make(ctx, prompt)
	if err == nil {
		_, err = t.ask(ctx, prompt)
	}
	var ended exited
	switch {
	case err == nil:
	case errors.As(err, &ended), ctx.Err() != nil:
		return err
	default:
		t.f.fail(t.c.explain(err))
	}
	t.f.notef("")
	return nil
}

// hush keeps what is typed while an answer comes from being shown in the middle of it; the next prompt begins
// with it, Enter included. Ctrl-C works as ever.
func hush(file *os.File) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	mode := *before
	mode.Iflag &^= unix.ICRNL
	mode.Lflag &^= unix.ECHO | unix.ICANON
	if err := unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, &mode); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, before) }, nil
}

// typedPrompt lets a person type the next prompt. The terminal is as it was afterwards.
func (f *frame) typedPrompt(ctx context.Context, ed *editor) (string, error) {
	if f.env("TERM") == "dumb" {
		return f.plainPrompt(ctx, ed.prompt)
	}
	keys, err := newKeyboard(f.Stdin.(*os.File))
	if err != nil {
		return "", err
	}
	cooked, err := raw(keys.file)
	if err != nil {
		return "", err
	}
	fmt.Fprint(f.err, pasteOn)
	defer func() {
		fmt.Fprint(f.err, pasteOff)
		cooked()
	}()
	var typing sync.WaitGroup
	var prompt string
	done := make(chan error, 1)
	typing.Go(func() {
		var err error
		prompt, err = ed.read(bufio.NewReaderSize(keys, 64<<10))
		done <- err
	})
	defer keys.stop(&typing)
	select {
	case err = <-done:
		return prompt, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// plainPrompt is for terminals that can do nothing but lines.
func (f *frame) plainPrompt(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(f.err, prompt)
	line, err := f.readLine(ctx)
	if err == nil && line == "" {
		fmt.Fprintln(f.err)
		return "", io.EOF
	}
	return strings.TrimSuffix(line, "\n"), err
}

package chat

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

	"github.com/berthdev/berth/internal/cli/ui"
)

// converse reads prompts from the terminal and sends them, until the user leaves.
func (t *talk) converse(ctx context.Context) error {
	if t.a.Getenv("TERM") != "dumb" {
		restore, err := noEcho(t.a.Stdin.(*os.File))
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		defer restore()
	}
	if t.conv.TurnID != "" {
		t.a.Notef("%s", t.a.Err.Paint(ui.Dim, "· a turn is running"))
		if _, err := t.follow(ctx); err != nil {
			return err
		}
	}
	t.a.Notef("%s", t.a.Err.Paint(ui.Dim, t.welcome()))
	ed := &editor{out: t.a.Err, size: t.a.WindowSize, prompt: "> "}
	for {
		prompt, err := t.a.typedPrompt(ctx, ed)
		switch {
		case errors.Is(err, io.EOF):
			return t.leaving()
		case errors.Is(err, ui.ErrInterrupted):
			_ = t.leaving()
			return ui.ErrInterrupted
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
		about = "Going on with " + ui.Clean(ui.First(t.conv.Title, t.conv.ID))
	}
	return about + ". Enter sends, Alt-Enter begins a new line, Ctrl-C cancels a turn, Ctrl-D leaves."
}

func (t *talk) leaving() error {
	if t.conv.ID != "" {
		t.a.Notef("%s", t.a.Err.Paint(ui.Dim, "'berth chat -c "+ui.Clean(t.conv.ID)+"' goes on with it"))
	}
	return nil
}

// say sends one prompt and shows its turn. Errors are printed and do not end the conversation, unless the user leaves.
func (t *talk) say(ctx context.Context, prompt string) error {
	err := t.ensureConversation(ctx, prompt)
	if err == nil {
		_, err = t.ask(ctx, prompt)
	}
	var ended ui.ExitCode
	switch {
	case err == nil:
	case errors.As(err, &ended), ctx.Err() != nil:
		return err
	default:
		t.a.Fail(t.c.Explain(err))
	}
	t.a.Notef("")
	return nil
}

// noEcho turns off the echo of keys while an answer is printed. The next prompt gets these keys, including Enter.
// Ctrl-C still sends a signal.
func noEcho(file *os.File) (restore func(), err error) {
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

// typedPrompt reads the next prompt from the terminal. Afterwards it restores the terminal's mode.
func (a *app) typedPrompt(ctx context.Context, ed *editor) (string, error) {
	if a.Getenv("TERM") == "dumb" {
		return a.plainPrompt(ctx, ed.prompt)
	}
	keys, err := ui.NewKeyboard(a.Stdin.(*os.File))
	if err != nil {
		return "", err
	}
	cooked, err := ui.Raw(keys.File)
	if err != nil {
		return "", err
	}
	fmt.Fprint(a.Err, pasteOn)
	defer func() {
		fmt.Fprint(a.Err, pasteOff)
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
	defer keys.Stop(&typing)
	select {
	case err = <-done:
		return prompt, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// plainPrompt reads a prompt from a terminal that cannot move its cursor.
func (a *app) plainPrompt(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	line, err := a.ReadLine(ctx)
	if err == nil && line == "" {
		fmt.Fprintln(a.Err)
		return "", io.EOF
	}
	return strings.TrimSuffix(line, "\n"), err
}

package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Asks reports whether Confirm asks: stdin is a terminal, and --yes was not given.
func (u *UI) Asks() bool { return !u.Yes && IsTerminal(u.Stdin) }

// Confirm asks the question at the terminal and returns an error unless the answer is yes. If stdin is not a terminal,
// it does not ask and returns nil.
func (u *UI) Confirm(ctx context.Context, question string) error {
	if !u.Asks() {
		return nil
	}
	const room = "__" // columns for a space and the answer
	fmt.Fprint(u.Err, strings.TrimSuffix(u.fitted(u.Err, Clean(question)+" [y/N]"+room), room), " ")
	answer, err := u.ReadLine(ctx)
	if !strings.HasSuffix(answer, "\n") {
		fmt.Fprintln(u.Err) // the answer did not end the line of the question
	}
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &UsageError{"nothing was changed", "Answer y, or give --yes to not be asked."}
}

// ReadLine reads one line, or ends with the context: a read from a terminal cannot be cancelled.
func (u *UI) ReadLine(ctx context.Context) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(io.LimitReader(u.Stdin, 1024)).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ReadHidden asks for one line at a terminal and hides the typed text. It ends with the context, and leaves the
// terminal as it was.
func (u *UI) ReadHidden(ctx context.Context, file *os.File, question string) (string, error) {
	before, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return "", fmt.Errorf("read terminal: %w", err)
	}
	hidden := *before
	hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, &hidden); err != nil {
		return "", fmt.Errorf("hide input: %w", err)
	}
	defer func() {
		_ = unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, before)
		fmt.Fprintln(u.Err)
	}()
	keys, err := NewKeyboard(file)
	if err != nil {
		return "", err
	}
	fmt.Fprint(u.Err, Clean(question))
	line := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		text, _ := bufio.NewReader(keys).ReadString('\n') // an end without a line break ends the line
		line <- strings.TrimSuffix(text, "\n")
	})
	defer keys.Stop(&reading)
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

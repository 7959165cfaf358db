package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirm asks the question at the terminal and returns an error unless the answer is yes. If stdin is not a terminal,
// it does not ask and returns nil.
func (u *UI) Confirm(ctx context.Context, question string) error {
	if u.Yes || !IsTerminal(u.Stdin) {
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

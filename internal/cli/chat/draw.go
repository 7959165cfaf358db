package chat

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/internal/cli/ui"
)

// draw draws the text again, over the one that was drawn last.
func (e *editor) draw() {
	window := e.size()
	rows, y, x := e.layout(max(window.Cols-1, 10))
	// Of a text higher than the screen, only the rows around the cursor are drawn.
	most := max(window.Rows-1, 1)
	from := max(0, min(y-most/2, len(rows)-most))
	rows, y = rows[from:min(from+most, len(rows))], y-from
	e.home()
	fmt.Fprint(e.out, strings.Join(rows, "\r\n"))
	if up := len(rows) - 1 - y; up > 0 {
		fmt.Fprintf(e.out, "\x1b[%dA", up)
	}
	fmt.Fprintf(e.out, "\r\x1b[%dC", x)
	e.drawnY = y
}

// home moves the cursor to the first drawn row and clears the screen from there.
func (e *editor) home() {
	if e.drawnY > 0 {
		fmt.Fprintf(e.out, "\x1b[%dA", e.drawnY)
	}
	fmt.Fprint(e.out, "\r\x1b[J")
	e.drawnY = 0
}

// leave draws the text a last time and moves the cursor below it.
func (e *editor) leave() {
	e.at = len(e.text)
	e.draw()
	fmt.Fprint(e.out, "\r\n")
	e.drawnY = 0
}

// layout splits the text into rows of at most width columns and returns the position of the cursor in them. All rows
// after the first are indented by the width of the prompt.
func (e *editor) layout(width int) (rows []string, y, x int) {
	indent := 0
	for _, r := range e.prompt {
		indent += ui.RuneWidth(r)
	}
	row, col := e.prompt, indent
	next := func() {
		rows = append(rows, row)
		row, col = strings.Repeat(" ", indent), indent
	}
	for i, r := range e.text {
		shown, wide := shownRune(r)
		if col+wide > width {
			next()
		}
		if i == e.at {
			y, x = len(rows), col
		}
		if r == '\n' {
			next()
			continue
		}
		row, col = row+shown, col+wide
	}
	if e.at == len(e.text) {
		y, x = len(rows), col
	}
	return append(rows, row), y, x
}

// shownRune returns a character as it is drawn, and its width in columns.
func shownRune(r rune) (string, int) {
	if r != '\n' && ui.Unprintable(r) {
		shown := ui.Clean(string(r))
		return shown, len(shown)
	}
	return string(r), ui.RuneWidth(r)
}

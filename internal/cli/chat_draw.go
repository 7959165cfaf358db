package cli

import (
	"fmt"
	"strings"
)

// draw shows the text again, from the row where it was begun.
func (e *editor) draw() {
	window := e.size()
	rows, y, x := e.layout(max(window.Cols-1, 10))
	// What is higher than the screen is shown around the cursor.
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

// home clears what was drawn and goes to where it began.
func (e *editor) home() {
	if e.drawnY > 0 {
		fmt.Fprintf(e.out, "\x1b[%dA", e.drawnY)
	}
	fmt.Fprint(e.out, "\r\x1b[J")
	e.drawnY = 0
}

// leave draws the text a last time and goes behind it.
func (e *editor) leave() {
	e.at = len(e.text)
	e.draw()
	fmt.Fprint(e.out, "\r\n")
	e.drawnY = 0
}

// layout is the text as rows of at most so many columns, and where in them the cursor is. All rows begin
// below the prompt's end.
func (e *editor) layout(width int) (rows []string, y, x int) {
	indent := 0
	for _, r := range e.prompt {
		indent += runeWidth(r)
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

// shownRune is a character as it is drawn, and how wide that is.
func shownRune(r rune) (string, int) {
	if r != '\n' && hostile(r) {
		shown := clean(string(r))
		return shown, len(shown)
	}
	return string(r), runeWidth(r)
}

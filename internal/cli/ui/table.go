package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// batch is the number of rows that are aligned together. It is enough for a screen, but small enough to print a long
// list while it is still being read.
const batch = 200

// Cell is one value of a row, with its colour at a terminal.
type Cell struct {
	Text   string
	Colour Colour
}

// Coloured returns a cell with a colour.
func Coloured(text string, c Colour) Cell { return Cell{text, c} }

// Plain returns a cell without a colour.
func Plain(text string) Cell { return Cell{Text: text} }

// Table prints aligned columns and cleans their text. At a terminal it fits the window: it leaves out the columns in
// Drop, in their order, and wraps long cells at words. With --wide it prints everything.
type Table struct {
	Right []int    // indexes of columns that are aligned to the right
	Drop  []string // columns that are left out at a narrow terminal

	out     Stream
	indent  string
	columns []string
	limit   int // width of the terminal in columns; zero: unlimited
	widths  []int
	hidden  []bool // nil until the first batch
	rows    [][]Cell
}

// NewTable returns a table with a header.
func (u *UI) NewTable(columns ...string) *Table {
	t := u.newTable(len(columns))
	t.columns = columns
	head := make([]Cell, len(columns))
	for i, name := range columns {
		head[i] = Cell{name, Bold}
	}
	t.rows = append(t.rows, head)
	return t
}

func (u *UI) newTable(columns int) *Table {
	return &Table{out: u.Out, limit: u.maxWidth(), widths: make([]int, columns), columns: make([]string, columns)}
}

// maxWidth returns the maximum width of the output; zero: unlimited.
func (u *UI) maxWidth() int {
	if !u.Out.TTY || u.Wide {
		return 0
	}
	return u.WindowSize().Cols
}

// Add appends a row. It prints the rows when a batch is full.
func (t *Table) Add(cells ...Cell) error {
	for i := range cells {
		cells[i].Text = Clean(cells[i].Text)
	}
	t.rows = append(t.rows, cells)
	if len(t.rows) < batch {
		return nil
	}
	return t.Flush()
}

// Flush prints the pending rows. A column never becomes narrower than in earlier batches.
func (t *Table) Flush() error {
	for _, row := range t.rows {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], Width(c.Text))
		}
	}
	if t.hidden == nil {
		t.hide()
	}
	widths := t.fit()
	for _, row := range t.rows {
		if _, err := io.WriteString(t.out, t.lines(row, widths)); err != nil {
			return err
		}
	}
	t.rows = nil
	return nil
}

// minWrapWidth is the minimum width of wrapped columns before other columns are left out.
const minWrapWidth = 24

// hide leaves out columns until the others fit with at least minWrapWidth each.
func (t *Table) hide() {
	t.hidden = make([]bool, len(t.widths))
	for _, name := range t.Drop {
		if t.limit == 0 || t.total(minWrapWidth) <= t.limit {
			return
		}
		if i := slices.Index(t.columns, name); i >= 0 {
			t.hidden[i] = true
		}
	}
}

// total returns the width of a line in which no column is wider than most.
func (t *Table) total(most int) int {
	sum := len(t.indent) - len(gap)
	for i, w := range t.widths {
		if !t.hidden[i] {
			sum += min(w, most) + len(gap)
		}
	}
	return sum
}

const gap = "  "

// fit returns the widths of the columns. It shrinks the widest columns until a line fits.
func (t *Table) fit() []int {
	widths := slices.Clone(t.widths)
	most := slices.Max(append(widths, 0))
	for t.limit > 0 && most > 8 && t.total(most) > t.limit {
		most--
	}
	for i, w := range widths {
		if t.limit > 0 {
			widths[i] = min(w, most)
		}
	}
	return widths
}

// lines returns the lines of one row, with its long cells wrapped.
func (t *Table) lines(row []Cell, widths []int) string {
	parts, height := make([][]string, len(row)), 1
	for i, c := range row {
		if !t.hidden[i] {
			parts[i] = Wrap(c.Text, widths[i])
			height = max(height, len(parts[i]))
		}
	}
	var b strings.Builder
	for n := range height {
		line := t.indent
		for i, c := range row {
			if t.hidden[i] {
				continue
			}
			text := ""
			if n < len(parts[i]) {
				text = parts[i][n]
			}
			space := strings.Repeat(" ", max(widths[i]-Width(text), 0))
			if slices.Contains(t.Right, i) {
				text, space = space+text, ""
			}
			line += t.out.Paint(c.Colour, text) + space + gap
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Block prints aligned rows under a title. It prints nothing if there are no rows.
func (u *UI) Block(title string, rows [][]Cell) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(u.Out, "\n%s\n", u.Out.Paint(Bold, title)); err != nil {
		return err
	}
	t := u.newTable(len(rows[0]))
	t.indent = gap
	for _, row := range rows {
		if err := t.Add(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// batch is how many rows are aligned together: enough for a screen, few enough to print a long list
// while it is still being read.
const batch = 200

// cell is one value of a row and the colour it has at a terminal.
type cell struct {
	text   string
	colour colour
}

// table prints aligned columns. What is put into it is cleaned.
type table struct {
	out    stream
	indent string
	right  []int // columns of numbers, which end under each other
	widths []int
	rows   [][]cell
}

func (f *frame) table(columns ...string) *table {
	t := &table{out: f.out, widths: make([]int, len(columns))}
	head := make([]cell, len(columns))
	for i, name := range columns {
		head[i] = cell{name, bold}
	}
	t.rows = append(t.rows, head)
	return t
}

func (t *table) add(cells ...cell) error {
	for i := range cells {
		cells[i].text = clean(cells[i].text)
	}
	t.rows = append(t.rows, cells)
	if len(t.rows) < batch {
		return nil
	}
	return t.flush()
}

// flush prints the rows at hand. Columns never become narrower than they were.
func (t *table) flush() error {
	for _, row := range t.rows {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		if _, err := io.WriteString(t.out, t.line(row)); err != nil {
			return err
		}
	}
	t.rows = nil
	return nil
}

func (t *table) line(row []cell) string {
	var b strings.Builder
	b.WriteString(t.indent)
	for i, c := range row {
		space := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.text))
		if slices.Contains(t.right, i) {
			b.WriteString(space)
			space = ""
		}
		b.WriteString(t.out.paint(c.colour, c.text))
		if i < len(row)-1 {
			b.WriteString(space + "  ")
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

func plain(text string) cell { return cell{text: text} }

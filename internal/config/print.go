package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Row is one line of `berth config`. Secrets are masked in Value.
type Row struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Origin  string `json:"origin"`
	Problem string `json:"problem,omitempty"` // the reason why the value is invalid, and a valid form
}

// Rows returns every effective value with its origin in the order of the table, then the templates by name. For an
// invalid value it returns the given text. The contents of templates are not shown: they may hold secrets.
func (l *Loaded) Rows() []Row {
	rows := make([]Row, 0, len(table)+len(l.Templates))
	for _, s := range table {
		rows = append(rows, l.row(s))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Templates)) {
		rows = append(rows, Row{Key: "templates." + name, Value: "(section)", Origin: l.Templates[name].Origin})
	}
	return rows
}

func (l *Loaded) row(s Setting) Row {
	r := Row{Key: s.Key, Value: s.field.text(&l.Config), Origin: l.origins[s.Key]}
	i := slices.IndexFunc(l.problems, func(p Problem) bool { return p.Key == s.Key })
	if i < 0 {
		return r
	}
	p := l.problems[i]
	r.Problem = p.Why + "; " + p.Fix
	if p.Origin != "" {
		r.Value, r.Origin = strings.Trim(strconv.Quote(p.Value), `"`), p.Origin
	}
	return r
}

// Print writes the rows as aligned columns, with a ! after invalid values. The reasons are in the error of Load.
func (l *Loaded) Print(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range l.Rows() {
		value := r.Value
		if value == "" {
			value = `""`
		}
		mark := ""
		if r.Problem != "" {
			mark = "  !"
		}
		fmt.Fprintf(columns, "%s\t%s\t%s%s\n", r.Key, value, r.Origin, mark)
	}
	if err := columns.Flush(); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

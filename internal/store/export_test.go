package store

import (
	"context"
	"strings"
)

// Explain returns how the database reads a page of sandboxes.
func (s Scope) Explain(ctx context.Context, f Filter, page Page) (string, error) {
	l := s.sandboxes(f)
	text, args := l.text(page)
	word, detail := "explain ", 0
	if s.db.dialect == sqliteDialect {
		word, detail = "explain query plan ", 3
	}
	rows, err := s.db.read.query(ctx, word+text, args...)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		columns := make([]any, detail+1)
		for i := range columns {
			columns[i] = new(any)
		}
		if err := rows.Scan(columns...); err != nil {
			return "", err
		}
		line, _ := (*columns[detail].(*any)).(string)
		plan.WriteString(line + "\n")
	}
	return plan.String(), rows.Err()
}

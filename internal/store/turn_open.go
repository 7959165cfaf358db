package store

import (
	"context"
	"fmt"
	"strings"
)

// Working says which of the conversations have turns that have not finished, and which turn is the oldest
// of each.
func (s Scope) Working(ctx context.Context, conversations []string) (map[string]string, error) {
	working := map[string]string{}
	if len(conversations) == 0 {
		return working, nil
	}
	args, marks := []any{s.tenant}, make([]string, len(conversations))
	for i, id := range conversations {
		args = append(args, id)
		marks[i] = fmt.Sprintf("$%d", i+2)
	}
	type open struct{ turn, conversation string }
	turns, err := all(ctx, s.db.read, func(row scanner) (o open, err error) {
		err = row.Scan(&o.turn, &o.conversation)
		return o, err
	}, `select id, conversation from turns where tenant = $1 and finished_at is null and conversation in (`+strings.Join(marks, ", ")+`)
		order by created_at desc, id desc`, args...)
	for _, t := range turns {
		working[t.conversation] = t.turn
	}
	return working, s.db.fail("list turns", err)
}

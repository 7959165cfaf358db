package chat

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// Checked is the result of a check of all conversations.
type Checked struct {
	Conversations int      `json:"conversations"`
	Messages      int64    `json:"messages"`
	Undelivered   int64    `json:"undelivered"`
	Problems      []string `json:"problems"`
}

// maxReads is the number of times that Check reads a conversation whose stats differ: a running turn may be changing
// it.
const maxReads = 3

// Check compares the stored stats of every conversation with the sum over its messages.
func Check(ctx context.Context, db *store.DB, messages transcript.Store) (Checked, error) {
	done := Checked{Problems: []string{}}
	for after := ""; ; {
		page, err := db.Overview().ListConversations(ctx, after, 500)
		if err != nil || len(page) == 0 {
			return done, err
		}
		for _, c := range page {
			if err := done.check(ctx, db, messages, c); err != nil {
				return done, err
			}
			after = c.ID
		}
	}
}

func (d *Checked) check(ctx context.Context, db *store.DB, messages transcript.Store, c store.Conversation) error {
	d.Conversations++
	for try := 1; ; try++ {
		sum, err := total(ctx, messages, c)
		if err != nil {
			return fmt.Errorf("read the messages of conversation %s: %w", c.ID, err)
		}
		waiting, _, err := db.In(c.Tenant).Outgoing().Count(ctx, c.ID)
		if err != nil {
			return err
		}
		if sum == c.Stats || try == maxReads {
			d.Messages += sum.Messages
			d.Undelivered += waiting
			if sum != c.Stats {
				d.Problems = append(d.Problems, fmt.Sprintf("conversation %s: its stats are %+v, and its messages add up to %+v", c.ID, c.Stats.Stats(), sum.Stats()))
			}
			return nil
		}
		if c, err = db.In(c.Tenant).Conversation(ctx, c.ID); err != nil {
			return err
		}
	}
}

func total(ctx context.Context, messages transcript.Store, c store.Conversation) (sum store.Totals, err error) {
	for m, err := range transcript.All(ctx, messages, string(c.Tenant), c.ID) {
		if err != nil {
			return sum, err
		}
		sum = sum.Add(store.TotalsOf(m))
	}
	return sum, nil
}

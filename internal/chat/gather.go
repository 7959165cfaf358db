package chat

import (
	"context"
	"iter"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/readahead"
)

// gather reads ahead: it joins the steps that arrive while the last one is processed. Without it, a turn that fell
// behind would store each step in its own transaction and never catch up with its agent.
func gather(ctx context.Context, read func(context.Context) iter.Seq2[agent.Step, error]) iter.Seq2[agent.Step, error] {
	return func(yield func(agent.Step, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		steps := readahead.Read(ctx, read(ctx), func(s agent.Step) int { return bytesOf(s.Events) })
		defer steps.Wait()
		defer cancel()
		for over := false; !over; {
			<-steps.News
			var taken []readahead.Piece[agent.Step]
			if taken, over = steps.Take(); !yieldJoined(taken, yield) {
				return
			}
		}
	}
}

// yieldJoined yields steps as one. An error, or the step with the end, is yielded separately.
func yieldJoined(taken []readahead.Piece[agent.Step], yield func(agent.Step, error) bool) bool {
	var joined agent.Step
	n := 0
	for _, p := range taken {
		if p.Err != nil || p.Value.End != nil {
			return (n == 0 || yield(joined, nil)) && yield(p.Value, p.Err)
		}
		if n++; n == 1 {
			joined = p.Value
			continue
		}
		joined.Events, joined.Cursor = append(joined.Events, p.Value.Events...), p.Value.Cursor
	}
	return n == 0 || yield(joined, nil)
}

// bytesOf returns the approximate size of events.
func bytesOf(events []api.TurnEvent) (n int) {
	for _, e := range events {
		n += len(e.Text) + len(e.Input) + len(e.Raw)
	}
	return n
}

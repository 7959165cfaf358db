package turn

import (
	"context"
	"iter"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
)

// ahead is about how many bytes of events are read before the ones before them are stored.
const ahead = 128 << 10

// gather reads ahead: steps that come while the one before is dealt with are yielded as one. Without it a turn
// that fell behind would store one step in each transaction, and never catch up with its agent.
func gather(ctx context.Context, read func(context.Context) iter.Seq2[agent.Step, error]) iter.Seq2[agent.Step, error] {
	return func(yield func(agent.Step, error) bool) {
		g := &gathering{news: make(chan struct{}, 1), room: make(chan struct{}, 1)}
		var reader sync.WaitGroup
		defer reader.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		reader.Go(func() {
			for step, err := range read(ctx) {
				if !g.put(ctx, step, err) {
					return
				}
			}
			g.close()
		})
		for {
			steps, err, over := g.take()
			for _, s := range steps {
				if !yield(s, nil) {
					return
				}
			}
			if err != nil && !yield(agent.Step{}, err) || over {
				return
			}
			<-g.news
		}
	}
}

// gathering is what was read and not yielded.
type gathering struct {
	mu   sync.Mutex
	next *agent.Step // steps without an end, as one
	size int         // of its events
	last *agent.Step // the one with the end
	err  error
	over bool
	news chan struct{} // there is something to take
	room chan struct{} // something was taken
}

// put adds a step, once there is room for it.
func (g *gathering) put(ctx context.Context, s agent.Step, err error) bool {
	for !g.add(s, err) {
		select {
		case <-ctx.Done():
			g.close()
			return false
		case <-g.room:
		}
	}
	signal(g.news)
	return true
}

func (g *gathering) add(s agent.Step, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.err = err
	case s.End != nil:
		g.last = &s
	case g.next == nil:
		g.next, g.size = &s, bytesOf(s.Events)
	case g.size > ahead:
		return false
	default:
		g.next.Events, g.next.Cursor = append(g.next.Events, s.Events...), s.Cursor
		g.size += bytesOf(s.Events)
	}
	return true
}

// bytesOf is about how large events are.
func bytesOf(events []api.TurnEvent) (n int) {
	for _, e := range events {
		n += len(e.Text) + len(e.Input) + len(e.Raw)
	}
	return n
}

func (g *gathering) close() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	signal(g.news)
}

// take takes all there is.
func (g *gathering) take() (steps []agent.Step, err error, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		steps, g.next = append(steps, *g.next), nil
		signal(g.room)
	}
	if g.last != nil {
		steps, g.last = append(steps, *g.last), nil
	}
	err, g.err = g.err, nil
	return steps, err, g.over
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

package chat

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/readahead"
	"github.com/berthdev/berth/internal/testkit"
)

func said(n int) agent.Step {
	return agent.Step{Events: []api.TurnEvent{{Type: api.EventText, Text: strconv.Itoa(n)}}, Cursor: agent.Cursor{Offset: int64(n)}}
}

// However fast the two sides are, every event comes once and in order, with the place behind it.
func TestGatheringLosesNothing(t *testing.T) {
	testkit.Proves(t, "C4")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "steps")
		size := rapid.SampledFrom([]int{1, readahead.Size/2 + 1, 2 * readahead.Size}).Draw(t, "size")
		end := rapid.SampledFrom([]string{"end", "error", "nothing"}).Draw(t, "then")
		broken := errors.New("broken")
		read := func(context.Context) iter.Seq2[agent.Step, error] {
			return func(yield func(agent.Step, error) bool) {
				for i := range n {
					s := said(i + 1)
					s.Events[0].Raw = []byte(strings.Repeat("x", size))
					if !yield(s, nil) {
						return
					}
				}
				switch end {
				case "end":
					s := said(n + 1)
					s.End = &agent.End{}
					yield(s, nil)
				case "error":
					yield(agent.Step{}, broken)
				}
			}
		}
		leaveAt := rapid.IntRange(1, 60).Draw(t, "leave at")
		heard, steps, ended := 0, 0, ""
		for s, err := range gather(t.Context(), read) {
			if err != nil {
				ended = err.Error()
				continue
			}
			for _, e := range s.Events {
				if heard++; e.Text != strconv.Itoa(heard) {
					t.Fatalf("event %d is %s", heard, e.Text)
				}
			}
			if s.Cursor.Offset != int64(heard) {
				t.Fatalf("after %d events the place is %d", heard, s.Cursor.Offset)
			}
			if bytesOf(s.Events) > readahead.Size+2*size {
				t.Fatalf("%d bytes at once", bytesOf(s.Events))
			}
			if s.End != nil {
				ended = "end"
			}
			if steps++; steps == leaveAt {
				return
			}
		}
		want := map[string]struct {
			events int
			ended  string
		}{"end": {n + 1, "end"}, "error": {n, "broken"}, "nothing": {n, ""}}[end]
		if heard != want.events || ended != want.ended {
			t.Fatalf("%d of %d events, then %q, not %q", heard, want.events, ended, want.ended)
		}
	})
}

// What comes while a step is dealt with is one step, so that a turn that fell behind catches up.
func TestBacklogIsOneStep(t *testing.T) {
	all := make(chan struct{})
	read := func(context.Context) iter.Seq2[agent.Step, error] {
		return func(yield func(agent.Step, error) bool) {
			for i := range 300 {
				yield(said(i+1), nil)
			}
			close(all)
		}
	}
	steps := 0
	for s, err := range gather(t.Context(), read) {
		if steps++; err != nil || steps > 2 {
			t.Fatalf("step %d of %d events, %v", steps, len(s.Events), err)
		}
		<-all
	}
}

// A reader that waits for its agent ends when its consumer stops.
func TestGatheringEndsWithItsListener(t *testing.T) {
	left := make(chan struct{})
	read := func(ctx context.Context) iter.Seq2[agent.Step, error] {
		return func(yield func(agent.Step, error) bool) {
			defer close(left)
			yield(said(1), nil)
			<-ctx.Done()
		}
	}
	for range gather(t.Context(), read) {
		break
	}
	<-left
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left = make(chan struct{})
	for range gather(ctx, read) {
		cancel()
	}
	<-left
}

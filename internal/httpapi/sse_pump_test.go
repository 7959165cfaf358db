package httpapi

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/berthdev/berth/internal/turn"
)

func eventSize(e turn.Event) int { return len(e.Data) }

// endless yields events until nobody wants more, and then closes ended.
func endless(data string, read *int64, ended chan struct{}) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		defer close(ended)
		for *read = 1; yield(turn.Event{Seq: *read, Data: []byte(data)}, nil); *read++ {
		}
	}
}

// Whoever stops listening leaves nothing running.
func TestPumpEndsWithItsReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended, read := make(chan struct{}), int64(0)
	pieces := newPump(ctx, endless("{}", &read, ended), eventSize)
	<-pieces.news
	pieces.take()
	cancel()
	<-ended
}

// Who takes nothing keeps the sequence waiting, and little in memory; who takes gets all of it in order.
func TestPumpReadsALittleAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended, read := make(chan struct{}), int64(0)
		pieces := newPump(ctx, endless(string(make([]byte, 1000)), &read, ended), eventSize)
		next := int64(1)
		for range 5 {
			synctest.Wait()
			ahead := read - next
			if ahead < 10 || ahead > pumpSize/1000+1 {
				t.Errorf("it read %d events ahead", ahead)
			}
			<-pieces.news
			first, any := pieces.peek()
			<-pieces.news
			taken, over := pieces.take()
			if !any || over || first.value.Seq != next || len(taken) == 0 {
				t.Fatalf("the first of %d is %+v, %v, %v", len(taken), first, any, over)
			}
			for _, p := range taken {
				if p.value.Seq != next {
					t.Fatalf("event %d instead of %d", p.value.Seq, next)
				}
				next++
			}
		}
		cancel()
		<-ended
	})
}

// The end and an error come behind all that was there before.
func TestPumpEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		err  error
		want []error
	}{{"end", nil, []error{nil, nil}}, {"error", broken, []error{nil, nil, broken}}} {
		t.Run(tt.name, func(t *testing.T) {
			pieces := newPump(t.Context(), func(yield func(turn.Event, error) bool) {
				if yield(turn.Event{Seq: 1}, nil) && yield(turn.Event{Seq: 2}, nil) && tt.err != nil {
					yield(turn.Event{}, tt.err)
				}
			}, eventSize)
			var got []error
			for over := false; !over; {
				<-pieces.news
				var taken []piece[turn.Event]
				taken, over = pieces.take()
				for _, p := range taken {
					got = append(got, p.err)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v", got)
			}
			if first, any := pieces.peek(); any {
				t.Errorf("behind the end is %v", first)
			}
		})
	}
}

package readahead_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/berthdev/berth/internal/readahead"
)

type event struct {
	seq  int64
	data string
}

func eventSize(e event) int { return len(e.data) }

// endless yields events until nobody wants more, and then closes ended.
func endless(data string, read *int64, ended chan struct{}) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		defer close(ended)
		for *read = 1; yield(event{*read, data}, nil); *read++ {
		}
	}
}

// Whoever stops listening leaves nothing running.
func TestReadingEndsWithItsReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended, read := make(chan struct{}), int64(0)
	pieces := readahead.Read(ctx, endless("{}", &read, ended), eventSize)
	<-pieces.News
	pieces.Take()
	cancel()
	pieces.Wait()
	<-ended
}

// Who takes nothing keeps the sequence waiting, and little in memory; who takes gets all of it in order.
func TestReadsALittleAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended, read := make(chan struct{}), int64(0)
		pieces := readahead.Read(ctx, endless(string(make([]byte, 1000)), &read, ended), eventSize)
		next := int64(1)
		for range 5 {
			synctest.Wait()
			before := read - next
			if before < 10 || before > readahead.Size/1000+1 {
				t.Errorf("it read %d events ahead", before)
			}
			<-pieces.News
			first, any := pieces.Peek()
			<-pieces.News
			taken, over := pieces.Take()
			if !any || over || first.Value.seq != next || len(taken) == 0 {
				t.Fatalf("the first of %d is %+v, %v, %v", len(taken), first, any, over)
			}
			for _, p := range taken {
				if p.Value.seq != next {
					t.Fatalf("event %d instead of %d", p.Value.seq, next)
				}
				next++
			}
		}
		cancel()
		<-ended
	})
}

// The end and an error come behind all that was there before.
func TestEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		err  error
		want []error
	}{{"end", nil, []error{nil, nil}}, {"error", broken, []error{nil, nil, broken}}} {
		t.Run(tt.name, func(t *testing.T) {
			pieces := readahead.Read(t.Context(), func(yield func(event, error) bool) {
				if yield(event{seq: 1}, nil) && yield(event{seq: 2}, nil) && tt.err != nil {
					yield(event{}, tt.err)
				}
			}, eventSize)
			var got []error
			for over := false; !over; {
				<-pieces.News
				var taken []readahead.Piece[event]
				taken, over = pieces.Take()
				for _, p := range taken {
					got = append(got, p.Err)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v", got)
			}
			if first, any := pieces.Peek(); any {
				t.Errorf("behind the end is %v", first)
			}
		})
	}
}

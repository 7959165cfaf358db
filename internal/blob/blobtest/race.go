package blobtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
)

// Race runs concurrent writers with the same condition. Half of them use store a and half store b, on the same
// location. Exactly one write must succeed, all others must return ErrPrecondition, and the object must have the
// bytes of the successful write.
func Race(t *testing.T, a, b blob.Store) {
	writers, rounds := testkit.Size(t, "blob.writers"), testkit.Size(t, "blob.rounds")
	var tag blob.Tag
	for round := range rounds {
		fresh := fmt.Sprintf("race/fresh-%d", round)
		race(t, writers, a, b, fresh, blob.PutOptions{IfAbsent: true})
		o := blob.PutOptions{IfMatch: tag}
		if round == 0 {
			o = blob.PutOptions{IfAbsent: true}
		}
		tag = race(t, writers, a, b, "race/head", o)
	}
}

func race(t *testing.T, writers int, a, b blob.Store, key string, o blob.PutOptions) blob.Tag {
	t.Helper()
	ctx := callContext(t)
	tags, errs := make([]blob.Tag, writers), make([]error, writers)
	begin := make(chan struct{})
	var done sync.WaitGroup
	for n := range writers {
		done.Go(func() {
			text := fmt.Sprintf("%s by %d", key, n)
			if o.IfMatch != "" {
				text += " over " + string(o.IfMatch)
			}
			<-begin
			tags[n], errs[n] = []blob.Store{a, b}[n%2].Put(ctx, key, strings.NewReader(text), int64(len(text)), o)
		})
	}
	close(begin)
	done.Wait()
	winner := -1
	for n, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("%s, %+v: %d and %d both won", key, o, winner, n)
		case err == nil:
			winner = n
		case !errors.Is(err, blob.ErrPrecondition):
			t.Fatalf("%s, %+v: %v", key, o, err)
		}
	}
	if winner < 0 {
		t.Fatalf("%s, %+v: nobody won", key, o)
	}
	object, text, err := read(ctx, a, key, blob.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), fmt.Sprintf("%s by %d", key, winner)) || object.Tag != tags[winner] {
		t.Fatalf("%s: %d won, and the object is %q with tag %s, not %s", key, winner, text, object.Tag, tags[winner])
	}
	return tags[winner]
}

// Count runs concurrent writers that increment one number by compare-and-swap, through two stores on the same
// location. It fails the test if an increment is lost. It returns the number of increments that returned an error;
// each of them may have taken effect.
func Count(t *testing.T, a, b blob.Store) (failed int) {
	t.Helper()
	const writers, steps = 8, 10
	ctx := callContext(t)
	var failures atomic.Int64
	var done sync.WaitGroup
	for n := range writers {
		done.Go(func() {
			for range steps {
				if err := CountUp(ctx, []blob.Store{a, b}[n%2], "counter"); err != nil {
					t.Log(err)
					failures.Add(1)
				}
			}
		})
	}
	done.Wait()
	failed = int(failures.Load())
	_, text, err := read(ctx, a, "counter", blob.GetOptions{})
	got, bad := strconv.Atoi(string(text))
	if err != nil || bad != nil || got > writers*steps || got < writers*steps-failed {
		t.Fatalf("of %d steps %d failed, and the counter is %q, %v", writers*steps, failed, text, err)
	}
	return failed
}

// CountUp increments the number in an object by compare-and-swap.
func CountUp(ctx context.Context, s blob.Store, key string) error {
	for {
		object, text, err := read(ctx, s, key, blob.GetOptions{})
		o, n := blob.PutOptions{IfAbsent: true}, 0
		switch {
		case err == nil:
			o = blob.PutOptions{IfMatch: object.Tag}
			if n, err = strconv.Atoi(string(text)); err != nil {
				return err
			}
		case !errors.Is(err, blob.ErrNotFound):
			return err
		}
		next := strconv.Itoa(n + 1)
		_, err = s.Put(ctx, key, strings.NewReader(next), int64(len(next)), o)
		if err == nil || !errors.Is(err, blob.ErrPrecondition) {
			return err
		}
	}
}

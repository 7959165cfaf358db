package driver_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

var key = driver.Key{Sandbox: "s", Incarnation: 3}

func exists(id driver.ID, k driver.Key) error {
	return &driver.ExistsError{Status: driver.Status{ID: id, Key: k}}
}

func TestRetryOnlyTransient(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		tries int
	}{
		{"success", nil, 1},
		{"transient", transient(0), 4},
		{"not found", driver.ErrNotFound, 1},
		{"quota", driver.ErrQuota, 1},
		{"unclassified", errors.New("odd"), 1},
		{"cancelled", context.Canceled, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &stub{call: func(context.Context, int) error { return tt.err }}
				_, err := driver.WithRetry(base, driver.Backoff{}).Inspect(t.Context(), "x")
				if err != tt.err || base.tries != tt.tries {
					t.Errorf("got %v after %d tries, want %v after %d", err, base.tries, tt.err, tt.tries)
				}
			})
		})
	}
}

func TestRetryEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := func(_ context.Context, try int) error {
			if try == 1 {
				return transient(try)
			}
			return nil
		}
		for op, want := range map[string]int{
			driver.OpStop: 2, driver.OpStart: 2, driver.OpFreeze: 2, driver.OpThaw: 2, driver.OpGuest: 2, driver.OpFiles: 2,
			driver.OpDestroy: 2, driver.OpInspect: 2,
		} {
			base := &able{stub: stub{call: once}}
			d := driver.WithRetry(base, driver.Backoff{}).(interface {
				driver.Driver
				driver.Stopper
				driver.Freezer
				driver.Guester
				driver.Filer
			})
			switch op {
			case driver.OpStop:
				d.Stop(t.Context(), "x")
			case driver.OpStart:
				d.Start(t.Context(), "x")
			case driver.OpFreeze:
				d.Freeze(t.Context(), "x")
			case driver.OpThaw:
				d.Thaw(t.Context(), "x")
			case driver.OpGuest:
				d.Guest(t.Context(), "x")
			case driver.OpFiles:
				d.Files(t.Context(), "x", "home_dir")
			case driver.OpDestroy:
				d.Destroy(t.Context(), "x")
			case driver.OpInspect:
				d.Inspect(t.Context(), "x")
			}
			if base.tries != want {
				t.Errorf("%s is tried %d times, want %d", op, base.tries, want)
			}
		}
	})
}

func TestBackoffGrowsToItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		base := &stub{call: func(_ context.Context, try int) error {
			at = append(at, time.Now())
			return transient(try)
		}}
		d := driver.WithRetry(base, driver.Backoff{First: time.Second, Max: 5 * time.Second, Tries: 7})
		if err := d.Destroy(t.Context(), "x"); driver.Classify(err) != "transient" {
			t.Fatal(err)
		}
		for i, full := range []time.Duration{1, 2, 4, 5, 5, 5} {
			full *= time.Second
			if wait := at[i+1].Sub(at[i]); wait < full/2 || wait > full {
				t.Errorf("wait %d is %v, not within %v and %v", i+1, wait, full/2, full)
			}
		}
	})
}

func TestBackoffIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		for range 20 {
			begun := time.Now()
			base := &stub{call: func(_ context.Context, try int) error { return transient(try) }}
			driver.WithRetry(base, driver.Backoff{Tries: 2}).Destroy(t.Context(), "x")
			waits[time.Since(begun)] = true
		}
		if len(waits) < 10 {
			t.Errorf("20 callers came back at %d times", len(waits))
		}
	})
}

func TestRetryHonoursAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &stub{call: func(_ context.Context, try int) error {
			if try == 1 {
				return &driver.TransientError{After: time.Minute}
			}
			return nil
		}}
		begun := time.Now()
		d := driver.WithRetry(base, driver.Backoff{First: time.Millisecond, Max: time.Second})
		if err := d.Destroy(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("came back after %v, asked to after a minute", took)
		}
	})
}

func TestRetryKeepsWithinDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		advice := &driver.TransientError{After: time.Minute, Err: errors.New("busy")}
		base := &stub{call: func(context.Context, int) error { return advice }}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		begun := time.Now()
		err := driver.WithRetry(base, driver.Backoff{}).Destroy(ctx, "x")
		if !errors.Is(err, advice) || driver.Classify(err) != "transient" || base.tries != 1 {
			t.Errorf("got %v after %d tries", err, base.tries)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("waited %v for a try that could not come", took)
		}
	})
}

func TestRetryEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		base := &stub{call: func(_ context.Context, try int) error { return transient(try) }}
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		err := driver.WithRetry(base, driver.Backoff{First: time.Hour, Max: time.Hour}).Destroy(ctx, "x")
		if !errors.Is(err, context.Canceled) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		if _, ok := errors.AsType[*driver.TransientError](err); !ok {
			t.Errorf("%v forgets what the driver said", err)
		}
	})
}

func TestRetriedCreateFindsItsOwn(t *testing.T) {
	other := driver.Key{Sandbox: "s", Incarnation: 2}
	for _, tt := range []struct {
		name    string
		answers []error
		id      driver.ID
		outcome string
	}{
		{"made at once", []error{nil}, "new", "ok"},
		{"made at the second try", []error{transient(1), nil}, "new", "ok"},
		{"lost reply", []error{transient(1), exists("old", key)}, "old", "ok"},
		{"two lost replies", []error{transient(1), transient(2), exists("old", key)}, "old", "ok"},
		{"another's at the first try", []error{exists("old", key)}, "", "exists"},
		{"another incarnation", []error{transient(1), exists("old", other)}, "", "exists"},
		{"refused after all", []error{transient(1), driver.ErrQuota}, "", "quota"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &stub{create: func(try int) (driver.Status, error) {
					if err := tt.answers[try-1]; err != nil {
						return driver.Status{}, err
					}
					return driver.Status{ID: "new", Key: key}, nil
				}}
				st, err := driver.WithRetry(base, driver.Backoff{}).Create(t.Context(), driver.Spec{Key: key})
				if st.ID != tt.id || driver.Classify(err) != tt.outcome || base.tries != len(tt.answers) {
					t.Errorf("got %q, %v after %d tries", st.ID, err, base.tries)
				}
			})
		})
	}
}

func TestRetriedListYieldsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &stub{entries: func(try int) ([]driver.Status, error) {
			if try == 1 {
				return statuses("a", "b"), transient(try)
			}
			return statuses("b", "a", "c"), nil
		}}
		got, err := list(t.Context(), driver.WithRetry(base, driver.Backoff{}))
		if err != nil || !slices.Equal(got, []driver.ID{"a", "b", "c"}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestRetriedListGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &stub{entries: func(try int) ([]driver.Status, error) { return statuses("a"), transient(try) }}
		got, err := list(t.Context(), driver.WithRetry(base, driver.Backoff{}))
		if driver.Classify(err) != "transient" || len(got) != 1 || base.tries != 4 {
			t.Errorf("got %v, %v after %d tries", got, err, base.tries)
		}
		base.tries = 0
		for range driver.WithRetry(base, driver.Backoff{}).List(t.Context(), driver.Selector{}) {
			break
		}
		if base.tries != 1 {
			t.Errorf("a List nobody reads on is tried %d times", base.tries)
		}
	})
}

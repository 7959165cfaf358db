package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/driver"
)

func TestMetricsSeeEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &able{stub: stub{
			create:  func(int) (driver.Status, error) { return driver.Status{}, exists("old", key) },
			entries: func(int) ([]driver.Status, error) { return statuses("a", "b"), errors.New("page") },
			call: func(context.Context, int) error {
				time.Sleep(time.Second)
				return driver.ErrNotFound
			},
		}}
		var got []string
		d := driver.WithMetrics(base, func(kind, op, outcome string, took time.Duration) {
			got = append(got, fmt.Sprintf("%s %s %s %v", kind, op, outcome, took))
		})
		d.Create(t.Context(), driver.Spec{})
		d.Inspect(t.Context(), "x")
		d.Destroy(t.Context(), "x")
		abilities(t.Context(), d)
		for range d.List(t.Context(), driver.Selector{}) {
			time.Sleep(time.Hour) // the caller's time, which is not the driver's
		}
		for range d.List(t.Context(), driver.Selector{}) {
			break
		}
		want := []string{
			"stub create exists 0s", "stub inspect not_found 1s", "stub destroy not_found 1s",
			"stub stop not_found 1s", "stub start not_found 1s", "stub freeze not_found 1s",
			"stub thaw not_found 1s", "stub guest not_found 1s", "stub files not_found 1s",
			"stub list error 0s", "stub list ok 0s",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{exists("x", key), "exists"},
		{context.Canceled, "canceled"},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), "timeout"},
		{transient(1), "transient"},
		{&driver.TransientError{Err: driver.ErrNotFound}, "transient"},
		{&driver.TransientError{}, "transient"},
		{fmt.Errorf("inspect: %w", driver.ErrNotFound), "not_found"},
		{driver.ErrNotRunning, "not_running"},
		{driver.ErrUnsupported, "unsupported"},
		{driver.ErrQuota, "quota"},
		{driver.ErrUnauthenticated, "unauthenticated"},
		{driver.ErrInvalid, "invalid"},
		{errors.New("odd"), "error"},
	} {
		if got := driver.Classify(tt.err); got != tt.want {
			t.Errorf("Classify(%v) = %s, want %s", tt.err, got, tt.want)
		}
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{exists("i-1", key), "instance i-1 already exists for sandbox s"},
		{transient(1), "try 1"},
		{&driver.TransientError{}, "transient failure"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%T says %q, want %q", tt.err, got, tt.want)
		}
	}
}

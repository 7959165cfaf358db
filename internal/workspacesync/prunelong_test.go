package workspacesync_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspacesync"
)

// slowManifests is a store in which reading a manifest takes its time.
type slowManifests struct{ blob.Store }

func (s slowManifests) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if strings.HasSuffix(key, "/.sandbox-state") {
		select {
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.Store.Get(ctx, key, o)
}

// oneSaved has the record of one sandbox.
type oneSaved struct {
	workspacesync.Records
	s sandbox.Sandbox
}

func (r oneSaved) ListSaved(_ context.Context, after string, _ int) ([]sandbox.Sandbox, error) {
	if after != "" {
		return nil, nil
	}
	return []sandbox.Sandbox{r.s}, nil
}

// A prune that takes longer than it may has more time in each pass, until it comes to its end.
func TestLongPruneComesToItsEnd(t *testing.T) {
	testkit.Proves(t, "S17")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sb := w.restore(w.born(sandbox.Sandbox{}))
		for n := range 12 {
			w.write(sb, "f", fmt.Sprint(n))
			sb = w.save(sb)
		}
		w.plan.KeepLast = 10
		w.Opts().Records = oneSaved{s: sb}
		w.Opts().Store = slowManifests{w.Opts().Store}
		ended := make(chan struct{})
		w.Opts().IfFree = func(ctx context.Context, _ string, do func(context.Context, sandbox.Sandbox) error) (bool, error) {
			err := do(ctx, sb)
			if err == nil {
				close(ended)
			}
			return true, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.RunPrunes(ctx, time.Minute)
		}()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Error("the prune did not come to its end")
		}
		cancel()
		<-stopped
		w.Opts().Store = w.Opts().Store.(slowManifests).Store
		if n := len(w.files(sb)); n != 10 {
			t.Errorf("%d versions are left", n)
		}
	})
}

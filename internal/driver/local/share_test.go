package local

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
)

// Who shares an instance lets others share it, until somebody waits to have it alone: else many who take
// turns could keep that one waiting for ever.
func TestWhoWaitsForAnInstanceAloneGoesFirst(t *testing.T) {
	d := assemble(&Driver{dir: t.TempDir(), awaited: map[driver.ID]int{}})
	const id = driver.ID("box-1")
	if err := os.Mkdir(d.dirs.path(id), 0o700); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var held []*instanceDir
	for range 2 {
		p, err := d.access.share(over, id) // no wait, so that the end of the context does not matter
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, p)
	}
	alone := make(chan error, 1)
	go func() {
		p, err := d.dirs.lock(t.Context(), id)
		if err == nil {
			err = p.Close()
		}
		alone <- err
	}()
	testkit.Eventually(t, 30*time.Second, func() error {
		if !d.access.isAwaited(id) {
			return errors.New("nobody waits")
		}
		return nil
	})
	if _, err := d.access.share(over, id); !errors.Is(err, context.Canceled) {
		t.Errorf("shared before somebody who waited: %v", err)
	}
	for _, p := range held {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-alone; err != nil {
		t.Error(err)
	}
	p, err := d.access.share(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if len(d.awaited) > 0 {
		t.Errorf("still awaited: %v", d.awaited)
	}
}

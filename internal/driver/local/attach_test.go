package local_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// attachments counts who is attached.
type attachments struct {
	sync.Mutex
	now, ever map[driver.ID]int
}

func (a *attachments) attach(ctx context.Context, st driver.Status, spec driver.Spec, conn guest.Conn) func() {
	err := conn.Ping(ctx)
	a.Lock()
	defer a.Unlock()
	a.now[st.ID]++
	a.ever[st.ID]++
	if err != nil || spec.Key != st.Key {
		a.ever[st.ID] = -1000
	}
	return func() {
		a.Lock()
		defer a.Unlock()
		a.now[st.ID]--
	}
}

func (a *attachments) is(t *testing.T, id driver.ID, now, ever int) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		a.Lock()
		defer a.Unlock()
		if a.now[id] != now || a.ever[id] != ever {
			return fmt.Errorf("attached %d times now and %d in all, not %d and %d", a.now[id], a.ever[id], now, ever)
		}
		return nil
	})
}

// What runs is attached to once, by each driver that is open.
func TestAttach(t *testing.T) {
	a := &attachments{now: map[driver.ID]int{}, ever: map[driver.ID]int{}}
	with := func(o *local.Options) { o.Attach, o.DiskEvery = a.attach, 20*time.Millisecond }
	dir := t.TempDir()
	d := open(t, dir, with)
	id := create(t, d, spec()).ID
	a.is(t, id, 1, 1)
	second := open(t, dir, with)
	a.is(t, id, 2, 2)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	a.is(t, id, 1, 2)
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	a.is(t, id, 0, 2)
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	a.is(t, id, 1, 3)
	if err := d.Destroy(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	a.is(t, id, 0, 3)
}

// What another driver started is attached to, too, after a while.
func TestAttachToWhatOthersStart(t *testing.T) {
	a := &attachments{now: map[driver.ID]int{}, ever: map[driver.ID]int{}}
	dir := t.TempDir()
	open(t, dir, func(o *local.Options) { o.Attach, o.DiskEvery = a.attach, 20*time.Millisecond })
	other := open(t, dir)
	id := create(t, other, spec()).ID
	a.is(t, id, 1, 1)
}

// An instance that was frozen when the driver was opened is attached to as soon as it is thawed.
func TestAttachToAThawedInstance(t *testing.T) {
	for name, thaw := range map[string]func(*local.Driver, driver.ID) error{
		"thaw": func(d *local.Driver, id driver.ID) error { return d.Thaw(t.Context(), id) },
		"start": func(d *local.Driver, id driver.ID) error {
			_, err := d.Start(t.Context(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attachments{now: map[driver.ID]int{}, ever: map[driver.ID]int{}}
			dir := t.TempDir()
			first := open(t, dir)
			id := create(t, first, spec()).ID
			if err := first.Freeze(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			second := open(t, dir, func(o *local.Options) { o.Attach, o.DiskEvery = a.attach, -1 })
			a.is(t, id, 0, 0)
			if err := thaw(second, id); err != nil {
				t.Fatal(err)
			}
			a.is(t, id, 1, 1)
		})
	}
}

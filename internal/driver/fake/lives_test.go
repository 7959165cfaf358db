package fake_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

func TestLivesTellWhenInstancesWereThere(t *testing.T) {
	d := open(t, t.TempDir())
	began := time.Now()
	first := create(t, d, "a", 1)
	if err := d.Stop(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	second := create(t, d, "a", 2)
	lives, err := d.Lives()
	if err != nil || len(lives) != 2 || lives[0].ID != first.ID || lives[1].ID != second.ID {
		t.Fatalf("%+v, %v", lives, err)
	}
	for i, l := range lives {
		if l.Key != (driver.Key{Sandbox: "a", Incarnation: int64(i + 1)}) || l.Labels["owner"] != "thread" || l.Asked.Before(began) || l.From.Before(l.Asked) || l.PID == 0 {
			t.Errorf("%+v", l)
		}
	}
	const tick = 20 * time.Millisecond // of the kernel's clock for files
	if to := lives[0].To; to.Before(lives[0].From.Add(-tick)) || to.After(ended) || !lives[1].To.IsZero() {
		t.Errorf("%+v", lives)
	}
}

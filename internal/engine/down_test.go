package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
)

// Everything stops, also what belongs to another tenant and what no record asks for, past one that
// cannot be stopped; and the next use starts it again.
func TestDownStopsAllOfThisMachine(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		m := new(manned)
		srv := at.open(t, withHelpers(m))
		var last sandbox.Sandbox
		for i := range 70 {
			owner := sandbox.Owner{Tenant: []string{"default", "other"}[i%2], Kind: sandbox.OwnerProject, ID: fmt.Sprint(i)}
			last = srv.ensure(t, owner)
		}
		stray, err := m.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: "0197fb61-0000-7000-8000-000000000001", Incarnation: 1}, Tenant: "default"})
		if err != nil {
			t.Fatal(err)
		}
		stuck := srv.fake.On(fake.Stop).Matching(func(k driver.Key) bool { return k.Sandbox == last.ID }).Fail(errAway)
		stopped, failed, err := srv.Down(t.Context(), "test")
		if stopped != 70 || failed != 1 || err == nil {
			t.Errorf("%d stopped, %d failed, %v", stopped, failed, err)
		}
		stuck.Off()
		if stopped, failed, err := srv.Down(t.Context(), "test"); stopped != 1 || failed != 0 || err != nil {
			t.Errorf("%d stopped, %d failed, %v", stopped, failed, err)
		}
		if st, err := m.Inspect(t.Context(), stray.ID); err != nil || st.Phase != driver.PhaseStopped {
			t.Errorf("%+v, %v", st, err)
		}
		if s := srv.ensure(t, last.Owner); s.State != sandbox.Running || s.Incarnation != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDownLeavesAloneWhatItCannotStopOrReach(t *testing.T) {
	at := onPostgres(t)
	_, _, s, _ := handled(t, at)
	there := at.open(t, withHelpers(new(manned)), func(o *engine.Options) {
		o.Host = "there"
		delete(o.Drivers, "fake")
	})
	if stopped, failed, err := there.Down(t.Context(), "test"); stopped+failed != 0 || err != nil {
		t.Errorf("%d stopped, %d failed, %v", stopped, failed, err)
	}
	here := at.open(t, func(o *engine.Options) {
		o.Host = "here"
		o.Drivers = map[string]driver.Driver{"fake": struct{ driver.Driver }{o.Drivers["fake"]}}
	})
	if stopped, failed, err := here.Down(t.Context(), "test"); stopped != 0 || failed != 1 || err != nil {
		t.Errorf("%d stopped, %d failed, %v", stopped, failed, err)
	}
	if now, err := here.db.Sandbox(t.Context(), s.ID); err != nil || now.Want != sandbox.WantRunning {
		t.Errorf("%+v, %v", now, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := here.Down(ended, "test"); err == nil {
		t.Error("no error though nothing could be read")
	}
}

package fake_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
)

func TestLogTellsAttemptsFromEffects(t *testing.T) {
	d := open(t, t.TempDir())
	key := driver.Key{Sandbox: "a", Incarnation: 1}
	st := create(t, d, "a", 1)
	d.Create(t.Context(), spec("a", 1))
	d.Inspect(t.Context(), st.ID)
	list(t.Context(), d, driver.Selector{Sandbox: "a"})
	d.Stop(t.Context(), st.ID)
	d.Stop(t.Context(), st.ID)
	d.Destroy(t.Context(), st.ID)
	d.Destroy(t.Context(), st.ID)
	d.Inspect(t.Context(), driver.ID(strings.Repeat("\x00", 5000)))
	want := []fake.Call{
		{Op: fake.Create, Key: key, ID: st.ID, Effect: true, Outcome: "ok"},
		{Op: fake.Create, Key: key, Outcome: "exists"},
		{Op: fake.Inspect, Key: key, ID: st.ID, Outcome: "ok"},
		{Op: fake.List, Key: driver.Key{Sandbox: "a"}, Outcome: "ok"},
		{Op: fake.Stop, Key: key, ID: st.ID, Effect: true, Outcome: "ok"},
		{Op: fake.Stop, Key: key, ID: st.ID, Outcome: "ok"},
		{Op: fake.Destroy, Key: key, ID: st.ID, Effect: true, Outcome: "ok"},
		{Op: fake.Destroy, ID: st.ID, Outcome: "ok"},
		{Op: fake.Inspect, ID: driver.ID(strings.Repeat("\x00", 256)), Outcome: "not_found"},
	}
	got := log(t, d)
	for i := range got {
		if got[i].PID != os.Getpid() || time.Since(got[i].Time) > time.Minute {
			t.Errorf("call %d is of process %d at %v", i, got[i].PID, got[i].Time)
		}
		got[i].PID, got[i].Time = 0, time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if fake.Effects(got, fake.Create) != 1 || fake.Effects(got, fake.Inspect) != 0 {
		t.Error("Effects counts wrong")
	}
}

func TestLogLeavesOutHalfALine(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	create(t, d, "a", 1)
	path := filepath.Join(dir, "calls.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, append(whole, `{"call":"x`...), 0o600)
	if calls := log(t, d); len(calls) != 1 {
		t.Errorf("%d calls, want 1", len(calls))
	}
	os.WriteFile(path, append([]byte("not json\n"), whole...), 0o600)
	if _, err := d.Log(); err == nil {
		t.Error("a damaged line goes unnoticed")
	}
}

func TestNoCallWithoutLog(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "calls.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), spec("a", 1)); err == nil {
		t.Error("Create went unlogged")
	}
	if _, err := d.Log(); err == nil {
		t.Error("a log that cannot be read is taken for an empty one")
	}
	if n := len(live(t, d)); n != 0 {
		t.Errorf("%d instances made without a log", n)
	}
}

package fake_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
)

var errTest = errors.New("test fault")

func TestFailBeforeEffect(t *testing.T) {
	d := open(t, t.TempDir())
	rule := d.On(fake.Create).Fail(errTest)
	_, err := d.Create(t.Context(), spec("a", 1))
	wantErr(t, err, errTest)
	if n := len(live(t, d)); n != 0 {
		t.Errorf("%d instances made by a Create that failed before", n)
	}
	rule.Off()
	create(t, d, "a", 1)
}

func TestLostReply(t *testing.T) {
	d := open(t, t.TempDir())
	d.On(fake.Create).Fail(errTest).After().Times(1)
	st, err := d.Create(t.Context(), spec("a", 1))
	wantErr(t, err, errTest)
	if st.ID != "" {
		t.Error("a lost reply carries a status")
	}
	if all := live(t, d); len(all) != 1 || all[0].Key != spec("a", 1).Key {
		t.Fatalf("after a lost reply there are %+v", all)
	}
	calls := log(t, d)
	if len(calls) != 1 || !calls[0].Effect || calls[0].Outcome != "error" {
		t.Errorf("the log has %+v", calls)
	}
	_, err = d.Create(t.Context(), spec("a", 1))
	if driver.Classify(err) != "exists" {
		t.Errorf("Create after the lost reply: %v", err)
	}
}

func TestRuleCountsAndMatches(t *testing.T) {
	d := open(t, t.TempDir())
	d.On(fake.Create).Matching(func(k driver.Key) bool { return k.Sandbox == "b" }).Times(2).Fail(errTest)
	create(t, d, "a", 1)
	for range 2 {
		_, err := d.Create(t.Context(), spec("b", 1))
		wantErr(t, err, errTest)
	}
	id := create(t, d, "b", 1).ID
	d.On(fake.Any).Matching(func(k driver.Key) bool { return k.Sandbox == "b" }).Fail(errTest)
	wantErr(t, d.Stop(t.Context(), id), errTest)
	_, err := list(t.Context(), d, driver.Selector{Sandbox: "b"})
	wantErr(t, err, errTest)
	if all, err := list(t.Context(), d, driver.Selector{}); err != nil || len(all) != 2 {
		t.Errorf("a List of all is struck too: %d, %v", len(all), err)
	}
}

func TestListFailsAfterSomeEntries(t *testing.T) {
	d := open(t, t.TempDir())
	for i := range 5 {
		create(t, d, "s"+strconv.Itoa(i), 1)
	}
	for _, tt := range []struct {
		arm  func(*fake.Rule)
		want int
	}{
		{func(r *fake.Rule) { r.Fail(errTest) }, 0},
		{func(r *fake.Rule) { r.FailAfter(0, errTest) }, 0},
		{func(r *fake.Rule) { r.FailAfter(3, errTest) }, 3},
		{func(r *fake.Rule) { r.FailAfter(9, errTest) }, 5},
		{func(r *fake.Rule) { r.Fail(errTest).After() }, 5},
	} {
		tt.arm(d.On(fake.List).Times(1))
		got, err := list(t.Context(), d, driver.Selector{})
		wantErr(t, err, errTest)
		if len(got) != tt.want {
			t.Errorf("%d entries before the error, want %d", len(got), tt.want)
		}
	}
	if got, err := list(t.Context(), d, driver.Selector{}); err != nil || len(got) != 5 {
		t.Errorf("after the faults: %d entries, %v", len(got), err)
	}
	for range d.List(t.Context(), driver.Selector{}) {
		break
	}
}

func TestUnreachable(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, "a", 1).ID
	d.On(fake.Any).Fail(fake.ErrUnreachable)
	_, inspect := d.Inspect(t.Context(), id)
	_, listing := list(t.Context(), d, driver.Selector{})
	for _, err := range []error{
		inspect, listing, d.Destroy(t.Context(), id), d.Freeze(t.Context(), id), d.Thaw(t.Context(), id),
	} {
		if driver.Classify(err) != "transient" {
			t.Errorf("unreachable is %v", err)
		}
	}
}

func TestSlowEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir())
		d.On(fake.Create).Slow(time.Hour)
		begun := time.Now()
		create(t, d, "a", 1)
		if took := time.Since(begun); took != time.Hour {
			t.Errorf("a slow Create took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := d.Create(ctx, spec("b", 1))
		wantErr(t, err, context.DeadlineExceeded)
		if n := len(live(t, d)); n != 1 {
			t.Errorf("%d instances, want 1", n)
		}
		d.On(fake.Destroy).After().Slow(time.Hour)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantErr(t, d.Destroy(ctx, live(t, d)[0].ID), context.DeadlineExceeded)
		if n := len(live(t, d)); n != 0 {
			t.Errorf("%d instances after a Destroy that was slow to answer", n)
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), fake.Latency(time.Second, 3*time.Second))
		for i := range 20 {
			begun := time.Now()
			create(t, d, "s"+strconv.Itoa(i), 1)
			if took := time.Since(begun); took < time.Second || took > 3*time.Second {
				t.Errorf("Create took %v", took)
			}
		}
		fixed := open(t, t.TempDir(), fake.Latency(time.Second, time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		_, err := fixed.Create(ctx, spec("a", 1))
		wantErr(t, err, context.DeadlineExceeded)
		if n := len(live(t, fixed)); n != 1 {
			t.Errorf("%d instances of a Create cut short on its way back, want 1", n)
		}
	})
}

func TestDoRunsAtTheFault(t *testing.T) {
	d := open(t, t.TempDir())
	seen := -1
	d.On(fake.Create).After().Do(func() { seen = len(live(t, d)) })
	create(t, d, "a", 1)
	if seen != 1 {
		t.Errorf("Do saw %d instances, want the one just made", seen)
	}
}

func TestSharedFaults(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir), open(t, dir)
	set := func(faults ...fake.Fault) {
		t.Helper()
		if err := fake.SetFaults(dir, faults); err != nil {
			t.Fatal(err)
		}
	}
	for i, word := range []string{
		"transient", "error", "not_found", "not_running", "unsupported", "quota", "unauthenticated", "invalid",
	} {
		set(fake.Fault{Op: fake.Create, Error: word})
		if _, err := d.Create(t.Context(), spec("s"+strconv.Itoa(i), 1)); driver.Classify(err) != word {
			t.Errorf("a fault of class %s gives %v", word, err)
		}
	}
	set(fake.Fault{Error: "unreachable", Sandbox: "a"})
	_, err := d.Create(t.Context(), spec("a", 1))
	wantErr(t, err, fake.ErrUnreachable)
	create(t, d, "b", 1)
	create(t, d, "c", 1)

	set(fake.Fault{Op: fake.List, Entries: 1, Error: "error"})
	if got, err := list(t.Context(), other, driver.Selector{}); err == nil || len(got) != 1 {
		t.Errorf("a List cut after one entry: %d, %v", len(got), err)
	}
	set(fake.Fault{Op: fake.Create, After: true, Error: "transient", Times: 3})
	failed := 0
	for i := range 6 {
		d := []driver.Driver{d, other}[i%2]
		if _, err := d.Create(t.Context(), spec("lost-"+strconv.Itoa(i), 1)); err != nil {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("a fault for 3 calls struck %d", failed)
	}
	set()
	if all, err := list(t.Context(), d, driver.Selector{}); err != nil || len(all) != 8 {
		t.Errorf("in peace: %d instances, %v", len(all), err)
	}
}

func TestSharedFaultIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := open(t, dir)
		if err := fake.SetFaults(dir, []fake.Fault{{Slow: time.Minute, Times: 1}}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		create(t, d, "a", 1)
		create(t, d, "b", 1)
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("two calls took %v", took)
		}
	})
}

func TestBadFaultsAreLoud(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	if err := fake.SetFaults(dir, []fake.Fault{{Error: "tired"}}); err == nil {
		t.Error("an unknown class of error is accepted")
	}
	path := filepath.Join(dir, "faults.json")
	for _, content := range []string{`{`, `{"faults":[{"opp":"create"}]}`, `{"faults":[{"error":"tired"}]}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Create(t.Context(), spec("a", 1)); err == nil {
			t.Errorf("faults %s are overlooked", content)
		}
	}
	os.Remove(path)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), spec("a", 1)); err == nil {
		t.Error("faults that cannot be read are overlooked")
	}
	if err := fake.SetFaults(dir, nil); err == nil {
		t.Error("faults were set over a folder")
	}
}

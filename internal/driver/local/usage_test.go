package local_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// TestUsageCountsMemoryProcessesAndKills: a process that the memory limit ends is counted.
func TestUsageCountsMemoryProcessesAndKills(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, limited(driver.Limits{MemoryBytes: 64 << 20})).ID
	before, err := d.Usage(t.Context(), id)
	if err != nil || before.Processes == 0 || before.MemoryLimit != 64<<20 || before.MemoryBytes <= 0 || before.OOMKills != 0 || before.Frozen {
		t.Fatalf("%+v, %v", before, err)
	}
	run(t, d, id, sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 400m /dev/zero | tail >/dev/null"))
	after, err := d.Usage(t.Context(), id)
	if err != nil || after.OOMKills == 0 || after.CPU <= before.CPU {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
	if err := d.Freeze(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if u, err := d.Usage(t.Context(), id); err != nil || !u.Frozen {
		t.Errorf("%+v, %v", u, err)
	}
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Usage(t.Context(), id); !errors.Is(err, driver.ErrNotRunning) {
		t.Errorf("of a stopped one: %v", err)
	}
	if _, err := d.Usage(t.Context(), "nosuch"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

// A sandbox of an ordinary user has no cgroups. Its processes are counted all the same.
func TestUsageWithoutCgroups(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestUsageWithoutCgroups")
		return
	}
	d := open(t, t.TempDir(), func(o *local.Options) { o.Tier = local.TierUser })
	id := create(t, d, spec()).ID
	run(t, d, id, sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"))
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "busy", guest.Cmd{Argv: sh("while :; do :; done").Argv}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		u, err := d.Usage(t.Context(), id)
		if err == nil && (u.Processes < 2 || u.CPU <= 0) {
			err = fmt.Errorf("%+v", u)
		}
		return err
	})
}

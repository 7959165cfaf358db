package local_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/rate"
	"github.com/berthdev/berth/internal/testkit"
)

// Output larger than a burst takes its time, whether it is read as it comes or kept: what one process prints costs the
// server and the machine's disk little.
func TestEndlessOutputIsSlowedDown(t *testing.T) {
	testkit.Proves(t, "E3")
	const long = "head -c 96m /dev/zero"
	const least = (96<<20 - rate.Burst) * time.Second / rate.PerSecond * 9 / 10
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begun := time.Now()
	if err := conn.Start(t.Context(), "long", sh(long)); err != nil {
		t.Fatal(err)
	}
	for after, ended := int64(0), false; !ended; after += 8 << 20 { // a slow reader misses output that is no longer kept
		for chunk, err := range d.Output(t.Context(), id, "long", after) {
			if errors.Is(err, guest.ErrTrimmed) {
				break
			}
			if err != nil || chunk.Exit != nil && chunk.Exit.Code != 0 {
				t.Fatalf("a process: %+v, %v", chunk.Exit, err)
			}
			ended = chunk.Exit != nil
		}
	}
	if took := time.Since(begun); took < least {
		t.Errorf("a process: after %v, want at least %v", took, least)
	}
	begun = time.Now()
	exit, err := conn.Run(t.Context(), sh(long), guest.Stdio{Stdout: io.Discard})
	if took := time.Since(begun); err != nil || exit.Code != 0 || took < least {
		t.Errorf("a command: %+v, %v, after %v, want at least %v", exit, err, took, least)
	}
}

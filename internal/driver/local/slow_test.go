package local_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// A process in a sandbox waits for its reader: 64 MiB arrive whole through a spool that keeps 1 MiB.
func TestSlowReaderGetsEveryByte(t *testing.T) {
	d := open(t, t.TempDir(), func(o *local.Options) { o.ReaderPatience = time.Hour })
	id := create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cmd := sh("seq -f %015.0f 1 4194304; exit 3")
	cmd.Keep, cmd.Follow = 1<<20, true
	if err := conn.Start(t.Context(), "flood", cmd); err != nil {
		t.Fatal(err)
	}
	const total = 64 << 20
	line, at, waited := 0, int64(0), false
	var exit *guest.Exit
	for chunk, err := range d.Output(t.Context(), id, "flood", 0) {
		if err != nil {
			t.Fatalf("after %d bytes: %v", at, err)
		}
		if at > total/4 && !waited {
			waited = true
			standsStill(t, conn.Process("flood"), total)
		}
		for i := 0; i < len(chunk.Data); {
			want := fmt.Appendf(nil, "%015d\n", line+1)[at%16:]
			n := min(len(want), len(chunk.Data)-i)
			if !bytes.Equal(chunk.Data[i:i+n], want[:n]) {
				t.Fatalf("at %d: %q, want %q", at, chunk.Data[i:i+n], want[:n])
			}
			i, at = i+n, at+int64(n)
			if at%16 == 0 {
				line++
			}
		}
		exit = chunk.Exit
	}
	if at != total || exit == nil || exit.Code != 3 {
		t.Errorf("%d of %d bytes, and %+v", at, total, exit)
	}
}

// standsStill waits until a process waits for its reader.
func standsStill(t *testing.T, p guest.Process, total int64) {
	t.Helper()
	before := int64(-1)
	testkit.Eventually(t, time.Minute, func() error {
		st, err := p.Status(t.Context())
		still := st.End == before
		before = st.End
		if err != nil || !still || st.Exit != nil || st.End >= total {
			return fmt.Errorf("it does not wait: %+v, %v", st, err)
		}
		return nil
	})
}

// A process that nobody reads, and one whose reader stands still for too long, end without waiting for it.
func TestProcessDoesNotWaitForEver(t *testing.T) {
	d := open(t, t.TempDir(), func(o *local.Options) { o.ReaderPatience = 200 * time.Millisecond })
	id := create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	over := func(name string) {
		testkit.Eventually(t, time.Minute, func() error {
			if st, err := conn.Process(name).Status(t.Context()); err != nil || st.Exit == nil || st.First == 0 {
				return fmt.Errorf("%+v, %v", st, err)
			}
			return nil
		})
	}
	cmd := sh("echo begun; yes | head -c 30000000")
	cmd.Keep = 1 << 20
	for _, name := range []string{"detached", "read"} {
		if err := conn.Start(t.Context(), name, cmd); err != nil {
			t.Fatal(err)
		}
		if name == "detached" {
			over(name)
			continue
		}
		for range d.Output(t.Context(), id, name, -1) {
			over(name) // while this reader stands still
			break
		}
	}
}

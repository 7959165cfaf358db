package local_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
)

// BenchmarkColdStart is from nothing to the first result of a command. Where the time goes is reported by
// the points that the driver passes.
func BenchmarkColdStart(b *testing.B) {
	for name, soft := range map[string]bool{"hard": false, "soft": true} {
		b.Run(name, func(b *testing.B) { coldStart(b, driver.Limits{DiskSoft: soft}) })
	}
}

func coldStart(b *testing.B, limits driver.Limits) {
	var last time.Time
	spent := map[string]time.Duration{}
	d := open(b, b.TempDir(), func(o *local.Options) {
		o.At = func(point string, _ driver.ID) {
			spent[point] += time.Since(last)
			last = time.Now()
		}
	})
	mark := func(point string) {
		spent[point] += time.Since(last)
		last = time.Now()
	}
	warm := create(b, d, limited(limits))
	run(b, d, warm.ID, guest.Cmd{Argv: []string{"true"}})
	clear(spent)
	for b.Loop() {
		last = time.Now()
		st, err := d.Create(b.Context(), limited(limits))
		if err != nil {
			b.Fatal(err)
		}
		mark("created")
		run(b, d, st.ID, guest.Cmd{Argv: []string{"true"}})
		mark("ran")
		b.StopTimer()
		if err := d.Destroy(b.Context(), st.ID); err != nil {
			b.Fatal(err)
		}
		d.WaitIdle(b.Context())
		b.StartTimer()
	}
	for point, took := range spent {
		b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms-to-"+point)
	}
}

func BenchmarkHostExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExec(b *testing.B) {
	d := open(b, b.TempDir())
	st := create(b, d, spec())
	for b.Loop() {
		run(b, d, st.ID, guest.Cmd{Argv: []string{"true"}})
	}
}

func BenchmarkFreezeThaw(b *testing.B) {
	d := open(b, b.TempDir())
	st := create(b, d, spec())
	for b.Loop() {
		if err := d.Freeze(b.Context(), st.ID); err != nil {
			b.Fatal(err)
		}
		if err := d.Thaw(b.Context(), st.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDestroy(b *testing.B) {
	d := open(b, b.TempDir())
	var took time.Duration
	for b.Loop() {
		st, err := d.Create(b.Context(), spec())
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if err := d.Destroy(b.Context(), st.ID); err != nil {
			b.Fatal(err)
		}
		took += time.Since(begun)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms-acknowledged")
}

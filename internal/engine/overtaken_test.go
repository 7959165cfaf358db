package engine_test

import (
	"testing"

	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// A caller that was answered that the sandbox runs can rely on it: a stop that was asked for before, and has not begun
// by then, never begins.
func TestOvertakenWishIsNotBegun(t *testing.T) {
	testkit.Proves(t, "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		sb := srv.ensure(t, project("a"))
		about, goOn := make(chan struct{}), make(chan struct{})
		slow := srv.twin(func(o *engine.Options) {
			o.At = func(point string, s sandbox.Sandbox) {
				if point == "before-stop" {
					close(about)
					<-goOn
				}
			}
		})
		stopped := make(chan error, 1)
		go func() {
			_, err := slow.Handle("default", sb.ID, "test").Stop(t.Context())
			stopped <- err
		}()
		<-about
		if got := srv.ensure(t, project("a")); got.State != sandbox.Running {
			t.Fatalf("it is %s", got.State)
		}
		close(goOn)
		if err := <-stopped; fault.CodeOf(err) != "sandbox_busy" {
			t.Errorf("the stop that was overtaken: %v", err)
		}
		calls, err := srv.fake.Log()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Op == fake.Stop {
				t.Error("it was stopped after it was said to run")
			}
		}
		if row := srv.row(t, project("a")); row.State != sandbox.Running || row.Want != sandbox.WantRunning {
			t.Errorf("it is %s and wanted %s", row.State, row.Want)
		}
	})
}

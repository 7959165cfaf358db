package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

func TestDownStopsWhatTheDataDirectoryHolds(t *testing.T) {
	for _, c := range []struct {
		done api.Down
		code int
		out  string
		err  string
	}{
		{api.Down{}, 0, "0 sandboxes stopped\n", ""},
		{api.Down{Stopped: 1}, 0, "1 sandbox stopped\n", ""},
		{api.Down{Stopped: 2, Failed: 1}, 125, "2 sandboxes stopped\n", "1 sandbox could not be stopped"},
	} {
		s := newShell(t, nil)
		s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) { return c.done, nil }
		if r := s.berth("down"); r.code != c.code || r.out != c.out || !strings.Contains(r.err, c.err) {
			t.Errorf("%+v: %+v", c.done, r)
		}
		if got := decode[api.Down](t, s.berth("down", "--json").out); got != c.done {
			t.Errorf("--json printed %+v", got)
		}
	}
}

func TestDownAsksTheServerThatHoldsTheDataDirectory(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) {
		return api.Down{}, dataDirLocked("process 12 has it", "")
	}
	if out := s.ok("down"); out != "3 sandboxes stopped\n" {
		t.Errorf("printed %q", out)
	}
	if r := s.with("BERTH_DRAIN_TIMEOUT", "1s").berth("down", "--server", "http://127.0.0.1:1"); r.code != 125 || !strings.Contains(r.err, "no answer from http://127.0.0.1:1") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("down", "--server", "nonsense"); r.code != 125 {
		t.Errorf("%+v", r)
	}
	if r := s.berth("down", "--listen", "nowhere"); r.code != 125 {
		t.Errorf("%+v", r)
	}
}

// A server that was asked to end no longer listens, and has its data directory for a moment. The command waits for it,
// and asks at the address that the server was configured with.
func TestDownWaitsForAServerThatEnds(t *testing.T) {
	s := newShell(t, nil)
	tries := 0
	s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) {
		if tries++; tries < 3 {
			return api.Down{}, dataDirLocked("process 12 has it", "")
		}
		return api.Down{Stopped: 1}, nil
	}
	if out := s.ok("down", "--listen", "127.0.0.1:1"); out != "1 sandbox stopped\n" || tries != 3 {
		t.Errorf("printed %q after %d tries", out, tries)
	}
	s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) {
		return api.Down{}, dataDirLocked("process 12 has it", "")
	}
	if r := s.with("BERTH_DRAIN_TIMEOUT", "1s").berth("down", "--listen", "127.0.0.1:1"); r.code != 125 || !strings.Contains(r.err, "no answer from http://127.0.0.1:1") || !strings.Contains(r.err, "name it with --server") {
		t.Errorf("%+v", r)
	}
}

// The server that was named is asked; what is on this machine is left alone, even if the server does not answer.
func TestDownAsksTheServerThatIsNamed(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) {
		t.Error("this machine's sandboxes were stopped")
		return api.Down{}, nil
	}
	if out := s.ok("down"); out != "3 sandboxes stopped\n" {
		t.Errorf("printed %q", out)
	}
	if r := s.with("BERTH_SERVER", "http://berth.invalid:1").berth("down"); r.code != 125 || !strings.Contains(r.err, "no answer from http://berth.invalid:1") {
		t.Errorf("%+v", r)
	}
	nowhere := filepath.Join(t.TempDir(), "none")
	if r := s.with("BERTH_SERVER", "http://127.0.0.1:1").berth("down", "--data-dir", nowhere); r.code != 125 || !strings.Contains(r.err, "no answer from http://127.0.0.1:1") {
		t.Errorf("neither a server nor a data directory: %+v", r)
	}
	s.deps.Down = func(context.Context, *config.Loaded) (api.Down, error) { return api.Down{Stopped: 1}, nil }
	if out := s.with("BERTH_SERVER", "http://127.0.0.1:1").ok("down", "--data-dir", t.TempDir()); out != "1 sandbox stopped\n" {
		t.Errorf("a server of this machine that does not run: %q", out)
	}
}

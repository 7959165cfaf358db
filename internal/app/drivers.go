package app

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template/base"
)

// inFlight is how many calls one driver gets at once.
const inFlight = 64

// makers make the drivers that this binary holds.
var makers = map[string]func(*System, context.Context) (driver.Driver, error){
	"fake":  func(s *System, _ context.Context) (driver.Driver, error) { return fake.Open(s.cfg.FakeDriverDir) },
	"local": (*System).openLocal,
}

// Drivers lists the kinds of driver that this binary holds.
func Drivers() []string { return slices.Sorted(maps.Keys(makers)) }

// openDrivers makes every driver, each with the policies that no driver has itself. One that does not
// work on this machine is left out, with words, unless sandboxes would go to it.
func (s *System) openDrivers(ctx context.Context, m *telemetry.Metrics) error {
	s.drivers = map[string]driver.Driver{}
	for kind, open := range makers {
		d, err := open(s, ctx)
		if err != nil && s.needed(kind) {
			return err
		}
		if err != nil {
			s.log.Warn("the driver "+kind+" is not available: "+err.Error(), "driver", kind)
			continue
		}
		if c, ok := d.(io.Closer); ok {
			s.closers = append(s.closers, c)
		}
		s.drivers[kind] = driver.WithRetry(driver.WithLimit(driver.WithMetrics(d, m.ObserveDriver), inFlight), driver.Backoff{})
	}
	return nil
}

// needed reports whether a sandbox that names no driver may go to this one.
func (s *System) needed(kind string) bool {
	for _, name := range s.templates.Names() {
		if s.templates.Spec(name).Driver == kind {
			return true
		}
	}
	return s.cfg.DefaultDriver == kind
}

func (s *System) openLocal(ctx context.Context) (driver.Driver, error) {
	return local.New(ctx, s.localOptions())
}

func (s *System) localOptions() local.Options {
	return local.Options{
		Dir:    filepath.Join(s.cfg.DataDir, "local"),
		Exe:    s.Exe,
		Bases:  func(name string) (string, error) { return base.Dir(s.cfg.DataDir, name), nil },
		Attach: s.attach,
		At:     func(point string, id driver.ID) { s.at(point, string(id)) },
		Log:    s.log,
	}
}

// attach serves what leads out of a running instance: its proxy and its services. They are those that its
// template has now, whatever it had when the instance was made: a way out that was taken away is gone
// with the next start of the server, and the environment of commands always tells the truth.
func (s *System) attach(ctx context.Context, st driver.Status, _ driver.Spec, conn guest.Conn) func() {
	t, err := s.templates.Lookup(st.Labels[engine.LabelTemplate])
	if err != nil || len(t.Egress) == 0 && len(t.Services) == 0 {
		return func() {}
	}
	meter := s.traffic.of(st.Key.Sandbox)
	detach, err := egress.Attach(ctx, conn, egress.Spec{Sandbox: st.Key.Sandbox, Rules: t.Egress, Services: t.Services, Log: s.log, Meter: meter})
	if err != nil {
		s.log.Error("open the way out of a sandbox", "sandbox_id", st.Key.Sandbox, "error", err)
		return func() {}
	}
	return func() {
		detach()
		s.traffic.boxes.CompareAndDelete(st.Key.Sandbox, meter.sum)
	}
}

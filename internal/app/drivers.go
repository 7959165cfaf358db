package app

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	_ "unsafe" // for go:linkname

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/template/base"
)

// iscgo reports whether the program is linked with cgo.
//
//go:linkname iscgo runtime.iscgo
var iscgo bool

// maxDriverCalls is the number of concurrent calls to one driver.
const maxDriverCalls = 64

// makers holds the constructors of the drivers in this program.
var makers = map[string]func(*System, context.Context) (driver.Driver, error){
	"fake":  func(s *System, _ context.Context) (driver.Driver, error) { return fake.Open(s.cfg.FakeDriverDir) },
	"local": (*System).openLocal,
}

// Drivers lists the names of the drivers in this program.
func Drivers() []string { return slices.Sorted(maps.Keys(makers)) }

// openDrivers opens every driver and adds retries, a limit of concurrent calls, and metrics. A driver that does not work
// on this machine is left out with a warning. It is an error if the default driver or a template's driver does not work.
func (s *System) openDrivers(ctx context.Context) error {
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
		if l, ok := d.(driver.Limiter); ok {
			for _, what := range l.Unlimited() {
				s.log.Warn("sandboxes of the driver "+kind+": "+what, "driver", kind)
				s.warnings = append(s.warnings, what)
			}
		}
		if c, ok := d.(io.Closer); ok {
			s.closers = append(s.closers, c)
		}
		s.drivers[kind] = driver.WithRetry(driver.WithLimit(driver.WithMetrics(d, s.metrics.ObserveDriver), maxDriverCalls), driver.Backoff{})
	}
	return nil
}

// needed reports whether the driver is the default driver or the driver of a template.
func (s *System) needed(kind string) bool {
	for _, name := range s.templates.Names() {
		if s.templates.Spec(name).Driver == kind {
			return true
		}
	}
	return s.cfg.DefaultDriver == kind
}

func (s *System) openLocal(ctx context.Context) (driver.Driver, error) {
	if s.opts.Exe == "" && iscgo {
		e := fault.Errorf("open the local driver", api.CodeInvalidConfig, "this program was built with cgo and cannot become the helper in sandboxes")
		e.Hint = "Build it with CGO_ENABLED=0, or name a berth binary of the same version: Config.GuestPath of package berth."
		return nil, e
	}
	if err := s.openGateway(ctx); err != nil {
		return nil, err
	}
	d, err := local.New(ctx, s.localOptions())
	if err != nil {
		return nil, err
	}
	s.drainOtherGateways(ctx)
	return d, nil
}

func (s *System) localOptions() local.Options {
	return local.Options{
		Dir:    filepath.Join(s.cfg.DataDir, "local"),
		Exe:    s.opts.Exe,
		Bases:  func(name string) (string, error) { return base.Dir(s.cfg.DataDir, name), nil },
		Attach: s.attach,
		At:     func(point string, id driver.ID) { s.at(point, string(id)) },
		Log:    s.log,
	}
}

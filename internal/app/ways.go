package app

import (
	"context"
	"path/filepath"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/egress/gateway"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
)

// gatewayDir is the directory of the sockets of the process that serves the ways out of sandboxes.
func (s *System) gatewayDir() string { return filepath.Join(s.cfg.DataDir, "egress") }

// openGateway prepares to serve the ways out of sandboxes in another process. If this process is to serve them, those of
// other servers give up their listeners.
func (s *System) openGateway(ctx context.Context) (err error) {
	switch {
	case s.stopOnly:
		return nil
	case s.opts.Gateway == "":
		if err := gateway.Drain(ctx, s.gatewayDir()); err != nil {
			s.log.Warn("take over the ways out of sandboxes", "error", err)
		}
		return nil
	}
	s.gateway, err = gateway.New(gateway.Options{
		Dir: s.gatewayDir(), Program: s.opts.Gateway, Log: s.log, Meter: totalMeter{s.metrics}, Lost: s.metrics.EgressRestarts.Inc,
	})
	if err == nil {
		s.closers = append(s.closers, s.gateway) // before the driver, which would detach running instances
	}
	return err
}

// drainOtherGateways ends processes of other versions. Running instances are attached by then.
func (s *System) drainOtherGateways(ctx context.Context) {
	if s.gateway == nil {
		return
	}
	if err := s.gateway.DrainOthers(ctx); err != nil {
		s.log.Warn("take over the ways out of sandboxes", "error", err)
	}
}

// endGateways ends the processes of the ways out, which no sandbox uses any more.
func (s *System) endGateways(ctx context.Context) {
	if err := gateway.End(ctx, s.gatewayDir()); err != nil {
		s.log.Warn("end the egress process", "error", err)
	}
}

// attach serves the egress proxy and the services of a running instance. They follow the template as it is now, not as
// it was when the instance was created. So a rule that was removed from the template no longer applies after the next
// start of the server, and the environment of commands matches the services.
func (s *System) attach(ctx context.Context, st driver.Status, _ driver.Spec, conn guest.Conn) func() {
	if s.stopOnly {
		return func() {}
	}
	spec, release := egress.Spec{Sandbox: st.Key.Sandbox, Log: s.log}, func() {}
	if t, err := s.templates.Lookup(st.Labels[engine.LabelTemplate]); err == nil {
		spec.Rules, spec.Services = t.Egress, t.ServiceURLs()
		if spec.Headers, release, err = s.headers.attach(ctx, spec.Sandbox, t); err != nil {
			s.log.Error("read the headers of a sandbox's services; requests that need them are refused", "sandbox_id", spec.Sandbox, "error", err)
		}
	}
	forget := release
	if len(spec.Rules) > 0 || len(spec.Services) > 0 {
		sum := s.traffic.of(spec.Sandbox)
		forget = func() {
			release()
			s.traffic.boxes.CompareAndDelete(spec.Sandbox, sum)
		}
		spec.Meter = sum
	}
	detach, err := s.openWays(ctx, st.ID, conn, spec)
	if err != nil {
		s.log.Error("open the way out of a sandbox", "sandbox_id", spec.Sandbox, "error", err)
		return forget
	}
	return func() {
		detach()
		forget()
	}
}

// openWays serves a spec in the process that Options.Gateway asks for.
func (s *System) openWays(ctx context.Context, id driver.ID, conn guest.Conn, spec egress.Spec) (detach func(), err error) {
	if s.gateway != nil {
		return s.gateway.Attach(ctx, string(id), conn, spec)
	}
	spec.Meter = meters{spec.Meter, totalMeter{s.metrics}}
	return egress.Attach(ctx, conn, spec)
}

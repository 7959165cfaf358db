package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// OpenStore opens an object store by its address, for commands that need no server. That of "none" is nil.
func OpenStore(ctx context.Context, address string) (blob.Store, error) {
	return open.Store(ctx, address)
}

// storeAddress is where the configuration says that workspaces are saved.
func storeAddress(cfg *config.Loaded) string {
	if cfg.ObjectStore == "" {
		return filepath.Join(cfg.DataDir, "objects")
	}
	return cfg.ObjectStore
}

// openKeeper opens what saves workspaces; there is none where the object store is "none".
func (s *System) openKeeper(ctx context.Context) error {
	address := storeAddress(s.cfg)
	store, err := open.Store(ctx, address)
	if err != nil {
		return fmt.Errorf("open the object store: %w", err)
	}
	if store == nil {
		return nil
	}
	gate := &keeper.Gate{Store: store, Accept: func() error { return s.checkShared(store) }}
	switch err := gate.Prove(ctx, keeper.ProveAtStart); {
	case (keeper.Unavailable(err) || sandbox.CodeOf(err) == api.CodeBlobFull) && ctx.Err() == nil:
		s.log.Warn("the object store does not answer; the server starts without it, and saves and restores wait until it does", "store", store.String(), "error", err)
	case err != nil:
		return fmt.Errorf("try the object store %s: %w", store, err)
	default:
		s.warnUnconditional(gate)
	}
	if s.cfg.DatabaseURL != "" && !strings.HasPrefix(address, "s3://") {
		s.log.Warn("workspaces are saved in a directory of this machine, and the database may be shared with others: every server on it must reach the same directory", "store", store.String())
	}
	s.keeper = &keeper.Keeper{
		Store: gate, Dir: filepath.Join(s.cfg.DataDir, "indexes"),
		Plan: s.workspace, Drivers: s.drivers, Stale: s.cfg.SyncStaleThreshold, Log: s.log,
		Retention: s.cfg.DeletedRetention, Records: s.Store, Known: s.knows,
		IfFree: func(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (bool, error) {
			return s.Engine.IfFree(ctx, id, do)
		},
	}
	s.keeper.Sweep()
	return nil
}

// warnUnconditional says what a store without conditional writes means.
func (s *System) warnUnconditional(gate *keeper.Gate) {
	if !gate.Conditional() {
		s.log.Warn("the object store does not keep the promise of conditional writes; the lease of each sandbox stands in, and no other tool may write there", "store", gate.String())
	}
}

// runGate tries an object store that did not answer at the start until it does.
func (s *System) runGate(ctx context.Context) {
	gate, ok := s.keeper.Store.(*keeper.Gate)
	if !ok {
		return
	}
	gate.Run(ctx, func() {
		s.log.Info("the object store answers; workspaces are saved again", "store", gate.String())
		s.warnUnconditional(gate)
	})
}

// checkShared refuses templates whose sandboxes write to one prefix, which only conditional writes keep
// from losing each other's versions.
func (s *System) checkShared(store blob.Store) error {
	for _, name := range s.templates.Names() {
		if w := s.templates.Workspace(sandbox.Sandbox{Spec: sandbox.Spec{Template: name}}); w.Shared && !w.Off {
			e := sandbox.Errorf("check templates", api.CodeInvalidConfig, "the sandboxes of template %s have one workspace in common, and %s does not do conditional writes, so that one of them could lose what another saved", name, store)
			e.Hint = "Add {sandbox} to the template's s3_key_prefix, or use a store that does them."
			return e
		}
	}
	return nil
}

// workspace is what the sandbox's template says of its workspace.
func (s *System) workspace(sb sandbox.Sandbox) keeper.Plan {
	return keeper.Plan(s.templates.Workspace(sb))
}

// knows reports whether it is known where a sandbox's versions are: it was recorded, or its template is
// still there.
func (s *System) knows(sb sandbox.Sandbox) bool {
	if sb.Prefix != "" {
		return true
	}
	_, err := s.templates.Lookup(sb.Spec.Template)
	return err == nil
}

// recordPrefixes writes down where the versions of sandboxes from before prefixes were recorded are, so that no
// change of a template moves them.
func (s *System) recordPrefixes(ctx context.Context) error {
	for after := ""; ; {
		found, err := s.Store.WithoutPrefix(ctx, after, store.MaxLimit)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, sb := range found {
			after = sb.ID
			if !s.knows(sb) {
				continue
			}
			if err := s.Store.SetPrefix(ctx, sb.ID, s.templates.Workspace(sb).Prefix); err != nil {
				return err
			}
		}
	}
}

// checkKeeper looks whether the object store answers.
func (s *System) checkKeeper(ctx context.Context) api.Check {
	check := api.Check{Name: "object store", Status: "ok"}
	if s.keeper == nil {
		check.Detail = "none: workspaces are not saved"
		return check
	}
	check.Detail = s.keeper.Store.String()
	o, err := s.keeper.Store.Get(ctx, ".berth-ready", blob.GetOptions{})
	if gate, ok := s.keeper.Store.(*keeper.Gate); ok && gate.Closed() != nil && (err == nil || errors.Is(err, blob.ErrNotFound)) {
		err = gate.Closed()
	}
	switch {
	case err == nil:
		_ = o.Body.Close()
	case !errors.Is(err, blob.ErrNotFound):
		check.Status, check.Detail = "warning", err.Error()
		check.Fix = "Sandboxes run on; saving and bringing back workspaces waits until the store answers."
	case s.keeper.Unconditionally():
		check.Detail += "; without conditional writes"
	}
	if n, why := s.keeper.Overdue(); n > 0 && check.Status == "ok" {
		check.Status = "warning"
		check.Detail += fmt.Sprintf("; versions of deleted sandboxes could not be removed (%d): %s", n, why)
		check.Fix = "They are tried again by themselves. The server must be allowed to delete objects there."
	}
	return check
}

// restorer is the keeper as the engine knows it, or nothing.
func (s *System) restorer() engine.Restorer {
	if s.keeper == nil {
		return nil
	}
	return s.keeper
}

// finalizers are what is undone when a sandbox ends.
func (s *System) finalizers() []engine.Finalizer {
	all := []engine.Finalizer{{Name: "holds", Do: func(ctx context.Context, sb sandbox.Sandbox) error { return s.Store.DropAll(ctx, sb.ID) }}}
	if s.keeper != nil {
		all = append(all, engine.Finalizer{Name: "workspace", Do: s.keeper.End})
	}
	return all
}

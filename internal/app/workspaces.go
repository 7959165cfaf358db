package app

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/workspacesync"
)

// OpenStore opens an object store by its address, for commands that need no server. For the address "none" it returns
// nil.
func OpenStore(ctx context.Context, address string) (blob.Store, error) {
	return open.Store(ctx, address)
}

// storeAddress returns the configured address of the object store for workspaces.
func storeAddress(cfg *config.Loaded) string {
	if cfg.ObjectStore == "" {
		return filepath.Join(cfg.DataDir, "objects")
	}
	return cfg.ObjectStore
}

// openSyncer opens the object store and creates the syncer. If the store is "none", there is no syncer. A System that
// only stops sandboxes works without a syncer if the store cannot be opened.
func (s *System) openSyncer(ctx context.Context) error {
	gate, err := s.openGate(ctx)
	if err != nil && s.stopOnly {
		s.log.Warn("workspaces cannot be saved now", "error", err)
		return nil
	}
	if gate == nil || err != nil {
		return err
	}
	spool, err := s.openSpool(ctx)
	if err != nil {
		return err
	}
	s.syncer = workspacesync.New(workspacesync.Options{
		Store: gate, Dir: filepath.Join(s.cfg.DataDir, "indexes"), Spool: spool,
		Plan: s.workspace, Drivers: s.drivers, Stale: s.cfg.SyncStaleThreshold,
		Retention: s.cfg.DeletedRetention, Records: s.store.Versions(), Known: s.prefixKnown,
		IfFree: func(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (bool, error) {
			return s.engine.IfFree(ctx, id, do)
		},
		Observe: s.metrics.ObserveSync, Metrics: s.metrics, Log: s.log, At: s.at,
	})
	s.syncer.Sweep()
	return nil
}

// openGate opens the object store behind a gate, which stays closed while the store does not answer. It returns nil for
// the address "none".
func (s *System) openGate(ctx context.Context) (*workspacesync.Gate, error) {
	address := storeAddress(s.cfg)
	store, err := open.Store(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("open the object store: %w", err)
	}
	if store == nil {
		return nil, nil
	}
	gate := workspacesync.NewGate(store, func() error { return s.checkShared(store) })
	switch err := gate.Prove(ctx, workspacesync.ProveAtStart); {
	case (workspacesync.Unavailable(err) || fault.CodeOf(err) == api.CodeBlobFull) && ctx.Err() == nil:
		s.log.Warn("the object store does not answer; the server starts without it, and saves and restores wait until it does", "store", store.String(), "error", err)
	case err != nil:
		return nil, fmt.Errorf("try the object store %s: %w", store, err)
	default:
		s.warnUnconditional(gate)
	}
	if s.cfg.DatabaseURL != "" && !strings.HasPrefix(address, "s3://") {
		s.log.Warn("workspaces are saved in a directory of this machine, and the database may be shared with others: every server on it must reach the same directory", "store", store.String())
	}
	return gate, nil
}

// warnUnconditional logs a warning if the object store has no conditional writes.
func (s *System) warnUnconditional(gate *workspacesync.Gate) {
	if !gate.Conditional() {
		s.log.Warn("the object store does not keep the promise of conditional writes; the lease of each sandbox stands in, and no other tool may write there", "store", gate.String())
	}
}

// runGate retries an object store that did not answer at the start, until it answers.
func (s *System) runGate(ctx context.Context) {
	gate, ok := s.syncer.Store().(*workspacesync.Gate)
	if !ok {
		return
	}
	gate.Run(ctx, func() {
		s.log.Info("the object store answers; workspaces are saved again", "store", gate.String())
		s.warnUnconditional(gate)
	})
}

// checkShared returns an error if a template's sandboxes share one prefix in the store. It is called for a store without
// conditional writes, in which such sandboxes could overwrite each other's versions.
func (s *System) checkShared(store blob.Store) error {
	for _, name := range s.templates.Names() {
		if w := s.templates.Workspace(sandbox.Sandbox{Spec: sandbox.Spec{Template: name}}); w.Shared && !w.Off {
			e := fault.Errorf("check templates", api.CodeInvalidConfig, "the sandboxes of template %s have one workspace in common, and %s does not do conditional writes, so that one of them could lose what another saved", name, store)
			e.Hint = "Add {sandbox} to the template's s3_key_prefix, or use a store that does them."
			return e
		}
	}
	return nil
}

// workspace returns the workspace settings of the sandbox's template, with the limits of the configuration.
func (s *System) workspace(sb sandbox.Sandbox) workspacesync.Plan {
	plan := workspacesync.Plan(s.templates.Workspace(sb))
	if most := s.cfg.VersionMaxBytes; most > 0 {
		plan.Bytes = min(cmp.Or(plan.Bytes, most), most)
	}
	if most := s.cfg.VersionMaxStored; most > 0 {
		plan.Stored = min(cmp.Or(plan.Stored, most), most)
	}
	return plan
}

// prefixKnown reports whether the prefix of a sandbox's versions is known: it is recorded, or the sandbox's template
// still exists.
func (s *System) prefixKnown(sb sandbox.Sandbox) bool {
	if sb.Prefix != "" {
		return true
	}
	_, err := s.templates.Lookup(sb.Spec.Template)
	return err == nil
}

// recordPrefixes records the prefix of the versions of each sandbox that has none recorded. A later change of the
// template then does not change the prefix.
func (s *System) recordPrefixes(ctx context.Context) error {
	for after := ""; ; {
		found, err := s.store.Versions().WithoutPrefix(ctx, after, store.MaxLimit)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, sb := range found {
			after = sb.ID
			if !s.prefixKnown(sb) {
				continue
			}
			if err := s.store.Versions().SetPrefix(ctx, sb.ID, s.templates.Workspace(sb).Prefix); err != nil {
				return err
			}
		}
	}
}

// checkSyncer returns the check of the object store for /readyz.
func (s *System) checkSyncer(ctx context.Context) api.Check {
	check := api.Check{Name: "object store", Status: "ok"}
	if s.syncer == nil {
		check.Detail = "none: workspaces are not saved"
		return check
	}
	check.Detail = s.syncer.Store().String()
	var err error
	if gate, ok := s.syncer.Store().(*workspacesync.Gate); ok {
		err = gate.Closed()
	}
	if err == nil {
		err = s.syncer.Ping(ctx)
	}
	switch {
	case err != nil:
		check.Status, check.Detail = "warning", err.Error()
		check.Fix = "Sandboxes run on; saving and bringing back workspaces waits until the store answers."
	case s.syncer.LacksConditionalWrites():
		check.Detail += "; without conditional writes"
	}
	if n, why := s.syncer.Overdue(); n > 0 && check.Status == "ok" {
		check.Status = "warning"
		check.Detail += fmt.Sprintf("; versions of deleted sandboxes could not be removed (%d): %s", n, why)
		check.Fix = "They are tried again by themselves. The server must be allowed to delete objects there."
	}
	return check
}

// restorer returns the syncer as an engine.Restorer, or nil if there is none.
func (s *System) restorer() engine.Restorer {
	if s.syncer == nil {
		return nil
	}
	return s.syncer
}

// finalizers returns the engine's finalizers: they drop the holds of a sandbox and its local workspace data.
func (s *System) finalizers() []engine.Finalizer {
	all := []engine.Finalizer{{Name: "holds", Do: func(ctx context.Context, sb sandbox.Sandbox) error { return s.store.Holds().DropAll(ctx, sb.ID) }}}
	if s.syncer != nil {
		all = append(all, engine.Finalizer{Name: "workspace", Do: s.syncer.End})
	}
	return all
}

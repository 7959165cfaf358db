package store

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// Synced records which version of its workspace a sandbox is now the same as, without any other change.
func (db *DB) Synced(ctx context.Context, l Lease, mark sandbox.SyncMark) (sandbox.Sandbox, error) {
	const op = "record version"
	sb, err := all(ctx, db.write, scanSandbox, `
		update sandboxes set synced_version = $3, synced_incarnation = $4 where `+fence+` returning `+sandboxColumns,
		l.ID, l.Epoch, mark.Version, mark.Incarnation)
	if err == nil && len(sb) == 0 {
		return sandbox.Sandbox{}, stale(op, "sandbox "+l.ID)
	}
	if err != nil {
		return sandbox.Sandbox{}, db.fail(op, err)
	}
	return sb[0], nil
}

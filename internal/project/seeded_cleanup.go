//go:build seeded_cleanup

package project

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// lapse asks a sandbox that is in use again, too: a bug on purpose, which tests must find.
func (p Projects) lapse(ctx context.Context, s sandbox.Sandbox, want sandbox.Want, reason string) (now sandbox.Sandbox, done bool, err error) {
	now, err = p.scope().Want(ctx, s.ID, want, reason, p.actor)
	return now, err == nil, err
}

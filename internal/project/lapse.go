//go:build !seeded_cleanup

package project

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// lapse asks an idle sandbox to be less, unless it was used or held since it was found.
func (p Projects) lapse(ctx context.Context, s sandbox.Sandbox, want sandbox.Want, reason string) (now sandbox.Sandbox, done bool, err error) {
	return p.scope().Lapse(ctx, s, want, reason, p.actor)
}

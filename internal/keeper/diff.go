package keeper

import (
	"context"

	"github.com/berthdev/berth/internal/workspace"
)

// Diff compares two versions; an empty from is the version before to, or nothing before the first. It
// returns the two with what differs.
func Diff(ctx context.Context, repo *workspace.Repo, from, to string) (a, b workspace.Version, d *workspace.Difference, err error) {
	b, there, err := repo.Version(ctx, to)
	if err != nil {
		return a, b, nil, err
	}
	if from == "" {
		if from, err = before(ctx, repo, b.ID); err != nil {
			return a, b, nil, err
		}
	}
	var here *workspace.Manifest
	if from != "" {
		if a, here, err = repo.Version(ctx, from); err != nil {
			return a, b, nil, err
		}
	}
	return a, b, workspace.Diff(here, there), nil
}

// before is the version that was saved before another one, of those there are.
func before(ctx context.Context, repo *workspace.Repo, id string) (string, error) {
	past := false
	for v, err := range repo.Versions(ctx) {
		if err != nil || past {
			return v.ID, err
		}
		past = v.ID == id
	}
	return "", nil
}

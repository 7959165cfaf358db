package workspacesync

import (
	"context"

	"github.com/berthdev/berth/internal/workspace"
)

// Diff compares two versions and returns both with the differences. An empty from means the version before to, or
// the empty workspace if to is the first version.
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

// before returns the id of the version that precedes the given one in the history, or "".
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

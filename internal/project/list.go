package project

import (
	"context"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Statuses lists the possible statuses of a project's sandbox.
var Statuses = func() (words []string) {
	for _, state := range sandbox.States {
		if word := state.ProjectStatus(); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}()

// List returns one page of the sandboxes of the tenant's projects, newest first, and the position of the next page. If
// status is not empty, it lists only sandboxes with this status.
func (p Projects) List(ctx context.Context, status string, page store.Page) ([]sandbox.Sandbox, store.Position, error) {
	states, err := statesOf(status)
	if err != nil {
		return nil, store.Position{}, err
	}
	return p.scope().Sandboxes(ctx, store.Filter{OwnerKind: sandbox.OwnerProject, States: states}, page)
}

// statesOf returns the states of sandboxes with a status. It returns nil for an empty status, which means all states.
func statesOf(status string) (states []sandbox.State, err error) {
	if status == "" {
		return nil, nil
	}
	for _, state := range sandbox.States {
		if state.ProjectStatus() == status {
			states = append(states, state)
		}
	}
	if states == nil {
		err = fault.Errorf("list projects", api.CodeInvalidRequest, "there is no status %q; there are %s", status, strings.Join(Statuses, ", "))
	}
	return states, err
}

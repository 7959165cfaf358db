//go:build !seeded_pushany

package keeper

// restored: only what restored a workspace, or was born empty, saves it.
const restored = true

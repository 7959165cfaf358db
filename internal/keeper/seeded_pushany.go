//go:build seeded_pushany

package keeper

const restored = false

//go:build seeded_purgeshared

package keeper

const careful = false

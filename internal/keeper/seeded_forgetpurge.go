//go:build seeded_forgetpurge

package keeper

const lasting = false

//go:build seeded_expirenow

package keeper

const patient = false

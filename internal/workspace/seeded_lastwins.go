//go:build seeded_lastwins

package workspace

const lastWins = true

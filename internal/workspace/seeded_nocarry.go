//go:build seeded_nocarry

package workspace

const carried = false

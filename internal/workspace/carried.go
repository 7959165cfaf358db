//go:build !seeded_nocarry

package workspace

// carried: what cannot be read stays in the version as it was.
const carried = true

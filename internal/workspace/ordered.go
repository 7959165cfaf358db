//go:build !seeded_clock

package workspace

// ordered: a version sorts behind the one before it, whatever the clock says.
const ordered = true

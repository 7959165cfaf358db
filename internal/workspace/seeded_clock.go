//go:build seeded_clock

package workspace

const ordered = false

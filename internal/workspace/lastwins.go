//go:build !seeded_lastwins

package workspace

// lastWins: HEAD is written only while it is what it was when it was read.
const lastWins = false

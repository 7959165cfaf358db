//go:build seeded_tether

package boot

// untethered ties instances to the thread of the server that made them: a bug on purpose,
// which tests must find.
const untethered = false
